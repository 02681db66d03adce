"""Marks of tests that need software without which everything else can be tested."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

needs_icarus = pytest.mark.skipif(
    shutil.which("iverilog") is None, reason="no iverilog on PATH (on Debian: apt-get install iverilog)"
)
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason='torch is not installed: pip install "onnx-hw[torch]"'
)
needs_brevitas = pytest.mark.skipif(
    importlib.util.find_spec("brevitas") is None, reason="brevitas is not installed: pip install brevitas onnxoptimizer"
)
