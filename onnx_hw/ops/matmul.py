"""MatMul: ``result[pixel] = weights · operand[pixel]``, integers, exact; also the arithmetic of a convolution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.numbers import Numbers, Turns
from onnx_hw.ops.operator import Operator, Resources
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.sliding import ring_blocks
from onnx_hw.order import Order, fewest_lanes
from onnx_hw.tensor import Tensor

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

EXACT_IN_FLOAT64 = 1 << 53


@dataclass(frozen=True, repr=False)
class MatMulFolding(Folding):
    """Attributes:
    in_lanes, out_lanes: channels per beat of the vectors, of the results.
    pixels: vectors side by side; each weight that is fetched serves all of them.
    """

    in_lanes: int
    out_lanes: int
    pixels: int = 1

    def takes(self, tensor: Tensor) -> Order:
        return Order(tensor, self.in_lanes, self.pixels)

    def gives(self, tensor: Tensor) -> Order:
        return Order(tensor, self.out_lanes, self.pixels)


@dataclass(frozen=True, repr=False, eq=False)
class MatMul(Operator[MatMulFolding]):
    """Constant matrix times the vector of each pixel.

    Attributes:
        operand: the vectors.
        weights: (outputs, inputs) int64.
        groups: of the convolution this is the arithmetic of: of the products only one in ``groups`` counts as useful.
    """

    operand: Tensor
    weights: np.ndarray = field(repr=False)
    groups: int = 1

    folding_type = MatMulFolding

    def __post_init__(self) -> None:
        if self.weights.ndim != 2 or self.weights.shape[1] != self.operand.channels:
            raise ValueError(
                f"weights must be (outputs, {self.operand.channels}) for {self.operand!r}, not {self.weights.shape}"
            )

    @cached_property
    def weight_type(self) -> Int:
        low, high = int(self.weights.min()), int(self.weights.max())
        return Int.holding(min(low, 0), max(high, 0))

    def operands(self) -> tuple[Tensor, ...]:
        return (self.operand,)

    def results(self) -> tuple[Tensor, ...]:
        return (self._result,)

    @cached_property
    def _result(self) -> Tensor:
        """The accumulator's type follows from the real weights."""
        low, high = self.operand.range
        positive, negative = np.maximum(self.weights, 0).sum(axis=1), np.minimum(self.weights, 0).sum(axis=1)
        least = int((positive * low + negative * high).min())
        most = int((positive * high + negative * low).max())
        shape = (*self.operand.shape[:2], self.weights.shape[0])
        dtype = Int.holding(min(least, -1), max(most, 0))  # always signed: the adders are
        return Tensor(shape, dtype, least, most)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """Float64 has a fast product and is exact below 2^53, a bound every partial sum keeps."""
        (vectors,) = arrays
        largest = max(map(abs, self.operand.range))
        if int(np.abs(self.weights).sum(axis=1).max()) * largest >= EXACT_IN_FLOAT64:
            return (vectors @ self.weights.T,)
        product = vectors.reshape(-1, vectors.shape[-1]).astype(np.float64) @ self.weights.T.astype(np.float64)
        return (product.astype(np.int64).reshape(*vectors.shape[:-1], -1),)

    @property
    def macs(self) -> int:
        return self.operand.pixels * self.weights.size // self.groups

    def turns(self, folding: MatMulFolding) -> tuple[int, int]:
        """(groups of results, beats of a vector)."""
        return self.gives(folding)[0].groups, self.takes(folding)[0].groups

    def weight_words(self, folding: MatMulFolding) -> np.ndarray:
        """For each group of results, for each beat of a vector: ``out_lanes · in_lanes`` weights, inputs inside."""
        outputs, inputs = self.weights.shape
        rows = min(folding.out_lanes, outputs)
        words = Order(Tensor((1, outputs, inputs), self.weight_type), folding.in_lanes, rows)
        filled = (folding.out_lanes - rows) * folding.in_lanes  # lanes that have no result in any word
        return np.pad(words.to_beats(self.weights[None, None]), [(0, 0), (0, filled)])

    def cycles(self, folding: MatMulFolding) -> int:
        groups, beats = self.turns(folding)
        return self.takes(folding)[0].pixel_groups * groups * beats

    def foldings(
        self, interval: int, in_lanes: int | None = None, out_lanes: int | None = None
    ) -> Iterator[MatMulFolding]:
        """For every number of result lanes, the fewest input lanes that keep up; wider ones of equal use left out."""
        groups_seen: set[int] = set()
        for lanes in range(1, self._result.channels + 1):
            groups = Order(self._result, lanes).groups
            least = fewest_lanes(self.operand, interval // groups)
            if groups in groups_seen or least is None:
                continue
            groups_seen.add(groups)
            yield MatMulFolding(least, lanes)

    def latency(self, folding: MatMulFolding) -> int:
        """Ten stages around the multipliers, and one for each level of the adder tree."""
        return 10 + (folding.in_lanes - 1).bit_length()

    def schedule(self, folding: MatMulFolding) -> Schedule:
        groups, beats = self.turns(folding)
        pixels = self.takes(folding)[0].pixel_groups
        first_group = Turns(0, pixels, groups * beats, np.arange(beats, dtype=np.int64))
        engine = Engine(
            "matmul",
            pixels * groups * beats,
            self.latency(folding),
            pops={"i": Numbers((first_group,)) if groups > 1 and pixels > 1 else Numbers.every(pixels * beats)},
            pushes={"o": Numbers.every(pixels * groups, beats, beats - 1)},
        )
        return Schedule((engine,))

    def resources(self, folding: MatMulFolding) -> Resources:
        groups, beats = self.turns(folding)
        weights = folding.in_lanes * folding.out_lanes
        lanes, results = weights * folding.pixels, folding.out_lanes * folding.pixels
        accumulator, weight = self.results()[0].dtype.bits, self.weight_type.bits
        adders = results * (folding.in_lanes - 1) * (weight + self.operand.dtype.bits + 2)
        vector = ring_blocks(self.operand.dtype.bits * self.takes(folding)[0].width, beats, 1) if groups > 1 else 0
        return Resources(
            mac_lanes=lanes,
            dsp=lanes,
            lut=80 + adders + results * accumulator * 2,
            bram=ring_blocks(weight * weights, groups * beats, 1) + vector,
        )

    def core(self, folding: MatMulFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.matmul import MatMul as Circuit

        weight, result = self.weight_type, self.results()[0].dtype
        return Circuit(
            self.weight_words(folding),
            groups=self.turns(folding)[0],
            weight_bits=weight.bits,
            weight_signed=weight.signed,
            bits=self.operand.dtype.bits,
            signed=self.operand.dtype.signed,
            out_bits=result.bits,
            out_signed=result.signed,
            in_lanes=folding.in_lanes,
            out_lanes=folding.out_lanes,
            pixels=folding.pixels,
            depth=depths["o"],
        )

    @property
    def parameters(self) -> Mapping[str, object]:
        return {"weights": int(self.weights.size)}

    def __repr__(self) -> str:
        return f"MatMul {self.weights.shape[1]}→{self.weights.shape[0]}"
