"""``o = clamp(rhe(factor · (a + p) / (b + q)) + z)`` for constant p and q. One beat per cycle, or a bit per cycle.

The divider finds the magnitude of a quotient; the sign is put on at the end. Where the divisor is 0 the magnitude
saturates, and the sign is that of the numerator; 0 / 0 counts as negative.

    stage of    both
    1           a + p and b + q
    2           their magnitudes, and the sign of the quotient
    2 or 5      the magnitudes times numerator and denominator of the factor
    ...         the rounded quotient
    + 1         with its sign and the zero point
    + 1         clamped
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value

from onnx_hw_rtl.arithmetic.clamp import clamp
from onnx_hw_rtl.arithmetic.constant_multiplier import MULTIPLIER_LATENCY, constant_multiple
from onnx_hw_rtl.arithmetic.divider import delayed_denominators, divide_in_pipeline, divide_in_steps
from onnx_hw_rtl.parts.fanout import copies
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, Turn, delayed
from onnx_hw_rtl.streams.stream import StreamShape


class Divide(Core):
    """Quotient of two streams, element by element.

    Args:
        a, b, o: the streams, equally wide.
        ranges: least and greatest a + p, and b + q.
        offsets: p and q.
        factor: (numerator, denominator) by which a quotient is multiplied; the denominator is positive.
        quotient_bits: bits of a quotient's magnitude; greater ones saturate.
        zero_point: what is added to a quotient.
        bounds: least and greatest result.
        steps: 1, or ``quotient_bits``: cycles spent on a beat.
        depth: FIFO depth of the output.
    """

    def __init__(
        self,
        a: StreamShape,
        b: StreamShape,
        o: StreamShape,
        *,
        ranges: Sequence[tuple[int, int]],
        offsets: tuple[int, int],
        factor: tuple[int, int],
        quotient_bits: int,
        zero_point: int,
        bounds: tuple[int, int],
        steps: int,
        depth: int,
    ) -> None:
        self.ranges, self.offsets, self.factor = ranges, offsets, factor
        self.quotient_bits, self.zero_point, self.bounds, self.steps = quotient_bits, zero_point, bounds, steps
        self.width = a.lanes * a.pixels
        self.waits = MULTIPLIER_LATENCY * any(abs(part) & (abs(part) - 1) for part in factor)
        self.divides = 2 + self.waits
        self.latency = self.divides + 2 + (quotient_bits if steps == 1 else 0) + 2
        super().__init__({"a": a.payload, "b": b.payload}, {"o": (o.payload, depth)}, ("divide",))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]

        def pops(turn: Turn) -> Any:
            return turn["step"] == 0

        engine = Engine(
            m,
            "divide",
            {"beat": 1, "step": self.steps},
            pops=[(self.a, pops), (self.b, pops)],
            pushes=[(outbox, lambda turn: turn["step"] == self.steps - 1)],
        )
        begins = engine.decode(pops, 1, "begins")
        fires = delayed(m, engine.fire, self.divides - 1, "divides", strobe=True)
        control = Cat(delayed(m, begins, self.divides - 1, "divides_first"), fires)
        controls = copies(m, control, self.width, "step") if self.steps > 1 else [control] * self.width
        for lane, step in enumerate(controls):
            m.d.comb += outbox.data[lane].eq(self._result(m, lane, step))
        self.arrives(m, "o", self.latency)
        self.report(m, engine)
        return m

    def _result(self, m: Module, lane: int, step: Value) -> Value:
        """Return the result of a lane, ``latency`` cycles after the last step of its beat."""
        name, bits = f"lane{lane}", self.quotient_bits
        numerator, divisor = (self._operand(m, k, lane) for k in range(2))
        falls = numerator <= 0 if self.factor[0] > 0 else numerator >= 0  # only counts where a quotient is not 0
        negative = Signal(name=f"{name}_negative", reset_less=True)
        m.d.sync += negative.eq(falls ^ (divisor < 0))
        negative = delayed(m, negative, self.waits, f"{name}_sign")
        n, d = (self._multiple(m, f"{name}_{k}", value, k) for k, value in enumerate((numerator, divisor)))
        if self.steps == 1:
            quotient = divide_in_pipeline(m, name, n, delayed_denominators(m, d, bits), bits)
            negative = delayed(m, negative, bits + 2, f"{name}_waits")
        else:
            first, strobe = step
            d, negative = (_held(m, value, first, f"{name}_{what}") for value, what in ((d, "d"), (negative, "held")))
            quotient = divide_in_steps(m, name, n, d, bits, first=first, strobe=strobe)
            negative = delayed(m, negative[1], 1, f"{name}_waits")
        most = (1 << bits) + abs(self.zero_point)
        signed = Signal(range(-most, most + 1), name=f"{name}_signed", reset_less=True)
        m.d.sync += signed.eq(Mux(negative, self.zero_point - quotient, self.zero_point + quotient))
        return clamp(m, name, signed, *self.bounds)

    def _operand(self, m: Module, k: int, lane: int) -> Signal:
        """Return an operand with its offset, in stage 1."""
        low, high = self.ranges[k]
        operand = Signal(Shape.cast(range(low, high + 1)), name=f"{'ab'[k]}{lane}", reset_less=True)
        m.d.sync += operand.eq((self.a, self.b)[k].payload[lane] + self.offsets[k])
        return operand

    def _multiple(self, m: Module, name: str, value: Signal, k: int) -> Value:
        """Return the magnitude of an operand times a part of the factor, in stage ``divides``."""
        magnitude = Signal(range(max(map(abs, self.ranges[k])) + 1), name=f"{name}_magnitude", reset_less=True)
        m.d.sync += magnitude.eq(abs(value))
        return constant_multiple(m, f"{name}_multiple", magnitude, abs(self.factor[k]), self.waits)


def _held(m: Module, value: Value, first: Value, name: str) -> tuple[Value, Value]:
    """Return what a value was in the first step, in every step of its beat; and the same a cycle later."""
    held = Signal(len(value), name=f"{name}_of_beat", reset_less=True)
    now = Mux(first, value, held)
    m.d.sync += held.eq(now)
    return now, held
