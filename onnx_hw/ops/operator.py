"""What every hardware operator must say about itself.

A *fact about one operator* lives in its file here; a *decision about the whole graph* lives in a pass that asks these
methods and names no operator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_hw.ops.schedule import Schedule
from onnx_hw.order import Order, fewest_lanes
from onnx_hw.tensor import Tensor

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component


@dataclass(frozen=True)
class Folding:
    """How wide a node's streams are, hence how often its circuit is reused.

    Attributes:
        in_lanes: integers per beat on every input stream.
        out_lanes: integers per beat on every output stream.
        steps: cycles that a core which can take its time spends on a beat.
    """

    in_lanes: int
    out_lanes: int
    steps: int = 1

    def __repr__(self) -> str:
        return f"{self.in_lanes}×{self.out_lanes}" + (f" in {self.steps} steps" if self.steps > 1 else "")


@dataclass(frozen=True)
class Resources:
    """Estimates of what a core costs.

    Attributes:
        mac_lanes: products per cycle counted as MAC lanes.
        dsp: hardware multipliers for those lanes.
        lut: four-input look-up tables.
        bram: block RAMs of 18 kbit.
        pins: for streams that leave the chip; what a whole design needs, never a core.
    """

    mac_lanes: int = 0
    dsp: int = 0
    lut: int = 0
    bram: int = 0
    pins: int = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.mac_lanes + other.mac_lanes,
            self.dsp + other.dsp,
            self.lut + other.lut,
            self.bram + other.bram,
            self.pins + other.pins,
        )


class Operator(ABC):
    """A hardware operator with its parameters; a frozen dataclass, whose ``repr`` is short.

    ``inputs`` and ``outputs`` name the stream ports of the core in order.
    """

    inputs: ClassVar[tuple[str, ...]] = ("i",)
    outputs: ClassVar[tuple[str, ...]] = ("o",)
    one_width: ClassVar[bool] = False
    """Whether all streams of the core have the same number of lanes."""

    @abstractmethod
    def operands(self) -> tuple[Tensor, ...]:
        """The type of each input."""

    @abstractmethod
    def results(self) -> tuple[Tensor, ...]:
        """The type of each output."""

    def takes(self, folding: Folding) -> tuple[Order, ...]:
        """What travels on each input, in which order."""
        return tuple(Order(tensor, folding.in_lanes) for tensor in self.operands())

    def gives(self, folding: Folding) -> tuple[Order, ...]:
        """What travels on each output, in which order."""
        return tuple(Order(tensor, folding.out_lanes) for tensor in self.results())

    @abstractmethod
    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """The meaning: int64 arrays (frames, height, width, channels) to the same; numpy only, exact."""

    @abstractmethod
    def foldings(self, interval: int, in_lanes: int | None = None, out_lanes: int | None = None) -> Iterator[Folding]:
        """Foldings that finish a frame in at most ``interval`` cycles and are worth considering; none if impossible.

        ``in_lanes`` and ``out_lanes`` are what the neighbours have chosen already, to be met where that is legal: a
        folding that meets them needs no gearbox.
        """

    @abstractmethod
    def schedule(self, folding: Folding) -> Schedule:
        """The engines' operations under a folding: the timing, stated as loop nests."""

    @abstractmethod
    def resources(self, folding: Folding) -> Resources:
        """Estimated cost under a folding."""

    @abstractmethod
    def core(self, folding: Folding, depths: Mapping[str, int]) -> Component:
        """The circuit (imports ``onnx_hw_rtl`` inside). ``depths`` gives the FIFO depth of each output port."""

    def cycles(self, folding: Folding) -> int:
        """Operations per frame of the busiest engine: the node's own initiation interval."""
        return self.schedule(folding).interval

    def illegal(self, folding: Folding) -> str:
        """Why a folding cannot be built, or an empty text."""
        (given, *_), (made, *_) = self.operands(), self.results()
        if not 1 <= folding.in_lanes <= given.channels:
            return f"the lanes in must be 1..{given.channels}"
        if not 1 <= folding.out_lanes <= made.channels:
            return f"the lanes out must be 1..{made.channels}"
        if self.one_width and folding.in_lanes != folding.out_lanes:
            return "the lanes in and out must be equal here"
        if not 1 <= folding.steps <= self.most_steps:
            return f"the steps must be {'1' if self.most_steps == 1 else f'1..{self.most_steps}'} here"
        return ""

    @property
    def most_steps(self) -> int:
        """The most steps a beat can be spread over."""
        return 1

    @property
    def macs(self) -> int:
        """Multiply-accumulates per frame that count as useful work."""
        return 0

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Constants worth showing, for reports."""
        return {}


def same_lanes(operand: Tensor, interval: int, *wanted: int | None) -> Iterator[Folding]:
    """Foldings of an operator whose streams are equally wide: the wanted ones that keep up, else the narrowest."""
    least = fewest_lanes(operand, interval)
    if least is None:
        return
    kept = sorted({lanes for lanes in wanted if lanes and least <= lanes <= operand.channels})
    for lanes in kept or [least]:
        yield Folding(lanes, lanes)
