"""Interface of all hardware operators.

A *fact about one operator* lives in its file here; a *decision about the whole graph* lives in a pass that asks these
methods and names no operator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.rom_contents import RomImage
from onnx_hw.ops.schedule import Schedule
from onnx_hw.ops.stream_order import Order, fewest_lanes, least_pixels
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import TestVectors
from onnx_hw_boards.demand import Demand, Register
from onnx_hw_boards.families.default import usual_price
from onnx_hw_boards.families.family import Price

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component as Component

    from onnx_hw_rtl.streams.stream import StreamShape
else:
    Component = Any  # Amaranth is loaded where a circuit is made


@dataclass(frozen=True)
class Resources:
    """Estimates of what a core costs.

    Attributes:
        mac_lanes: products per cycle counted as MAC lanes.
        dsp: hardware multipliers for those lanes.
        lut: four-input look-up tables.
        bram: block RAMs, of the family's size.
        pins: for streams that leave the chip; what a whole design needs, never a core.
        ff: flip-flops.
        logic: logic cells, where a look-up table and a flip-flop share one.
    """

    mac_lanes: int = 0
    dsp: int = 0
    lut: int = 0
    bram: int = 0
    pins: int = 0
    ff: int = 0
    logic: int = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.mac_lanes + other.mac_lanes,
            self.dsp + other.dsp,
            self.lut + other.lut,
            self.bram + other.bram,
            self.pins + other.pins,
            self.ff + other.ff,
            self.logic + other.logic,
        )


def priced(demand: Demand, mac_lanes: int = 0, price: Price = usual_price) -> Resources:
    """Return the cost of a demand on the chips of a family."""
    cells = price(demand)
    return Resources(mac_lanes, cells.dsp, cells.lut, cells.bram, ff=cells.ff, logic=cells.logic)


OWN_RESET = Demand.of(Register(1))
"""Demand that a design adds to every core."""


@lru_cache(maxsize=1 << 16)
def _estimated(operator: Operator[Any], folding: Any, price: Price) -> Resources:
    """Return an estimate, remembered, since the search asks for it again and again."""
    return priced(_demanded(operator, folding), operator.lanes(folding), price)


@lru_cache(maxsize=1 << 14)
def _demanded(operator: Operator[Any], folding: Any) -> Demand:
    """Return the demand of a core, which is the same for every family."""
    return operator.demand(folding) + OWN_RESET


F = TypeVar("F", bound=Folding)


class Operator(ABC, Generic[F]):
    """A hardware operator with its parameters; a frozen dataclass, whose ``repr`` is short.

    ``inputs`` and ``outputs`` name the stream ports of the core in order; ``folding_type`` is F.
    """

    inputs: ClassVar[tuple[str, ...]] = ("i",)
    outputs: ClassVar[tuple[str, ...]] = ("o",)
    folding_type: ClassVar[type[Folding]]
    feedback: ClassVar[tuple[str, ...]] = ()
    """Inputs that may come from a later node: row k of every result is made of rows before k of them alone."""
    row_by_row: ClassVar[bool] = False
    """Whether row k of every result is made of no later row of the operands with as many rows, and the circuit gives it
    without taking a later one: so it may lie on a loop, whose steps are rows."""
    keeps: ClassVar[bool] = False
    """Whether ``feedback`` leads to the next frame, not to the next row: golden is a function of all frames so far."""
    declared: ClassVar[frozenset[str]] = frozenset()
    """Names of the fields that say what can be loaded at run time."""
    operand: Tensor  # of an operator with one input

    def operands(self) -> tuple[Tensor, ...]:
        """Return the type of each input."""
        return (self.operand,)

    @abstractmethod
    def results(self) -> tuple[Tensor, ...]:
        """Return the type of each output."""

    def input_orders(self, folding: F) -> tuple[Order, ...]:
        """Return what travels on each input, in which order."""
        return tuple(folding.input_order(tensor) for tensor in self.operands())

    def output_orders(self, folding: F) -> tuple[Order, ...]:
        """Return what travels on each output, in which order."""
        return tuple(folding.output_order(tensor) for tensor in self.results())

    @abstractmethod
    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """Compute the meaning, int64 arrays (frames, height, width, channels) to the same; numpy only, exact."""

    @abstractmethod
    def foldings(self, interval: int, given: Order | None = None, wanted: Order | None = None) -> Iterator[F]:
        """Yield foldings that finish a frame in at most ``interval`` cycles and are worth considering; none if
        impossible.

        Several pixels lie in a beat only where one does not keep up, or next to a neighbour that has several.

        Args:
            given: what a neighbour sends that has chosen already, to be met where that is legal: a folding that meets
                it needs no gearbox.
            wanted: what a neighbour takes that has chosen already, likewise.
        """

    def quicker(self, folding: F) -> Iterator[F]:
        """Yield foldings with the same streams as a folding and less latency, at a greater cost; none by default."""
        yield from ()

    def on_loop(self) -> Operator[F]:
        """Return the operator for a place on a loop: one that works row by row if there is one, else itself."""
        return self

    def loadable(self) -> Operator[F] | None:
        """Return the operator whose constants can be loaded at run time; None where they stay as they are."""
        return None

    def loadable_behind_sums(self) -> Operator[F] | None:
        """Return the same where the operand has sums of loaded weights, whose scales may differ by channel."""
        return self.loadable()

    def loadable_like(self, built: Any) -> Operator[F]:
        """Return the operator with what can be loaded of one of its kind that a circuit was built for."""
        fields = {name: getattr(built, name) for name in self.declared}
        return replace(self, **fields) if fields else self  # type: ignore[type-var]  # all operators are dataclasses

    def tables_over(self, low: int, high: int) -> dict[str, Any]:
        """Return the fields that have something for each integer of the operand, for another range of it."""
        return {}

    def in_blocks(self, folding: F, interval: int) -> Iterator[F]:
        """Yield foldings with streams as wide whose memories are block RAM instead of logic, and that take at most
        ``interval`` cycles, the quickest one first; none by default.
        """
        yield from ()

    @abstractmethod
    def schedule(self, folding: F) -> Schedule:
        """Return the engines' operations under a folding: the timing, stated as loop nests."""

    @abstractmethod
    def demand(self, folding: F) -> Demand:
        """Return what the circuit is made of, without the FIFOs behind it; the chip's family says what that costs."""

    def demand_at_least(self, folding: F) -> Demand:
        """Return a part of the demand that is found quickly: a lower bound where the exact demand is not needed."""
        return Demand()

    def lanes(self, folding: F) -> int:
        """Return the products per cycle that count as MAC lanes."""
        return 0

    def resources(self, folding: F, price: Price = usual_price) -> Resources:
        """Return the estimated cost on chips of a family."""
        return _estimated(self, folding, price)

    @abstractmethod
    def core(self, folding: F, depths: Mapping[str, int]) -> Component:
        """Return the circuit (imports ``onnx_hw_rtl`` inside). ``depths`` gives the FIFO depth of each output port."""

    def weight_words(self, folding: F) -> Order | None:
        """Return which constant lies where in which word: the core reads one word after the other, over and over.

        Unused places are 0. None for a core without constants that change from word to word.
        """
        return None

    def constant_words(self, folding: F) -> tuple[np.ndarray, Int] | None:
        """Return the constants in that order, (words, lanes) integers, and their type; None without constants."""
        return None

    def taped_words(self, folding: F) -> tuple[Order, int] | None:
        """Return how words of constants come from a tape outside the chip, on a further port, and how many of them are
        used and given back together; None where none come.
        """
        return None

    def on_tape(self, tile: int = 1) -> Operator[Any] | None:
        """Return the operator with its constants on a tape; None where it has none, or no such tiles.

        Args:
            tile: pixels for which each constant comes once.
        """
        return None

    def tape_tiles(self) -> tuple[int, ...]:
        """Return the tiles that ``on_tape`` takes, ascending."""
        return ()

    def taped_constants(self) -> np.ndarray:
        """Return the constants that come from a tape, in the shape of the tensor whose order ``taped_words`` states."""
        raise NotImplementedError(f"{type(self).__name__} takes nothing from a tape")

    def memories(self, folding: F) -> Mapping[str, RomImage]:
        """Return the core's read-only memories, by their paths in it; one may become look-up tables, or vanish."""
        return {}

    def stream_shapes(self, folding: F) -> dict[str, StreamShape]:
        """Return what the streams of the core hold, by port (imports ``onnx_hw_rtl`` inside, too)."""
        from onnx_hw_rtl.streams.stream import StreamShape

        ports, orders = (*self.inputs, *self.outputs), (*self.input_orders(folding), *self.output_orders(folding))
        return {
            port: StreamShape(order.lanes, order.tensor.dtype.bits, order.tensor.dtype.signed, order.pixels)
            for port, order in zip(ports, orders, strict=True)
        }

    def cycles(self, folding: F) -> int:
        """Return the operations per frame of the busiest engine: the node's own initiation interval."""
        return self.schedule(folding).interval

    def illegal(self, folding: F) -> str:
        """Return why a folding cannot be built, or an empty text."""
        for name, most in self.limits().items():
            if not 1 <= getattr(folding, name) <= most:
                return f"{name} must be {'1' if most == 1 else f'1..{most}'} here"
        try:
            self.input_orders(folding)
            self.output_orders(folding)
        except ValueError as error:
            return str(error)
        return ""

    def limits(self) -> dict[str, int]:
        """Return the most that each field of a folding may be, as far as it does not depend on the others."""
        (operand, *_), (result, *_) = self.operands(), self.results()
        known = {
            "lanes": operand.channels,
            "in_lanes": operand.channels,
            "out_lanes": result.channels,
            "pixels": min(operand.shape[1], result.shape[1]),
            "in_pixels": operand.shape[1],
            "out_pixels": result.shape[1],
        }
        return {name: most for name, most in known.items() if name in self.folding_type.names()}

    def reordered(self, port: str, order: Permutation) -> tuple[Operator[Any], dict[str, Permutation]] | None:
        """Return the operator that does the same where the elements of one stream, an input or an output, come in that
        order.

        Returns:
            it, and by port the new order of each stream that then has another one, this one included; None if no
            operator does it, or only with the help of a rearrangement.
        """
        return None

    def best_cut(self, interval: int) -> tuple[int, int] | None:
        """Return the MAC lanes of two cores that do the operator's work together within ``interval`` cycles, and the
        channels of the result that the first one makes; None if there are no such cores.
        """
        return None

    def cut(self, first: int) -> tuple[Operator[Any], Operator[Any], Operator[Any]] | None:
        """Return the operator of the ``first`` channels of the result, that of the others, and that which joins them;
        None if there are no such operators.
        """
        return None

    def test_vectors(self, folding: F) -> TestVectors | None:
        """Return the test vectors for its core alone; None where frames test it as well."""
        return None

    @property
    def narrowest(self) -> F:
        """The slowest folding, which every operator has."""
        return cast(F, self.folding_type.narrowest())

    @property
    def taped_size(self) -> int:
        """Bits of the constants that ``on_tape`` puts outside, each counted once."""
        constants = self.constant_words(self.narrowest) if self.tape_tiles() else None
        return constants[0].size * constants[1].bits if constants else 0

    @property
    def taped_bits(self) -> int:
        """Bits of the constants that come from a tape in a frame, as often as they come; 0 where none come."""
        taped = self.taped_words(self.narrowest)
        return taped[0].tensor.size * taped[0].tensor.dtype.bits * taped[0].times if taped else 0

    @property
    def has_loaded_constants(self) -> bool:
        """Whether memories of constants can be loaded into its circuit at run time."""
        return False

    @property
    def describes_loaded(self) -> bool:
        """Whether its description names values that are loaded at run time."""
        return self.has_loaded_constants and not self.macs

    @property
    def has_fixed_constants(self) -> bool:
        """Whether it has constants that follow from scales, and cannot be loaded."""
        return False

    @property
    def loaded_numbers(self) -> Mapping[str, tuple[int, Int]]:
        """Single numbers that can be loaded into its circuit at run time, and their types, by their names in it."""
        return {}

    @property
    def loaded_fields(self) -> frozenset[str]:
        """Names of the fields whose numbers are loaded, or have no effect."""
        return frozenset()

    @property
    def macs(self) -> int:
        """Multiply-accumulates per frame that count as useful work."""
        return 0

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Constants worth showing, for reports."""
        return {}

    def __repr__(self) -> str:
        return type(self).__name__


def pixels_beside(tensor: Tensor, beats: int, *neighbours: Order | None) -> list[int]:
    """Return the pixels worth trying for at most ``beats`` a frame: the fewest, and neighbours' if more."""
    least = least_pixels(tensor, beats)
    if least is None:
        return []
    return sorted({least} | {n.pixels for n in neighbours if n is not None and least < n.pixels <= tensor.shape[1]})


