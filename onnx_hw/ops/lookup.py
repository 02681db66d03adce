"""Lookup: any function of an integer, one for all channels or one per channel, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import starmap

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.exact.lookup_requantizers import LoadableTable, TableRequantizer
from onnx_hw.exact.requantization import WIDEST_LOADABLE_FUNCTION
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.requantize import requantize_demand
from onnx_hw.ops.folding import ElementFolding
from onnx_hw.ops.operator import Component, Operator, narrow_cuts, uneven_tiles
from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.rom_contents import RomImage, requantizer_memories
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.stream_order import Order, channel_words, channels_of
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import TestVectors, of_table
from onnx_hw_boards.demand import Demand


@dataclass(frozen=True, repr=False, eq=False)
class Lookup(Operator[ElementFolding]):
    """``result = values[channel, x − first]`` for x in the operand's range ``first..last``.

    Functions that rise are cheaper as a ``Staircase``; this one holds any other.

    Attributes:
        values: (1 or channels, last − first + 1) int64.
        dtype: of the result.
        form: types where other values may be loaded into the circuit at run time; None for constants.
    """

    operand: Tensor
    values: np.ndarray = field(repr=False)
    dtype: Int
    form: LoadableTable | None = None

    folding_type = ElementFolding
    row_by_row = True
    LATENCY = 5

    def __post_init__(self) -> None:
        first, last = self.operand.range
        rows, count = self.values.shape
        if rows not in (1, self.operand.channels) or count != last - first + 1:
            raise ValueError(
                f"the table must be 1 or {self.operand.channels} rows of {last - first + 1}, not {rows} of {count}"
            )
        if not self.dtype.min <= self.values.min() <= self.values.max() <= self.dtype.max:
            raise ValueError(f"the values must lie within {self.dtype!r}")
        if self.form is not None and (len(self.values), self.dtype) != (self.form.channels, self.form.entry):
            raise ValueError(f"tables must be {self.form.channels} of {self.form.entry!r}, not {len(self.values)}")

    @property
    def has_loaded_constants(self) -> bool:
        return self.form is not None

    @property
    def has_fixed_constants(self) -> bool:
        return self.form is None

    def loadable(self) -> Lookup | None:
        """Return the operator whose table can be loaded at run time; None for one of too many arguments, or that has a
        form already.
        """
        if self.operand.dtype.bits > WIDEST_LOADABLE_FUNCTION or self.form is not None:
            return None
        return replace(self, form=LoadableTable(len(self.values), self.operand.dtype, self.dtype))

    def results(self) -> tuple[Tensor, ...]:
        if self.form is not None:
            return (Tensor(self.operand.shape, self.dtype),)
        return (Tensor(self.operand.shape, self.dtype, int(self.values.min()), int(self.values.max())),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = arrays
        channel = np.arange(x.shape[-1]) % len(self.values)
        return (self.values[channel, x - self.operand.range[0]],)

    def reordered(self, port: str, order: Permutation) -> tuple[Lookup, dict[str, Permutation]] | None:
        channels = order.channels(np.unique(self.values, axis=0, return_inverse=True)[1].reshape(-1))
        if channels is None:
            return None
        values = self.values[channels] if len(self.values) > 1 else self.values
        return replace(self, operand=replace(self.operand, shape=order.shape), values=values), {"i": order, "o": order}

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[ElementFolding]:
        """Yield the narrowest folding that keeps up, since a lane costs a table."""
        yield from starmap(ElementFolding, narrow_cuts(self.operand, interval, given, wanted))

    def illegal(self, folding: ElementFolding) -> str:
        return super().illegal(folding) or uneven_tiles(self.input_orders(folding)[0])

    def schedule(self, folding: ElementFolding) -> Schedule:
        beats = AffineSequence.every(self.input_orders(folding)[0].beats)
        return Schedule((Engine("requantize", len(beats), self.LATENCY, {"i": beats}, {"o": beats}),))

    def loadable_like(self, built: Lookup) -> Lookup:
        return self if built.form is None else replace(self, form=built.form, dtype=built.dtype)

    def tables_over(self, low: int, high: int) -> dict[str, np.ndarray]:
        """Return the values for other arguments; those out of the operand's range have that of the nearest in it."""
        least, greatest = self.operand.range
        return {"values": self.values[:, np.clip(np.arange(low, high + 1), least, greatest) - least]}

    @property
    def index(self) -> Int:
        """The type whose integers are all in the table."""
        if self.form is not None:
            return self.form.clamp
        return Int.holding(*self.operand.range)

    @property
    def table(self) -> TableRequantizer:
        """With an entry for every integer of ``index``; those out of the operand's range are like the nearest in it."""
        entries = self.tables_over(self.index.min, self.index.max)["values"]
        return TableRequantizer(self.index, entries, int(self.values.min()), int(self.values.max()), self.form)

    def demand(self, folding: ElementFolding) -> Demand:
        ends = int(self.values.min()), int(self.values.max())
        table = TableRequantizer(self.index, self.values, *ends, self.form)
        return requantize_demand(table, self.operand.dtype, self.input_orders(folding)[0], 1, self.LATENCY)

    def weight_words(self, folding: ElementFolding) -> Order:
        """Return the order of the tables: those of ``lanes`` channels, group by group; an element is the channel."""
        return channel_words(self.operand, folding.lanes)

    def core(self, folding: ElementFolding, depths: Mapping[str, int]) -> Component:
        from amaranth.hdl import Shape

        from onnx_hw_rtl.cores.lookup import Lookup as Circuit

        return Circuit(
            Shape(self.index.bits, self.index.signed),
            self.table.entries,
            entry_bits=0 if self.form is None else self.dtype.bits + (not self.dtype.signed),
            words=channels_of(self.weight_words(folding)),
            bits=self.operand.dtype.bits,
            signed=self.operand.dtype.signed,
            out_bits=self.dtype.bits,
            out_signed=self.dtype.signed,
            lanes=folding.lanes,
            pixels=folding.pixels,
            run=self.input_orders(folding)[0].tile_groups,
            depth=depths["o"],
        )

    def memories(self, folding: ElementFolding) -> Mapping[str, RomImage]:
        return requantizer_memories(self.table, channels_of(self.weight_words(folding)), folding.pixels, 1)

    def test_vectors(self, folding: ElementFolding) -> TestVectors:
        return of_table(self, folding, len(self.values))

    def __repr__(self) -> str:
        return f"Lookup to {self.values.min()}..{self.values.max()}"
