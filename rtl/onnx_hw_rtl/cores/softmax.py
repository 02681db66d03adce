"""``o[channel]``: the exponential of a channel, divided by the sum of all of its pixel. One beat per cycle, or a bit of
each quotient per cycle.

Three engines pass over a pixel, one behind the other, around two buffers of a pixel each:

* ``writer`` stores the elements and finds the greatest one;
* ``sum`` looks up the exponential of each element's distance from it, stores and adds them;
* ``reader`` divides each by the sum, and pushes.

    stage of        writer              sum                         reader
    1               the element
    1 + levels      the greatest of the beat; elements are read
    2 + levels      ... of the pixel
    3 + levels      ... of one of two   the element
    6 + levels                          its exponential, written
    6 + 2 levels                        the sum of the beat         exponentials are read
    8 + 2 levels                        ... of one of two pixels    the exponential

``levels`` are those of a tree over the lanes. Each column counts from its engine's own firing.
"""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from onnx_hw_rtl.arithmetic.clamp import clamp
from onnx_hw_rtl.arithmetic.constant_multiplier import MULTIPLIER_LATENCY, constant_multiple
from onnx_hw_rtl.arithmetic.divider import delayed_denominators, divide_in_pipeline, divide_in_steps
from onnx_hw_rtl.arithmetic.sum_tree import sum_tree
from onnx_hw_rtl.parts.fanout import copies
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, delayed
from onnx_hw_rtl.streams.pixel_buffer import PixelBuffer, chosen_for_pixel, kept_for_two_pixels
from onnx_hw_rtl.streams.stream import StreamShape, bits_of, groups_of


