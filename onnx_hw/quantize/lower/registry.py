"""The table of lowerings; a decorator adds a row."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from onnx_hw.onnx.model import Node
from onnx_hw.quantize.builder import Builder

Lowering = Callable[[Builder, Node], None]

LOWERINGS: dict[str, Lowering] = {}
"""By operator of the default domain."""


class Effect(Enum):
    """What an operator does to the integers that stand for its data: it says where a float model wants new ones.

    Members:
        KEEPS: the result has some of them, with the same meaning.
        SUMS: adds up many of them.
        AFFINE: with a constant, they stand for other numbers.
        BOUNDS: they stand for numbers within bounds.
        BENDS: they stand for any function of the numbers.
        JOINS: the result has those of several tensors.
    """

    KEEPS = auto()
    SUMS = auto()
    AFFINE = auto()
    BOUNDS = auto()
    BENDS = auto()
    JOINS = auto()


EFFECTS: dict[str, Effect] = {}
"""By operator; those that begin or end integers have none."""


def lowers(*operators: str, effect: Effect | None = None) -> Callable[[Lowering], Lowering]:
    """Register the lowering of ONNX operators."""

    def register(lowering: Lowering) -> Lowering:
        LOWERINGS.update(dict.fromkeys(operators, lowering))
        if effect is not None:
            EFFECTS.update(dict.fromkeys(operators, effect))
        return lowering

    return register
