"""Shared buffer for cores that read all elements of a pixel before they make the first result of it, with its ring."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import memory

from onnx_hw_rtl.parts.delay_line import delayed
from onnx_hw_rtl.parts.fanout import copies, memory_parts
from onnx_hw_rtl.streams.engine import Engine, choose
from onnx_hw_rtl.streams.shared_buffer import SharedBuffer


class PixelBuffer:
    """Buffer whose reader waits for the last beat of a pixel before it reads the first one.

    Every operation of the writer stores a beat. The reader spends some operations, its innermost loops, on each beat,
    and gives it back with the last of them.

    Args:
        beats: beats of a pixel.
        name: prefix of the memory's name.
        capacity: beats that may be stored and not yet given back; None for a pixel and a beat more.
        late: cycles by which a beat may be read later than ``capacity`` alone would allow; the memory has as many
            further places.

    Attributes:
        has_beat, has_room: conditions of the reader and of the writer, as in ``SharedBuffer``.
    """

    def __init__(self, beats: int, name: str, *, capacity: int | None = None, late: int = 0) -> None:
        self.beats, self.name, self.capacity = beats, name, beats + 1 if capacity is None else capacity
        self.ring = max(2, 1 << (self.capacity + late - 1).bit_length())
        self._span = 2 * beats + self.capacity + 1
        self._shared = SharedBuffer(self.capacity, beats, self._span)
        self.has_beat, self.has_room = self._shared.has_beat, self._shared.has_room

    def count(self, m: Module, writer: Engine, reader: Engine, *beat_loops: str) -> None:
        """Follow both engines.

        Args:
            beat_loops: loops of the reader within a beat; all others are within a pixel.
        """
        all_loops, span = reader.is_last(*reader.loops), range(-self._span, self._span)
        beat_ends = reader.is_last(*beat_loops)
        further = reader.decode(lambda turn: choose(all_loops(turn), self.beats, 0), span, f"{self.name}_further")
        released = reader.decode(lambda turn: beat_ends(turn), 1, f"{self.name}_released")
        self._shared.count(m, writer, reader, further=further, released=released)
        self._writes, self._reads = writer.fire, reader.fire & released

    def move(self, m: Module, data: Value, *, written: int, read: int) -> Value:
        """Return the beat of the reader's operation, ``read`` + 2 cycles after it fired.

        Args:
            data: the beat of the writer's operation, ``written`` cycles after it fired.
            written, read: cycles, 1 or more; ``read`` is from ``written`` to ``written`` + 1 + ``late``. So a beat is
                read after it was written, and before its place is written again.
        """
        places = []
        for name, strobe in (("write", self._writes), ("read", self._reads)):
            place = Signal(range(self.ring), name=f"{self.name}_{name}_place")
            with m.If(strobe):
                m.d.sync += place.eq(place + 1)
            places.append(place)
        strobe = delayed(m, self._writes, written - 1, f"{self.name}_write", strobe=True)
        controls = Cat(
            Mux(ResetSignal(allow_reset_less=True), 0, strobe),
            delayed(m, places[0], written - 1, f"{self.name}_write_place"),
            delayed(m, places[1], read - 1, f"{self.name}_read_place"),
        )
        parts = memory_parts(len(data), self.ring)
        words = []
        for bits, control in zip(parts, copies(m, controls, len(parts), self.name), strict=True):
            ring = memory.Memory(shape=bits.stop - bits.start, depth=self.ring, init=[])
            m.submodules[f"{self.name}_from{bits.start}"] = ring
            write_port, read_port = ring.write_port(), ring.read_port()
            middle = 1 + len(places[0])
            m.d.comb += [
                write_port.en.eq(control[0]),
                write_port.addr.eq(control[1:middle]),
                write_port.data.eq(data[bits]),
                read_port.addr.eq(control[middle:]),
            ]
            words.append(delayed(m, read_port.data, 1, f"{self.name}_word{bits.start}"))
        return Cat(*words)


def kept_for_two_pixels(m: Module, name: str, engine: Engine, value: Signal, stage: int, ends: Value) -> list[Signal]:
    """Return two registers, each of which in turn keeps a value that is complete where a pixel ends.

    Args:
        stage: the stage in which the value is complete; the registers have it one cycle later.
        ends: whether a pixel ends, in the stage before.
    """
    there = delayed(m, engine.fire, stage - 1, f"{name}_complete", strobe=True) & ends
    kept = [Signal.like(value, name=f"{name}_of{k}", reset_less=True) for k in range(2)]
    odd = Signal(name=f"{name}_odd")
    with m.If(there):
        m.d.sync += odd.eq(~odd)
    for k, register in enumerate(kept):
        with m.If(delayed(m, there & (odd == k), 1, f"{name}_is{k}", strobe=True)):
            m.d.sync += register.eq(value)
    return kept


def chosen_for_pixel(m: Module, name: str, engine: Engine, ends: Value, kept: Sequence[Signal], stage: int) -> Signal:
    """Return the value of an operation's pixel, out of one of two registers, in the stage behind the given one.

    Args:
        ends: whether the operation is the last one of its pixel.
    """
    odd = Signal(name=f"{name}_reads_odd")
    with m.If(engine.fire & ends):
        m.d.sync += odd.eq(~odd)
    chosen = Signal.like(kept[0], name=f"{name}_chosen", reset_less=True)
    m.d.sync += chosen.eq(Mux(delayed(m, odd, stage, f"{name}_reads"), kept[1], kept[0]))
    return chosen
