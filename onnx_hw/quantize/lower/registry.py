"""The table of lowerings; a decorator adds a row."""

from __future__ import annotations

from collections.abc import Callable

from onnx_hw.onnx.model import Node
from onnx_hw.quantize.builder import Builder

Lowering = Callable[[Builder, Node], None]

LOWERINGS: dict[str, Lowering] = {}
"""By operator of the default domain."""


def lowers(*operators: str) -> Callable[[Lowering], Lowering]:
    """Register the lowering of ONNX operators."""

    def register(lowering: Lowering) -> Lowering:
        LOWERINGS.update(dict.fromkeys(operators, lowering))
        return lowering

    return register
