"""Regroup: the same tensor with several pixels in a beat, or with one again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.ops.folding import Folding
from onnx_hw.ops.numbers import Numbers
from onnx_hw.ops.operator import Operator, Resources
from onnx_hw.ops.schedule import Engine, Schedule, SharedBuffer
from onnx_hw.order import UNUSED, Order
from onnx_hw.tensor import Tensor

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component


@dataclass(frozen=True, repr=False)
class RegroupFolding(Folding):
    """Attributes:
    lanes: channels per beat of both streams.
    in_pixels, out_pixels: pixels per beat of the input, of the output; one of them is 1.
    """

    lanes: int
    in_pixels: int = 1
    out_pixels: int = 1

    def takes(self, tensor: Tensor) -> Order:
        return Order(tensor, self.lanes, self.in_pixels)

    def gives(self, tensor: Tensor) -> Order:
        return Order(tensor, self.lanes, self.out_pixels)


@dataclass(frozen=True, repr=False)
class Regroup(Operator[RegroupFolding]):
    """Changes nothing but the number of pixels in a beat, one of the two numbers being 1.

    A beat leaves when all its elements are there; those of a pixel group are given back together, after its last beat.

    Attributes:
        operand: what passes through.
        capacity: input beats it stores; None for as many as full rate asks for.
    """

    operand: Tensor
    capacity: int | None = None

    folding_type = RegroupFolding
    LATENCY = 3

    def __post_init__(self) -> None:
        if self.capacity is not None and self.capacity < 1:
            raise ValueError(f"the ring must hold at least one beat, not {self.capacity}")

    def operands(self) -> tuple[Tensor, ...]:
        return (self.operand,)

    def results(self) -> tuple[Tensor, ...]:
        return (self.operand,)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return arrays

    def illegal(self, folding: RegroupFolding) -> str:
        told = super().illegal(folding)
        return told or ("" if 1 in (folding.in_pixels, folding.out_pixels) else "in_pixels or out_pixels must be 1")

    def cycles(self, folding: RegroupFolding) -> int:
        return max(self.takes(folding)[0].beats, self.gives(folding)[0].beats)

    def foldings(
        self, interval: int, in_lanes: int | None = None, out_lanes: int | None = None
    ) -> Iterator[RegroupFolding]:
        if in_lanes and self.cycles(folding := RegroupFolding(in_lanes)) <= interval:
            yield folding

    def _needs_and_released(self, folding: RegroupFolding) -> tuple[np.ndarray, np.ndarray]:
        """Per output beat of a row: the last input beat it or one before needs; how many are given back after it."""
        row_of_pixels = replace(self.operand, shape=(1, *self.operand.shape[1:]))
        given, made = folding.takes(row_of_pixels), folding.gives(row_of_pixels)
        places = given.places.reshape(-1) // given.width
        beats = np.where(made.elements == UNUSED, -1, places[made.elements]).max(axis=1)
        needs = np.maximum.accumulate(beats)
        column = made.elements[:, 0] // self.operand.channels
        group = column // max(folding.in_pixels, folding.out_pixels)
        ends = np.append(group[1:] != group[:-1], True)
        return needs, np.maximum.accumulate(np.where(ends, needs + 1, 0))

    def live_capacity(self, folding: RegroupFolding) -> int:
        """Input beats that are stored at once at least."""
        needs, released = self._needs_and_released(folding)
        return int(np.max(needs + 1 - np.concatenate([[0], released[:-1]])))

    def stored_beats(self, folding: RegroupFolding) -> int:
        """Two pixel groups: one is read while the next one is written."""
        if self.capacity is not None:
            return self.capacity
        order = self.takes(folding)[0]
        return 2 * order.groups * (folding.out_pixels if folding.in_pixels == 1 else 1)

    def schedule(self, folding: RegroupFolding) -> Schedule:
        written, read = self.takes(folding)[0].beats, self.gives(folding)[0].beats
        return Schedule(
            (
                Engine("writer", written, 0, pops={"i": Numbers.every(written)}),
                Engine("reader", read, self.LATENCY, pushes={"o": Numbers.every(read)}),
            ),
            (
                SharedBuffer.of_turns(
                    self.stored_beats(folding), self.operand.shape[0], *self._needs_and_released(folding)
                ),
            ),
        )

    def resources(self, folding: RegroupFolding) -> Resources:
        pixels = max(folding.in_pixels, folding.out_pixels)
        bits = pixels * folding.lanes * self.operand.dtype.bits
        words = 2 * self.takes(folding)[0].groups
        cells = -(-bits // 4) * -(-words // 16)
        return Resources(lut=60 + 6 * cells + bits // 2)

    def core(self, folding: RegroupFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.regroup import Regroup as Circuit

        return Circuit(
            columns=self.operand.shape[1],
            channels=self.operand.channels,
            bits=self.operand.dtype.bits,
            signed=self.operand.dtype.signed,
            lanes=folding.lanes,
            in_pixels=folding.in_pixels,
            out_pixels=folding.out_pixels,
            capacity=self.stored_beats(folding),
            depth=depths["o"],
        )

    def __repr__(self) -> str:
        return "Regroup"
