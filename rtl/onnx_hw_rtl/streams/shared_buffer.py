"""Rule 4 of the firing law in gates: a writer and a reader around one memory, neither of which looks at the other.

Two signed counters hold what the law compares, less one where that turns "less than" into a sign bit:

* ``ahead``, beats written less beats needed: the reader may fire while it is not negative;
* ``room``, capacity less beats written plus beats given back, less one: the writer may fire while it is not negative.

Each is one adder whose addends are constants of the loop level that ends, so a condition is one flip-flop.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value

from onnx_hw_rtl.streams.engine import Engine

__all__ = ["SharedBuffer"]


class SharedBuffer:
    """What a writer and a reader know of one another. A core may have several, also of one engine.

    Args:
        capacity: beats that may be written and not yet given back.
        first_need: beats of a frame that the reader's first operation waits for.
        span: the most beats by which either counter ever differs from 0.

    Attributes:
        has_beat: what the reader's current operation needs is written.
        has_room: a further beat may be written.
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
            further: from the reader's current operation to its next, by how many beats the need grows; signed.
            released: beats that the reader's current operation gives back.
        """
        m.d.sync += [
            self._ahead.eq(self._ahead - Mux(reader.works, further, 0) + writer.works),
            self._room.eq(self._room + Mux(reader.works, released, 0) - writer.works),
        ]
