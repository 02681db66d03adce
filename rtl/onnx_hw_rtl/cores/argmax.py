"""``o[pixel]`` is the number of the channel with the greatest element, or with the least. One beat per cycle.

A tree of comparisons, with one register per level, finds the best element of a beat and its lane. The last stage but
one keeps the best element of the pixel so far, and the last stage adds its lane to its beat's first channel. Latency 2
+ ceil(log2(lanes)).
"""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Const, Module, Mux, Shape, Signal, Value

from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, delayed
from onnx_hw_rtl.streams.stream import StreamShape, groups_of


@dataclass(frozen=True)
class Candidate:
    """Best element of some neighbouring lanes of a beat.

    Attributes:
        first: index of the first of these lanes; the other fields are valid only in a beat that reaches it.
        key: the element as an ordered number, see ``ArgMax._key``.
        lane: the lane of the element.
    """

    first: int
    key: Value
    lane: Value


class ArgMax(Core):
    """Index of the extreme element of every pixel.

    Args:
        channels: number of channels of a pixel.
        i, o: the streams; results come one by one.
        largest: whether the greatest element wins, or the least.
        last: whether the last or the first of equal elements wins.
        depth: FIFO depth of the output.
    """

    def __init__(self, *, channels: int, i: StreamShape, o: StreamShape, largest: bool, last: bool, depth: int) -> None:
        self.channels, self.lanes, self.largest, self.last = channels, i.lanes, largest, last
        self.element, self.index = i.element, o.element
        self.chunks = groups_of(channels, i.lanes)
        self.levels = (i.lanes - 1).bit_length()
        self.latency = self.levels + 2
        super().__init__({"i": i.payload}, {"o": (o.payload, depth)}, ("argmax",))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        engine = Engine(
            m,
            "argmax",
            {"chunk": self.chunks},
            pops=[(self.i, lambda turn: 1)],
            pushes=[(outbox, lambda turn: turn["chunk"] == self.chunks - 1)],
        )
        first = engine.decode(lambda turn: turn["chunk"] == 0, 1, "first")
        ends = engine.decode(lambda turn: turn["chunk"] == self.chunks - 1, 1, "ends")
        channel = Signal(self.index, name="channel")  # channel of the beat's lane 0
        with m.If(engine.fire):
            m.d.sync += channel.eq(Mux(ends, 0, channel + self.lanes))

        candidate = self._best_of_beat(m, ends)
        there = delayed(m, engine.fire, self.levels, "there", strobe=True)
        first = delayed(m, first, self.levels, "first")
        its_channel = delayed(m, channel, self.levels, "channel")
        best = Signal(self.element.width, name="best", reset_less=True)
        best_lane = Signal.like(candidate.lane, name="best_lane", reset_less=True)
        best_channel = Signal(self.index, name="best_channel", reset_less=True)
        with m.If(there & (first | self._beats(candidate.key, best))):
            m.d.sync += [best.eq(candidate.key), best_lane.eq(candidate.lane), best_channel.eq(its_channel)]
        index = Signal(self.index, name="index", reset_less=True)
        m.d.sync += index.eq(best_channel + best_lane)
        m.d.comb += outbox.data[0].eq(index)
        self.arrives(m, "o", self.latency)
        self.report(m, engine)
        return m

    def _key(self, element: Value) -> Value:
        """Map an element to an unsigned integer in the same order, so that a bare carry chain compares two of them."""
        return element.as_unsigned() ^ (self.element.signed << self.element.width - 1)

    def _beats(self, later: Value, earlier: Value) -> Value:
        """Return whether a key wins against a key of a lower index.

        This uses only < and >=: for a > or <= yosys adds gates that test whether the operands are equal.
        """
        lower, upper = (earlier, later) if self.largest else (later, earlier)
        return upper >= lower if self.last else lower < upper

    def _best_of_beat(self, m: Module, ends: Value) -> Candidate:
        """Return the best lane. It comes one cycle later for each level of the tree.

        Lanes beyond the last channel hold anything: a candidate that begins there does not win in a pixel's last beat.
        """
        used = self.channels - (self.chunks - 1) * self.lanes
        lane_number = Shape(max(1, (self.lanes - 1).bit_length()))
        candidates = [Candidate(k, self._key(self.i.payload[k]), Const(k, lane_number)) for k in range(self.lanes)]
        for level in range(self.levels):
            at_the_end = delayed(m, ends, level, f"ends_{level}")
            following = []
            for k in range(0, len(candidates), 2):
                left, *right = candidates[k : k + 2]
                key = Signal(self.element.width, name=f"key{level}_{k}", reset_less=True)
                lane = Signal(lane_number, name=f"lane{level}_{k}", reset_less=True)
                m.d.sync += [key.eq(left.key), lane.eq(left.lane)]
                if right:
                    wins = self._beats(right[0].key, left.key)
                    if right[0].first >= used:
                        wins &= ~at_the_end
                    with m.If(wins):
                        m.d.sync += [key.eq(right[0].key), lane.eq(right[0].lane)]
                following.append(Candidate(left.first, key, lane))
            candidates = following
        return candidates[0]
