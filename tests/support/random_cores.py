"""Cores of every operator with a folding each, drawn by a seed: small and middle ones, as networks have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from random import Random

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ops.add import Add
from onnx_hw.ops.argmax import ArgMax
from onnx_hw.ops.concat import Concat
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.gearbox import Gearbox
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.rearrange import Rearrange
from onnx_hw.ops.reduce import Reduce
from onnx_hw.ops.regroup import Regroup
from onnx_hw.ops.requantize import Requantize
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from support.hand_built_designs import alone

MOST_LANES = 24  # elements side by side: a core stays small


@dataclass(frozen=True)
class Drawn:
    """One core.

    Attributes:
        name: of the operator, or of the kind of it.
        depth: of every FIFO behind it.
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


def drawn(seed: int, number: int) -> Drawn:
    """The same for the same numbers; all kinds in turn as ``number`` grows."""
    draw = Random(f"{seed} {number}")
    name = list(KINDS)[number % len(KINDS)]
    operator = KINDS[name](draw)
    return Drawn(name, operator, folding_of(operator, draw), draw.choice((2, 3, 5, 8, 14, 20)))


def folding_of(operator: Operator, draw: Random) -> Folding:
    """A legal one, of not too many elements side by side."""
    kind, limits = operator.folding_type, operator.limits()
    while True:
        numbers = {}
        for field in kind.names():
            most = limits.get(field, 1)
            several = "lanes" in field or field == "steps" or ("pixels" in field and draw.random() < 0.25)
            numbers[field] = draw.randint(1, min(most, 12)) if several else (0 if field.endswith("tile") else 1)
        if "tile" in numbers and limits.get("tile") == 1:
            numbers["tile"] = 1
        folding = kind(**numbers)
        if not operator.illegal(folding):
            widths = [order.width for order in (*operator.takes(folding), *operator.gives(folding))]
            if max(widths) <= MOST_LANES and (
                not operator.macs or folding_products(operator, folding) <= 2 * MOST_LANES
            ):
                return folding


def folding_products(operator: Operator, folding: Folding) -> int:
    """MAC lanes."""
    return operator.macs // max(1, operator.cycles(folding))


def image(draw: Random, channels: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)) -> Tensor:
    size = draw.randint(4, 16)
    return Tensor((size, draw.randint(4, 16), draw.choice(channels)), byte(draw))


def byte(draw: Random) -> Int:
    return Int(draw.choice((4, 5, 6, 8, 8, 8, 8)), draw.random() < 0.7)


def integers(draw: Random, shape: tuple[int, ...], bits: int = 8) -> np.ndarray:
    half = 1 << (bits - 1)
    return np.random.default_rng(draw.randrange(1 << 32)).integers(-half, half, shape)


def sliding(draw: Random) -> dict[str, tuple[int, ...]]:
    rows, columns = draw.choice(((3, 3), (3, 3), (2, 2), (1, 3), (3, 1), (4, 4)))
    pad = draw.randrange(2)
    return {
        "kernel": (rows, columns),
        "strides": draw.choice(((1, 1), (1, 1), (2, 2), (2, 1))),
        "pads": (pad * (rows > 1), pad * (columns > 1)) * 2,
    }


def window(draw: Random) -> Operator:
    return Window(image(draw), **sliding(draw))


def pool(draw: Random) -> Operator:
    return Pool(image(draw), draw.choice(("max", "sum")), **sliding(draw))


def depthwise(draw: Random) -> Operator:
    operand, slides = image(draw), sliding(draw)
    outputs = operand.channels * draw.choice((1, 1, 1, 2))
    return Depthwise(operand, integers(draw, (outputs, *slides.pop("kernel"))), **slides)


def matmul(draw: Random) -> Operator:
    operand = image(draw, (3, 8, 9, 16, 27, 36, 64, 72))
    return MatMul(operand, integers(draw, (draw.choice((4, 8, 10, 16, 32)), operand.channels), draw.choice((4, 8, 8))))


def matmul_in_logic(draw: Random) -> Operator:
    operand = image(draw, (3, 4, 8, 9))
    return MatMul(operand, integers(draw, (draw.choice((2, 4, 6, 8)), operand.channels)))


def product_of_two(draw: Random) -> Operator:
    operand = image(draw, (4, 8, 12, 16))
    return MatMul(operand, Tensor((1, draw.choice((4, 6, 8, 12)), operand.channels), byte(draw)))