class Softmax(Core):
    """Softmax over the channels of a pixel.

    Args:
        exponentials: that of each distance from the greatest channel.
        channels: number of channels of a pixel.
        i, o: the streams, with the same number of lanes.
        factor: (numerator, denominator) by which a share is multiplied.
        quotient_bits: bits of a quotient; greater ones saturate.
        zero_point: what is added to a quotient.
        bounds: least and greatest result.
        steps: 1, or ``quotient_bits``: cycles spent on a beat.
        in_logic: whether the table is made of look-up tables.
        depth: FIFO depth of the output.
    """

    def __init__(
        self,
        exponentials: Sequence[int],
        *,
        channels: int,
        i: StreamShape,
        o: StreamShape,
        factor: tuple[int, int],
        quotient_bits: int,
        zero_point: int,
        bounds: tuple[int, int],
        steps: int,
        in_logic: bool,
        depth: int,
    ) -> None:
        self.exponentials, self.channels, self.lanes = exponentials, channels, i.lanes
        self.element, self.chunks = i.element, groups_of(channels, i.lanes)
        self.factor, self.quotient_bits, self.zero_point, self.bounds = factor, quotient_bits, zero_point, bounds
        self.steps, self.in_logic = steps, in_logic
        self.levels = (i.lanes - 1).bit_length()
        self.power_bits = max(exponentials).bit_length()
        self.multiplies = any(part & (part - 1) for part in factor)
        self.saturates = factor[0] > factor[1] << quotient_bits  # an exponential is at most their sum
        division = 2 + (quotient_bits if steps == 1 else 0)
        self.quotient_stage = 8 + 2 * self.levels + MULTIPLIER_LATENCY * self.multiplies
        self.latency = self.quotient_stage + division + 1
        super().__init__({"i": i.payload}, {"o": (o.payload, depth)}, ("writer", "sum", "reader"))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        elements, powers = PixelBuffer(self.chunks, "elements"), PixelBuffer(self.chunks, "powers")
        greatest = Engine(
            m, "writer", {"chunk": self.chunks}, pops=[(self.i, lambda turn: 1)], conditions=[elements.has_room]
        )
        total = Engine(m, "sum", {"chunk": self.chunks}, conditions=[elements.has_beat, powers.has_room])
        divide = Engine(
            m,
            "reader",
            {"chunk": self.chunks, "step": self.steps},
            pushes=[(outbox, lambda turn: turn["step"] == self.steps - 1)],
            conditions=[powers.has_beat],
        )
        elements.count(m, greatest, total)
        powers.count(m, total, divide, "step")
        for lane, result in enumerate(self._shares(m, divide, powers, *self._powers(m, total, elements, greatest))):
            m.d.comb += outbox.data[lane].eq(result)
        self.arrives(m, "o", self.latency)
        self.report(m, greatest, total, divide)
        return m

    # ---- the three passes -------------------------------------------------------------------------------------------

    def _greatest(self, m: Module, engine: Engine) -> list[Signal]:
        """Return the greatest element of either of two pixels in turn, in stage 3 + levels."""
        ends, first = self._flags(m, engine)
        candidates: list[Value] = [delayed(m, self.i.payload[lane], 1, f"element{lane}") for lane in range(self.lanes)]
        ends, first = delayed(m, ends, 1, "element_ends"), delayed(m, first, self.levels + 1, "element_first")
        starts = list(range(self.lanes))
        for level in range(self.levels):
            following, following_starts = [], []
            for k in range(0, len(candidates), 2):
                left, *right = candidates[k : k + 2]
                best = Signal(self.element, name=f"best{level}_{k}", reset_less=True)
                if not right:
                    m.d.sync += best.eq(left)
                else:
                    wins = left < right[0]
                    if starts[k + 1] >= self._used:
                        wins = wins & ~ends
                    m.d.sync += best.eq(Mux(wins, right[0], left))
                following.append(best)
                following_starts.append(starts[k])
            candidates, starts = following, following_starts
            ends = delayed(m, ends, 1, f"ends{level}")
        best = Signal(self.element, name="greatest", reset_less=True)
        there = delayed(m, engine.fire, self.levels + 1, "greatest_there", strobe=True)
        with m.If(there & (first | (best < candidates[0]))):
            m.d.sync += best.eq(candidates[0])
        return kept_for_two_pixels(m, "greatest", engine, best, 2 + self.levels, ends)

    def _powers(
        self, m: Module, engine: Engine, elements: PixelBuffer, before: Engine
    ) -> tuple[list[Value], list[Signal]]:
        """Return the exponentials in stage 6 + levels, and the sums of two pixels in turn, in stage 8 + 2 levels."""
        written = max(1, self.levels)
        data = delayed(m, bits_of(self.i.payload), written, "taken")
        beat = elements.move(m, data, written=written, read=1 + self.levels)
        ends, first = self._flags(m, engine)
        greatest = chosen_for_pixel(m, "greatest", engine, ends, self._greatest(m, before), 2 + self.levels)
        powers: list[Value] = []
        bits = self.element.width
        ends, first = delayed(m, ends, 6 + self.levels, "power_ends"), delayed(m, first, 6 + self.levels, "power_first")
        for lane in range(self.lanes):
            element = Signal(self.element, name=f"element_read{lane}")
            m.d.comb += element.eq(beat[lane * bits : (lane + 1) * bits])
            name = f"exponential{lane}"
            rom = self.constants.memory(m, name, self.power_bits, self.exponentials, in_logic=self.in_logic)
            distance = Signal(len(rom.addr), name=f"distance{lane}", reset_less=True)
            m.d.sync += distance.eq(greatest - element)
            m.d.comb += rom.addr.eq(distance)
            powers.append(rom.data)
        used = [power if lane < self._used else Mux(ends, 0, power) for lane, power in enumerate(powers)]
        part = sum_tree(m, used)
        ends, first = delayed(m, ends, self.levels, "sum_ends"), delayed(m, first, self.levels, "sum_first")
        total = Signal(self._total_bits, name="total", reset_less=True)
        there = delayed(m, engine.fire, 6 + 2 * self.levels, "sum_there", strobe=True)
        with m.If(there):
            m.d.sync += total.eq(part + Mux(first, 0, total))
        return powers, kept_for_two_pixels(m, "sum", engine, total, 7 + 2 * self.levels, ends)

    def _shares(
        self, m: Module, engine: Engine, buffer: PixelBuffer, powers: list[Value], sums: list[Signal]
    ) -> list[Value]:
        """Return the results, ``latency`` cycles after the last step of their beat."""
        read = 6 + 2 * self.levels
        wait = max(0, self.levels - 1)
        written = 6 + self.levels + wait
        beat = buffer.move(m, delayed(m, Cat(*powers), wait, "power_waits"), written=written, read=read)
        ends = engine.decode(engine.is_last("chunk", "step"), 1, "ends")
        begins = engine.decode(lambda turn: turn["step"] == 0, 1, "begins")
        total = chosen_for_pixel(m, "sum", engine, ends, sums, 1 + read)
        numerator, denominator = self.factor
        divisor = self._product(m, total, denominator, "denominator")
        stage = self.quotient_stage
        denominators = delayed_denominators(m, divisor, self.quotient_bits if self.steps == 1 else 0)
        fires = delayed(m, engine.fire, stage - 1, "divides", strobe=True)
        control = Cat(delayed(m, begins, stage - 1, "divides_first"), fires)
        controls = copies(m, control, self.lanes, "step") if self.steps > 1 else [control] * self.lanes
        results: list[Value] = []
        for lane, control in enumerate(controls):
            name, bits = f"lane{lane}", self.power_bits
            dividend = self._product(m, beat[lane * bits : (lane + 1) * bits], numerator, name)
            if self.steps == 1:
                quotient = divide_in_pipeline(
                    m, name, dividend, denominators, self.quotient_bits, saturates=self.saturates
                )
            else:
                quotient = divide_in_steps(
                    m,
                    name,
                    dividend,
                    (denominators[0], denominators[1]),
                    self.quotient_bits,
                    first=control[0],
                    strobe=control[1],
                    saturates=self.saturates,
                )
            results.append(clamp(m, name, quotient + Const(self.zero_point), *self.bounds))
        return results

    # ---- parts ------------------------------------------------------------------------------------------------------

    @property
    def _used(self) -> int:
        """Number of lanes that the last beat of a pixel uses."""
        return self.channels - (self.chunks - 1) * self.lanes

    @property
    def _total_bits(self) -> int:
        return (max(self.exponentials) * self.channels).bit_length()

    def _flags(self, m: Module, engine: Engine) -> tuple[Value, Value]:
        """Return whether the current operation is the last one of its pixel, and the first one."""
        ends = engine.decode(lambda turn: turn["chunk"] == self.chunks - 1, 1, "ends")
        return ends, engine.decode(lambda turn: turn["chunk"] == 0, 1, "first")

    def _product(self, m: Module, value: Value, constant: int, name: str) -> Value:
        """Return a multiple, ``MULTIPLIER_LATENCY`` cycles later if either part of the factor is no power of two."""
        latency = MULTIPLIER_LATENCY if self.multiplies else 0
        return constant_multiple(m, f"{name}_multiple", value, constant, latency)