def narrow_cuts(operand: Tensor, interval: int, *neighbours: Order | None) -> list[tuple[int, int]]:
    """Return (lanes, pixels): the fewest lanes that keep up, for all pixels worth trying."""
    pixels = pixels_beside(operand, interval, *neighbours)
    return [(lanes, p) for p in pixels if (lanes := fewest_lanes(operand, interval, p)) is not None]


def even_cuts(operand: Tensor, interval: int, *neighbours: Order | None) -> list[tuple[int, int]]:
    """Return (lanes, pixels) for streams that are equally wide: those of neighbours that keep up, else the fewest."""
    met = set()
    for order in neighbours:
        if order is not None and order.pixels <= operand.shape[1]:
            least = fewest_lanes(operand, interval, order.pixels)
            if least is not None and least <= order.lanes <= operand.channels:
                met.add((order.lanes, order.pixels))
    return sorted(met) or narrow_cuts(operand, interval)


def lanes_beside(least: int, neighbour: Order | None, most: int) -> int:
    """Return a neighbour's lanes if they keep up and do not exceed ``most``, else ``least``."""
    return neighbour.lanes if neighbour is not None and least <= neighbour.lanes <= most else least


def even_lanes(operand: Tensor, interval: int, *neighbours: Order | None) -> list[int]:
    """Return the lanes of ``even_cuts`` for an operator that takes one pixel a beat."""
    return sorted({lanes for lanes, pixels in even_cuts(operand, interval, *neighbours) if pixels == 1})


def uneven_tiles(order: Order) -> str:
    """Return why a core whose constants change with the channel group cannot follow an order, or an empty text."""
    return "" if order.even_tiles or order.groups == 1 else "all tiles must have the same number of pixels here"
