"""Rule 4 of the firing law as a circuit: a writer and a reader around one memory, neither of which sees the other.

Two signed counters hold what the law compares, less one where that turns "less than" into a sign bit:

* ``ahead``, beats written less beats needed: the reader may fire while it is not negative;
* ``room``, capacity less beats written plus beats given back, less one: the writer may fire while it is not negative.

Each is one adder whose addends are constants of the loop level that ends, so a condition is one flip-flop.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value

from onnx_hw_rtl.streams.engine import Engine


class SharedBuffer:
    """State that a writer and a reader share. A core may have several, and several for one engine.

    Args:
        capacity: number of beats that may be written and not yet given back.
        first_need: number of beats of a frame that the reader's first operation waits for.
        span: the greatest amount by which either counter ever differs from 0, in beats.

    Attributes:
        has_beat: the beat that the reader's current operation needs is written.
        has_room: one more beat may be written.
    """

    def __init__(self, capacity: int, first_need: int, span: int) -> None:
        self._ahead = Signal(range(-span, span), init=-first_need, name="ahead")
        self._room = Signal(range(-span, span), init=capacity - 1, name="room")

    @property
    def has_beat(self) -> Value:
        return ~self._ahead[-1]

    @property
    def has_room(self) -> Value:
        return ~self._room[-1]

    def count(self, m: Module, writer: Engine, reader: Engine, *, further: Value, released: Value) -> None:
        """Follow both engines.

        Args:
            further: beats by which the need grows from the reader's current operation to its next; signed.
            released: beats that the reader's current operation gives back.
        """
        m.d.sync += [
            self._ahead.eq(self._ahead - Mux(reader.works, further, 0) + writer.works),
            self._room.eq(self._room + Mux(reader.works, released, 0) - writer.works),
        ]
