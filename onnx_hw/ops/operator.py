"""What every hardware operator must say about itself.

A *fact about one operator* lives in its file here; a *decision about the whole graph* lives in a pass that asks these
methods and names no operator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from onnx_hw.ops.folding import EvenFolding, Folding
from onnx_hw.ops.schedule import Schedule
from onnx_hw.order import Order, fewest_lanes
from onnx_hw.reordering import Reordering
from onnx_hw.tensor import Tensor

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component


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


F = TypeVar("F", bound=Folding)


class Operator(ABC, Generic[F]):
    """A hardware operator with its parameters; a frozen dataclass, whose ``repr`` is short.

    ``inputs`` and ``outputs`` name the stream ports of the core in order; ``folding_type`` is F.
    """

    inputs: ClassVar[tuple[str, ...]] = ("i",)
    outputs: ClassVar[tuple[str, ...]] = ("o",)
    folding_type: ClassVar[type[Folding]]

    @abstractmethod
    def operands(self) -> tuple[Tensor, ...]:
        """The type of each input."""

    @abstractmethod
    def results(self) -> tuple[Tensor, ...]:
        """The type of each output."""

    def takes(self, folding: F) -> tuple[Order, ...]:
        """What travels on each input, in which order."""
        return tuple(folding.takes(tensor) for tensor in self.operands())

    def gives(self, folding: F) -> tuple[Order, ...]:
        """What travels on each output, in which order."""
        return tuple(folding.gives(tensor) for tensor in self.results())

    @abstractmethod
    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """The meaning: int64 arrays (frames, height, width, channels) to the same; numpy only, exact."""

    @abstractmethod
    def foldings(self, interval: int, in_lanes: int | None = None, out_lanes: int | None = None) -> Iterator[F]:
        """Foldings that finish a frame in at most ``interval`` cycles and are worth considering; none if impossible.

        ``in_lanes`` and ``out_lanes`` are what the neighbours have chosen already, to be met where that is legal: a
        folding that meets them needs no gearbox.
        """

    @abstractmethod
    def schedule(self, folding: F) -> Schedule:
        """The engines' operations under a folding: the timing, stated as loop nests."""

    @abstractmethod
    def resources(self, folding: F) -> Resources:
        """Estimated cost under a folding."""

    @abstractmethod
    def core(self, folding: F, depths: Mapping[str, int]) -> Component:
        """The circuit (imports ``onnx_hw_rtl`` inside). ``depths`` gives the FIFO depth of each output port."""

    def weight_words(self, folding: F) -> Order | None:
        """Which constant lies where in which word: one word after the other is what the core reads, over and over.

        Unused places are 0. None for a core without constants that change from word to word.
        """
        return None

    def cycles(self, folding: F) -> int:
        """Operations per frame of the busiest engine: the node's own initiation interval."""
        return self.schedule(folding).interval

    def illegal(self, folding: F) -> str:
        """Why a folding cannot be built, or an empty text."""
        for name, most in self.limits().items():
            if not 1 <= getattr(folding, name) <= most:
                return f"{name} must be {'1' if most == 1 else f'1..{most}'} here"
        try:
            self.takes(folding)
            self.gives(folding)
        except ValueError as error:
            return str(error)
        return ""

    def limits(self) -> dict[str, int]:
        """The most that each field of a folding may be, as far as it does not depend on the others."""
        (given, *_), (made, *_) = self.operands(), self.results()
        known = {
            "lanes": given.channels,
            "in_lanes": given.channels,
            "out_lanes": made.channels,
            "pixels": min(given.shape[1], made.shape[1]),
            "in_pixels": given.shape[1],
            "out_pixels": made.shape[1],
        }
        return {name: most for name, most in known.items() if name in self.folding_type.names()}

    def reordered(self, port: str, order: Reordering) -> tuple[Operator[Any], dict[str, Reordering]] | None:
        """The operator that does the same where the elements of one stream, an input or an output, come in that order.

        Returns:
            it, and by port the new order of each stream that then has another one, this one included; None if no
            operator does it, or only with the help of a rearrangement.
        """
        return None

    @property
    def narrowest(self) -> F:
        """The slowest folding, which every operator has."""
        return cast(F, self.folding_type.narrowest())

    @property
    def macs(self) -> int:
        """Multiply-accumulates per frame that count as useful work."""
        return 0

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Constants worth showing, for reports."""
        return {}


def even_lanes(operand: Tensor, interval: int, *wanted: int | None) -> list[int]:
    """Lanes for an operator whose streams are equally wide: the wanted ones that keep up, else the fewest."""
    least = fewest_lanes(operand, interval)
    if least is None:
        return []
    return sorted({lanes for lanes in wanted if lanes and least <= lanes <= operand.channels}) or [least]


def even_foldings(operand: Tensor, interval: int, *wanted: int | None) -> Iterator[EvenFolding]:
    """Those with such lanes."""
    yield from map(EvenFolding, even_lanes(operand, interval, *wanted))


def uneven_tiles(order: Order) -> str:
    """Why a core whose constants change with the channel group cannot follow an order, or an empty text."""
    return "" if order.even_tiles or order.groups == 1 else "tiles must have as many pixels each here"
