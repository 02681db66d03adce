"""iCE40: synthesis finds what it has in the behavioural twins, registers of multipliers and block RAMs included."""

from onnx_hw_rtl.target import Primitives

__all__ = ["PRIMITIVES"]

PRIMITIVES = Primitives(distributed_memory=False)