def requantize(draw: Random) -> Operator:
    channels, bits = draw.choice((1, 4, 8, 16, 32, 64)), draw.randint(16, 24)
    each = draw.choice((1, channels))
    scales = tuple(Fraction(draw.randrange(400, 3000), 503 << bits - 8) for _ in range(each))
    offsets = tuple(Fraction(draw.randrange(-(10**5), 10**5), 10**3) for _ in range(each))
    operand = Tensor((6, 6, channels), Int(bits))
    return Requantize(operand, scales, offsets, Grid.over(Int(draw.choice((4, 8, 8, 8))), zero_point=0))


def small_requantize(draw: Random) -> Operator:
    """Few steps, or few arguments: thresholds and tables. Of channels that never take a step not all of them are."""
    while True:
        channels, bits = draw.choice((4, 8, 16)), draw.randint(6, 14)
        each = draw.choice((1, channels))
        grid = Int(draw.randint(1, 4))
        scales = tuple(Fraction(draw.randrange(400, 1500), 1009 << max(0, bits - grid.bits)) for _ in range(each))
        offsets = tuple(Fraction(draw.randrange(-(10**3), 10**3), 10**3) for _ in range(each))
        found = Requantize(Tensor((6, 6, channels), Int(bits)), scales, offsets, Grid.over(grid, zero_point=0))
        if (found.exact.missed & found.exact.reached).any():
            return found


def lookup(draw: Random) -> Operator:
    operand = Tensor((6, 6, draw.choice((1, 4, 8))), Int(draw.randint(4, 8)))
    each = draw.choice((1, 1, operand.channels))
    made = Int(draw.choice((4, 8)))
    return Lookup(operand, integers(draw, (each, 1 << operand.dtype.bits), made.bits), made)


def add(draw: Random) -> Operator:
    one = image(draw)
    return Add(
        one, Tensor(one.shape, byte(draw)), draw.choice(((1, 1), (1, -1), (draw.randint(1, 200), draw.randint(1, 200))))
    )


def multiply(draw: Random) -> Operator:
    shape = image(draw).shape
    a, b = (Tensor(shape, Int(draw.choice((8, 8, 12, 16, 20)), True)) for _ in range(2))
    return Multiply(a, b, draw.choice(((0, 0), (3, -7))))


def concat(draw: Random) -> Operator:
    one, axis = image(draw, (4, 8, 12)), draw.randrange(3)
    return Concat((one,) * draw.randint(2, 4), axis)


def fork(draw: Random) -> Operator:
    return Fork(image(draw), draw.randint(2, 3))


def argmax(draw: Random) -> Operator:
    return ArgMax(image(draw, (10, 16, 24)), draw.random() < 0.5, draw.random() < 0.5)


def reduce(draw: Random) -> Operator:
    return Reduce(image(draw, (4, 8, 16, 32)), draw.choice(("max", "sum")))


def gearbox(draw: Random) -> Operator:
    return Gearbox(image(draw, (4, 6, 8, 12, 16, 24)))


def regroup(draw: Random) -> Operator:
    return Regroup(image(draw, (1, 2, 4, 8, 12)))


def rearrange(draw: Random) -> Operator:
    """Transposes, slices, pads, stretches."""
    operand = image(draw, (1, 2, 3, 4, 8))
    at = np.arange(operand.size).reshape(operand.shape)
    made = (
        lambda: at.transpose(draw.choice(((2, 0, 1), (1, 0, 2), (0, 2, 1)))),
        lambda: at[1:-1, 1:-1],
        lambda: np.pad(at, ((1, 1), (1, 1), (0, 0)), constant_values=-1),
        lambda: at.repeat(2, axis=0).repeat(2, axis=1),
    )[draw.randrange(4)]()
    return Rearrange(operand, made.shape, made.reshape(-1))


KINDS: dict[str, Callable[[Random], Operator]] = {
    kind.__name__: kind
    for kind in (
        window,
        gearbox,
        requantize,
        matmul,
        pool,
        regroup,
        depthwise,
        add,
        matmul_in_logic,
        rearrange,
        argmax,
        reduce,
        product_of_two,
        multiply,
        small_requantize,
        concat,
        lookup,
        fork,
    )
}
