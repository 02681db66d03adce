"""Add: ``a + b`` element by element, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.integers import Int
from onnx_hw.network import Tensor
from onnx_hw.ops.operator import Folding, Operator, Resources, same_lanes
from onnx_hw.ops.schedule import Engine, Schedule

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component


@dataclass(frozen=True, repr=False)
class Add(Operator):
    """Sum of two integer tensors of one shape."""

    a: Tensor
    b: Tensor

    inputs = ("a", "b")
    one_width = True
    LATENCY = 1

    def __post_init__(self) -> None:
        if self.a.shape != self.b.shape:
            raise ValueError(f"the operands of a sum must have one shape, not {self.a.shape} and {self.b.shape}")

    def operands(self) -> tuple[Tensor, ...]:
        return (self.a, self.b)

    def results(self) -> tuple[Tensor, ...]:
        low = self.a.range[0] + self.b.range[0]
        high = self.a.range[1] + self.b.range[1]
        return (Tensor(self.a.shape, Int.holding(low, high), low, high),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return (arrays[0] + arrays[1],)

    def foldings(self, interval: int, in_lanes: int | None = None, out_lanes: int | None = None) -> Iterator[Folding]:
        yield from same_lanes(self.a, interval, in_lanes, out_lanes)

    def schedule(self, folding: Folding) -> Schedule:
        beats = np.arange(self.a.beats(folding.in_lanes))
        return Schedule((Engine("add", len(beats), self.LATENCY, {"a": beats, "b": beats}, {"o": beats}),))

    def resources(self, folding: Folding) -> Resources:
        return Resources(lut=20 + folding.in_lanes * self.results()[0].dtype.bits)

    def core(self, folding: Folding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.add import Add as Circuit

        a, b, result = self.a.dtype, self.b.dtype, self.results()[0].dtype
        return Circuit(
            (a.bits, a.signed), (b.bits, b.signed), (result.bits, result.signed),
            lanes=folding.in_lanes,
            depth=depths["o"],
        )

    def __repr__(self) -> str:
        return "Add"
