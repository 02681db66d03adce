"""A core with two shared buffers: every element of one stream plus every element of another one.

No network needs it. Its reader waits for beats of two writers, and gives those of the one back early, those of the
other at the end of the frame: as a product does whose weights arrive on a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.hdl import Module, Signal, Value
from amaranth.lib import memory

from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.folding import EvenFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.schedule import Engine, Schedule, SharedBuffer
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Demand, LogicFunction
from onnx_hw_rtl.streams import engine, shared_buffer
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Turn, delayed
from onnx_hw_rtl.streams.stream import beat, bits_of

BITS = 6
LATENCY = 2


@dataclass(frozen=True, repr=False)
class OuterSum(Operator[EvenFolding]):
    """``o[0, r, c] = a[0, r, 0] + b[0, c, 0]``, one integer a beat.

    Attributes:
        rows, columns: how many elements ``a`` and ``b`` have.
        capacities: beats that are stored of each.
    """

    rows: int
    columns: int
    capacities: tuple[int, int]

    inputs = ("a", "b")
    folding_type = EvenFolding

    def operands(self) -> tuple[Tensor, ...]:
        return tuple(Tensor((1, count, 1), Int(BITS)) for count in (self.rows, self.columns))

    def results(self) -> tuple[Tensor, ...]:
        return (Tensor((1, self.rows, self.columns), Int(BITS + 1)),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        a, b = arrays
        return (a + b.reshape(len(b), 1, 1, self.columns),)

    def foldings(self, interval: int, in_lanes: int | None = None, out_lanes: int | None = None) -> Iterator[Any]:  # type: ignore[override]
        yield EvenFolding(1)

    def schedule(self, folding: EvenFolding) -> Schedule:
        rows, columns = self.rows, self.columns
        results = AffineSequence.every(rows * columns)
        last_row = AffineSequence.every(columns, first=(rows - 1) * columns)
        of_rows = SharedBuffer(
            "a", "reader", self.capacities[0], AffineSequence.every(rows, columns), AffineSequence.every(rows),
            AffineSequence.every(rows, columns, columns - 1), "the rows",
        )  # fmt: skip
        of_columns = SharedBuffer(
            "b",
            "reader",
            self.capacities[1],
            AffineSequence.every(columns),
            AffineSequence.every(columns),
            last_row,
            "the columns",
        )
        return Schedule(
            (
                Engine("a", rows, 0, {"a": AffineSequence.every(rows)}),
                Engine("b", columns, 0, {"b": AffineSequence.every(columns)}),
                Engine("reader", len(results), LATENCY, pushes={"o": results}),
            ),
            (of_rows, of_columns),
        )

    def demand(self, folding: EvenFolding) -> Demand:
        return Demand.of(LogicFunction(1))

    def core(self, folding: EvenFolding, depths: Mapping[str, int]) -> Circuit:
        return Circuit(self.rows, self.columns, self.capacities, depths["o"])


class Circuit(Core):
    """Two writers, one reader; latency 2."""

    def __init__(self, rows: int, columns: int, capacities: tuple[int, int], depth: int) -> None:
        self.rows, self.columns, self.capacities = rows, columns, capacities
        narrow, wide = beat(1, BITS), beat(1, BITS + 1)
        super().__init__({"a": narrow, "b": narrow}, {"o": (wide, depth)}, ("a", "b", "reader"))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox, rows, columns = self.outboxes["o"], self.rows, self.columns
        held = shared_buffer.SharedBuffer(self.capacities[0], 1, 2 + 2 * max(self.capacities))
        kept = shared_buffer.SharedBuffer(self.capacities[1], 1, 2 + 2 * max(*self.capacities, columns))
        a = engine.Engine(m, "a", {"beat": 1}, pops=[(self.a, lambda turn: 1)], conditions=[held.has_room])
        b = engine.Engine(m, "b", {"beat": 1}, pops=[(self.b, lambda turn: 1)], conditions=[kept.has_room])
        reader = engine.Engine(
            m,
            "reader",
            {"row": rows, "column": columns},
            pushes=[(outbox, lambda turn: 1)],
            conditions=[held.has_beat, kept.has_beat],
        )
        row_ends = reader.decode(reader.is_last("column"), 1, "row_ends")
        frame_ends = reader.decode(reader.is_last("row", "column"), 1, "frame_ends")
        in_last_row = reader.decode(reader.is_last("row"), 1, "in_last_row")

        def needs_more(turn: Turn) -> Any:
            """In the first row one column more each time; the next frame begins with its own first one."""
            return ((turn["row"] == 0) & (turn["column"] != columns - 1)) | reader.is_last("row", "column")(turn)

        held.count(m, a, reader, further=row_ends, released=row_ends)
        kept.count(m, b, reader, further=reader.decode(needs_more, 1, "needs_more"), released=in_last_row)
        row = self._stored(m, a, self.a, self.capacities[0], self._next(m, reader, row_ends, "row_at"))
        first = Signal(8)
        with m.If(reader.fire & frame_ends):
            m.d.sync += first.eq(first + columns)
        place = reader.decode(lambda turn: turn["column"], range(max(2, columns)), "place")
        column = self._stored(m, b, self.b, self.capacities[1], first + place)
        m.d.comb += [
            bits_of(outbox.data).eq(row.as_signed() + column.as_signed()),
            outbox.write.eq(delayed(m, outbox.reserve, LATENCY, "write", strobe=True)),
        ]
        self.report(m, a, b, reader)
        return m

    def _next(self, m: Module, its_engine: engine.Engine, ends: Value, name: str) -> Signal:
        """A counter of what has ended."""
        counter = Signal(8, name=name)
        with m.If(its_engine.fire & ends):
            m.d.sync += counter.eq(counter + 1)
        return counter

    def _stored(self, m: Module, writer: engine.Engine, source: Any, capacity: int, read_at: Value) -> Value:
        """What is read at an address of stage 0, in stage 2."""
        words = max(2, 1 << (capacity - 1).bit_length())
        m.submodules[f"of_{writer.name}"] = ring = memory.Memory(shape=BITS, depth=words, init=[])
        write_port, read_port = ring.write_port(), ring.read_port(domain="comb")
        write_at = self._next(m, writer, Value.cast(1), f"{writer.name}_at")
        m.d.comb += [
            write_port.en.eq(delayed(m, writer.fire, 1, "store", strobe=True)),
            write_port.addr.eq(delayed(m, write_at, 1, "store_at")),
            write_port.data.eq(delayed(m, bits_of(source.payload), 1, "store_data")),
            read_port.addr.eq(delayed(m, read_at, 1, "read_at")),
        ]
        return delayed(m, read_port.data, 1, "stored")
