"""Gearbox: the same tensor in beats of another width."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.ops.folding import Folding
from onnx_hw.ops.numbers import Numbers
from onnx_hw.ops.operator import Operator, Resources
from onnx_hw.ops.schedule import Engine, Schedule, SharedBuffer
from onnx_hw.order import Order
from onnx_hw.tensor import Tensor

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component


@dataclass(frozen=True, repr=False)
class GearboxFolding(Folding):
    """Attributes:
    in_lanes, out_lanes: channels per beat of the input, of the output.
    pixels: pixels per beat of both.
    """

    in_lanes: int
    out_lanes: int
    pixels: int = 1

    def takes(self, tensor: Tensor) -> Order:
        return Order(tensor, self.in_lanes, self.pixels)

    def gives(self, tensor: Tensor) -> Order:
        return Order(tensor, self.out_lanes, self.pixels)


@dataclass(frozen=True, repr=False)
class Gearbox(Operator[GearboxFolding]):
    """Changes nothing but the number of lanes.

    Attributes:
        operand: what passes through.
        capacity: input beats it stores; None for as many as full rate asks for.
    """

    operand: Tensor
    capacity: int | None = None

    folding_type = GearboxFolding
    LATENCY = 3

    def __post_init__(self) -> None:
        if self.capacity is not None and self.capacity < 1:
            raise ValueError(f"a gearbox must hold at least one beat, not {self.capacity}")

    def operands(self) -> tuple[Tensor, ...]:
        return (self.operand,)

    def results(self) -> tuple[Tensor, ...]:
        return (self.operand,)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return arrays

    def _beats(self, folding: GearboxFolding) -> tuple[int, int]:
        """Of a pixel group, in and out."""
        return self.takes(folding)[0].groups, self.gives(folding)[0].groups

    def _needs_and_released(self, folding: GearboxFolding) -> tuple[np.ndarray, np.ndarray]:
        """Per output beat of a pixel group: the input beat it needs, and how many are done with after it."""
        beats_in, beats_out = self._beats(folding)
        elements = np.minimum((np.arange(beats_out) + 1) * folding.out_lanes, self.operand.channels)
        needs = -(-elements // folding.in_lanes) - 1
        released = elements // folding.in_lanes
        released[-1] = beats_in
        return needs, released

    def live_capacity(self, folding: GearboxFolding) -> int:
        """Input beats that one output beat spans at most."""
        needs, released = self._needs_and_released(folding)
        return int(np.max(needs + 1 - np.concatenate([[0], released[:-1]])))

    def stored_beats(self, folding: GearboxFolding) -> int:
        """Twice what one output beat spans, and one: the writer then never waits for the reader's last beat."""
        return 2 * self.live_capacity(folding) + 1 if self.capacity is None else self.capacity

    def cycles(self, folding: GearboxFolding) -> int:
        return self.takes(folding)[0].pixel_groups * max(self._beats(folding))

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[GearboxFolding]:
        if given is None or wanted is None or given.pixels != wanted.pixels:
            return
        folding = GearboxFolding(given.lanes, wanted.lanes, given.pixels)
        if self.cycles(folding) <= interval:
            yield folding

    def schedule(self, folding: GearboxFolding) -> Schedule:
        beats_in, beats_out = self._beats(folding)
        pixels = self.takes(folding)[0].pixel_groups
        needs, released = self._needs_and_released(folding)
        return Schedule(
            (
                Engine("writer", pixels * beats_in, 0, pops={"i": Numbers.every(pixels * beats_in)}),
                Engine("reader", pixels * beats_out, self.LATENCY, pushes={"o": Numbers.every(pixels * beats_out)}),
            ),
            (SharedBuffer.of_turns(self.stored_beats(folding), pixels, needs, released),),
        )

    def resources(self, folding: GearboxFolding) -> Resources:
        bits = self.operand.dtype.bits
        group = gcd(folding.in_lanes, folding.out_lanes)
        choices = 2 * folding.in_lanes // group
        return Resources(lut=60 + self.gives(folding)[0].width * bits * choices // 2 + 2 * choices)

    def core(self, folding: GearboxFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.gearbox import Gearbox as Circuit

        return Circuit(
            channels=self.operand.channels,
            bits=self.operand.dtype.bits,
            signed=self.operand.dtype.signed,
            in_lanes=folding.in_lanes,
            out_lanes=folding.out_lanes,
            pixels=folding.pixels,
            capacity=self.stored_beats(folding),
            depth=depths["o"],
        )

    def __repr__(self) -> str:
        return "Gearbox"
