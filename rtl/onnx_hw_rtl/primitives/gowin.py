"""Gowin: synthesis finds what it has in the behavioural twins."""

from onnx_hw_rtl.target import Primitives

__all__ = ["PRIMITIVES"]

PRIMITIVES = Primitives()
