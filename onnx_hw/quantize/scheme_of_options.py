"""The scheme that a user's options ask for."""

from __future__ import annotations

from onnx_hw.options import Quantizing
from onnx_hw.quantize.scheme import DEFAULT, Scheme


def scheme_of(asked: Quantizing) -> Scheme | None:
    """None where nothing is asked for."""
    if asked == Quantizing():
        return None
    return Scheme(leaving=asked.output or DEFAULT.leaving)
