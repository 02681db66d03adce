"""Cores with a folding each, drawn by a seed: small and middle ones, as networks have them.

The operators of each kind are drawn by ``DRAWS`` of the cores' test files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.candidates import in_fewest_blocks
from onnx_hw.schedule.cost_model import Cost
from onnx_hw_boards.families.ice40.recipes import ICE40_UP
from support import core_tests
from support.hand_built_designs import alone

MAX_ELEMENTS_PER_BEAT = 24
"""Elements side by side at most: a core stays small."""

IN_BLOCKS = "in_blocks"
"""End of the names of kinds whose memories are in block RAM."""

MAX_SLOWDOWN = 100
"""Times as many cycles that a core with memories in block RAM may take."""


@dataclass(frozen=True)
class Drawn:
    """One core.

    Attributes:
        name: kind of the operator, a key of ``kinds()``.
        depth: depth of every FIFO behind it.
    """

    name: str
    operator: Operator
    folding: Folding
    depth: int

    @property
    def design(self) -> Design:
        return alone(self.operator, self.folding, self.depth)

    def __repr__(self) -> str:
        return f"{self.name} {self.operator!r} fold={self.folding!r} depth={self.depth}"


@cache
def kinds() -> dict[str, Callable[[Random], Operator]]:
    """Return the functions that draw an operator, by the kind of core: several kinds of an operator stay together."""
    return core_tests.collect("DRAWS")


def drawn(kind: str, seed: int, number: int) -> Drawn:
    """Draw a core; the same one for the same arguments, whatever other kinds there are."""
    draw = Random(f"{kind} {seed} {number}")
    operator = kinds()[kind](draw)
    folding = folding_of(operator, draw)
    if kind.endswith(IN_BLOCKS):
        small = Cost.of(ICE40_UP)
        while (found := in_fewest_blocks(operator, folding, operator.cycles(folding) * MAX_SLOWDOWN, small)) is None:
            folding = folding_of(operator, draw)
        folding = found
    return Drawn(kind, operator, folding, draw.choice((2, 3, 5, 8, 14, 20)))


def drawn_in_turn(seed: int, count: int) -> list[Drawn]:
    """Draw ``count`` cores, of all kinds in turn."""
    names = list(kinds())
    return [drawn(names[number % len(names)], seed, number // len(names)) for number in range(count)]


def folding_of(operator: Operator, draw: Random) -> Folding:
    """Draw a legal folding, of not too many elements side by side."""
    kind, limits = operator.folding_type, operator.limits()
    while True:
        numbers = {}
        for field in kind.names():
            most = limits.get(field, 1)
            seldom = "pixels" in field or field == "taps"
            several = "lanes" in field or field == "steps" or (seldom and draw.random() < 0.25)
            numbers[field] = (
                draw.randint(1, min(most, 12))
                if several
                else int(field not in ("blocks", "quick") and field[-4:] != "tile")
            )
        if "tile" in numbers and limits.get("tile") == 1:
            numbers["tile"] = 1
        folding = kind(**numbers)
        if not operator.illegal(folding):
            widths = [order.width for order in (*operator.input_orders(folding), *operator.output_orders(folding))]
            if max(widths) <= MAX_ELEMENTS_PER_BEAT and (
                not operator.macs or folding_products(operator, folding) <= 2 * MAX_ELEMENTS_PER_BEAT
            ):
                return folding


def folding_products(operator: Operator, folding: Folding) -> int:
    """Return the number of MAC lanes."""
    return operator.macs // max(1, operator.cycles(folding))


def random_image(draw: Random, channels: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)) -> Tensor:
    """Draw a tensor of 4 to 16 rows and columns."""
    size = draw.randint(4, 16)
    return Tensor((size, draw.randint(4, 16), draw.choice(channels)), random_integer_type(draw))


def random_integer_type(draw: Random) -> Int:
    """Draw a type, of eight bits most of the time."""
    return Int(draw.choice((4, 5, 6, 8, 8, 8, 8)), draw.random() < 0.7)


def random_integers(draw: Random, shape: tuple[int, ...], bits: int = 8) -> np.ndarray:
    """Draw constants from the whole type."""
    half = 1 << (bits - 1)
    return np.random.default_rng(draw.randrange(1 << 32)).integers(-half, half, shape)


def random_sliding(draw: Random) -> dict[str, tuple[int, ...]]:
    """Draw a kernel with strides and pads, as arguments by name."""
    rows, columns = draw.choice(((3, 3), (3, 3), (2, 2), (1, 3), (3, 1), (4, 4)))
    pad = draw.randrange(2)
    return {
        "kernel": (rows, columns),
        "strides": draw.choice(((1, 1), (1, 1), (2, 2), (2, 1))),
        "pads": (pad * (rows > 1), pad * (columns > 1)) * 2,
    }
