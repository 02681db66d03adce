"""Version of onnx-hw, apart from the package itself so that every module may state it."""

from __future__ import annotations

__version__ = "0.2.0.dev0"
