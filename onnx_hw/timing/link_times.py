"""When frames leave a design behind a link: its shell as two more tracks of the firing law.

The shell (``onnx_hw_rtl.streams.beats``) takes a chunk of a byte every cycle, or a whole byte every other cycle, and
holds a beat until the network takes it. It takes one of the network's when all chunks of the one before have gone, one
a cycle; at a frame's end, the zeros that fill up a byte follow, and the bytes of its times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_hw.ir.design import Design
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.timing.constraints import Precedences
from onnx_hw.timing.event_windows import EventWindows, event_cycles
from onnx_hw.timing.row_solver import NamedPrecedence as Wait
from onnx_hw_link.link import TRAILER, Link, LinkPort, chunk_bits

INTO, OUT = ("shell", "in"), ("shell", "out")
MIN_CYCLES_OF_A_BYTE = 2
CLOCK = 1 << 32
"""The chip counts cycles modulo this."""


@dataclass(frozen=True)
class LinkTimesCheck:
    """Comparison of the chip's own times of frames with the predicted ones.

    Attributes:
        frames: that were compared.
        exact: of those, the frames of which one cycle alone is possible; for the others there are bounds.
        latency: cycles from a frame's first beat in to its last beat out, of one that comes to an idle chip.
        wrong: (frame, cycles too many; negative where too few).
    """

    frames: int
    exact: int
    latency: int
    wrong: tuple[tuple[int, int], ...]

    @property
    def difference(self) -> str:
        """How many frames are not as predicted, and which is the first; empty if all are."""
        if not self.wrong:
            return ""
        frame, cycles = self.wrong[0]
        return (
            f"{len(self.wrong):,} of the first {self.frames:,} frames are NOT as predicted; frame {frame:,} ended "
            f"{abs(cycles):,} cycles {'later' if cycles > 0 else 'sooner'} than possible"
        )


class BehindALink:
    """A design of one input, behind its end of the link."""

    def __init__(self, design: Design, link: Link) -> None:
        self.link = link
        links = Precedences(design)
        into, out = ([e for e in design.edges() if getattr(e, end) is None] for end in ("producer", "consumer"))
        (self._input,) = (edge.tensor for edge in into)
        ((consumer, pops),) = (links._pops(edge) for edge in into)
        self._consumer, self._first = consumer, int(np.asarray(pops)[0])
        self._beats, self._once = into[0].beats, links.once.get(consumer, 0)
        leaving = dict.fromkeys(boundary.tensor for boundary in design.network.outputs)  # as the link's outputs
        beats = {edge.tensor: edge.beats for edge in out}
        self._sinks = {tensor: beats[tensor] for tensor in leaving if tensor in beats}
        chunks = link.inputs[0].beat_bits // chunk_bits(link.inputs)  # of a beat
        starts, ends = (self._operation(np.arange(self._beats) * chunks + within) for within in (0, chunks - 1))
        links.engines[INTO] = self._frame_cycles = self._operations(chunks)
        self._settling = int(ends[0] - starts[0]) + MIN_CYCLES_OF_A_BYTE
        if design.network.keepers:  # what is made of a state alone is there before the first byte of a session
            engines = (engine for schedule in design.schedules().values() for engine in schedule.engines)
            self._settling += sum(engine.operations + engine.latency for engine in engines)
        if design.reader is not None and design.tape is not None:  # by then the weights' buffers are full, and it waits
            self._settling += design.reader.before(design.tape.size) + design.reader.pass_cycles(design.tape.size)
        links.all += [
            Wait(consumer, pops, INTO, _numbers(ends), "a beat", 1),
            Wait(INTO, _numbers(starts), consumer, pops, "the beat before to be taken", 1, lag=1),
        ]
        self._leave(links, out_ports := link.outputs, link.output_turns)
        assert len(out_ports) == len(self._sinks)
        self._design, self._links = design, links
        self.latency = int(self._ends([0])[0])

    def _operation(self, chunk: np.ndarray) -> np.ndarray:
        """Return the operations in which chunks of a frame are taken, by their numbers."""
        per_byte = 8 // chunk_bits(self.link.inputs)
        byte, within = np.divmod(chunk, per_byte)
        operations: np.ndarray = byte * max(MIN_CYCLES_OF_A_BYTE, per_byte) + within
        return operations

    def _operations(self, chunks: int) -> int:
        """Return the operations of a frame whose beats have that number of chunks: until another byte may come."""
        total, per_byte = chunks * self._beats, 8 // chunk_bits(self.link.inputs)
        first_of_last_byte = int(self._operation(np.array((total - 1) // per_byte * per_byte)))
        return first_of_last_byte + max(MIN_CYCLES_OF_A_BYTE, (total - 1) % per_byte + 1)

    def _leave(self, links: Precedences, ports: tuple[LinkPort, ...], turns: Sequence[tuple[int, int]]) -> None:
        taken: list[list[int]] = [[] for _ in ports]
        at, chunks, size = 0, 0, chunk_bits(ports)
        for k, count in turns:
            for _ in range(count):
                taken[k].append(at)
                at += 1 + ports[k].beat_bits // size
                chunks += ports[k].beat_bits // size
        if size < 8:
            at += -chunks % (8 // size) + 1  # zeros, and the last byte, which goes when it is whole
        links.engines[OUT] = total = at + TRAILER
        for tensor, of_stream in zip(self._sinks, taken, strict=True):
            sink, every, takes = ("sink", tensor), np.arange(len(of_stream)), np.array(of_stream)
            links.all.append(Wait(OUT, _numbers(takes), sink, _numbers(every), "a beat"))
            inner = takes > 0
            before = _numbers(takes[inner] - 1)
            links.all.append(Wait(sink, _numbers(every[inner]), OUT, before, "the bytes before to be gone", 1))
            if not inner.all():
                links.all.append(Wait(sink, _numbers(every[:1]), OUT, _numbers([total - 1]), "the frame before", 1, 1))

    def _ends(self, begins: Sequence[int]) -> np.ndarray:
        """Return the cycles in which frames end, (frames,), whose first beats are taken in certain cycles, or as soon
        as possible.

        Cycles count from the first one that is taken in a chip that has done what it does once.
        """
        comes = np.zeros((len(begins), self._beats), dtype=np.int64)
        comes[:, 0] = begins
        return self._ends_of(comes)

    def _ends_of(self, comes: np.ndarray) -> np.ndarray:
        """Return the same as ``_ends``, of frames whose beats (frames, beats) do not come before certain cycles."""
        frames, settled = len(comes), self._once + self._settling
        offers = {self._input: comes.reshape(-1) + settled}
        wanted = {("sink", tensor): beats * np.arange(1, frames + 1) - 1 for tensor, beats in self._sinks.items()}
        wanted[self._consumer] = np.array([self._once + self._first])
        found = event_cycles(EventWindows(self._design, frames, offers, {}, self._links), wanted)
        (began,) = found.pop(self._consumer)
        assert all(len(cycles) == frames for cycles in found.values()), "a frame comes whole, so that it leaves"
        ends: np.ndarray = np.max(list(found.values()), axis=0) - began
        return ends

    def compare_traced(self, began: int, ended: Sequence[int], comes: np.ndarray) -> LinkTimesCheck:
        """Compare frames from the first of a session on, all of whose beats were watched as they came.

        Args:
            began, ended: the chip's own times of the first beat taken, and of the frames' ends: modulo ``CLOCK``.
            comes: (frames, beats) cycles, from any one, in which beats are there for the network to take.
        """
        elapsed = np.array([(cycle - began) % CLOCK for cycle in ended])
        wrong = elapsed - self._ends_of(comes - comes[0, 0])
        return LinkTimesCheck(
            len(elapsed), len(elapsed), self.latency, tuple((int(k), int(wrong[k])) for k in np.flatnonzero(wrong))
        )

    def compare(self, began: Sequence[int | None], ended: Sequence[int]) -> LinkTimesCheck:
        """Compare frames from the first of a session on with the chip's own times: modulo ``CLOCK``, None if unknown.

        A frame whose beginning is not known began no later than allows it to end when it did. All conditions of the
        law are lower bounds, so ends computed from earliest and latest beginnings enclose the true one.
        """
        assert began and began[0] is not None
        known = [None if cycle is None else (cycle - began[0]) % CLOCK for cycle in began]
        elapsed = np.array([(cycle - began[0]) % CLOCK for cycle in ended])
        latest, frame_cycles = [*map(int, elapsed - self.latency)], self._frame_cycles
        for k in reversed(range(len(known))):
            exact = known[k]
            if exact is not None:
                latest[k] = exact
            elif k + 1 < len(known):
                latest[k] = min(latest[k], latest[k + 1] - frame_cycles)
        low = self._ends([0 if cycle is None else cycle for cycle in known])
        high = self._ends(latest) if self.link.frame_at_once else None
        wrong = np.minimum(elapsed - low, 0) + (0 if high is None else np.maximum(elapsed - high, 0))
        exact_ones = 0 if high is None else int((low == high).sum())
        return LinkTimesCheck(
            len(elapsed), exact_ones, self.latency, tuple((int(k), int(wrong[k])) for k in np.flatnonzero(wrong))
        )


def _numbers(positions: Sequence[int] | np.ndarray) -> AffineSequence:
    return AffineSequence.rows([0], positions)
