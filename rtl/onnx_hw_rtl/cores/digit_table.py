"""``clamp((x·m + c) >> shift, low, high)`` by tables in block RAM: the products with a digit of x are the words of one.

A beat takes a cycle for each digit of x, the least significant first, and one before them, in which x is taken and the
sum is cleared:

    sum = (sum >> digit_bits) + word[channel, kind of the step, digit]

The kind of a step is 0 for the first digit, 1 for the second, 3 for the last and 2 for all others. What has left the
sum at the bottom cannot change the result.

    stage  0     the digit, next to the number of its word
           1     the word, out of the block RAM
           2     the sum; and the result, between its bounds, in no register of its own
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value

from onnx_hw_rtl.parts.block_rom import BlockRom
from onnx_hw_rtl.streams.engine import Engine, delayed, pick


@dataclass(frozen=True)
class DigitTable:
    """Requantization by products that are looked up.

    Attributes:
        operand: the shape of x.
        digit_bits: bits of a digit.
        words: (channels, 4, 2^digit_bits) integers, by the kind of a step, and by the digit; or one row for all.
        word_bits: bits of a word, in two's complement.
        total: the signed shape that holds every sum.
        shift: number of bits of the last sum that are dropped.
        low, high: bounds of the result.
    """

    operand: Shape
    digit_bits: int
    words: np.ndarray
    word_bits: int
    total: Shape
    shift: int
    low: int
    high: int

    latency = 2

    @property
    def digits(self) -> int:
        return max(2, -(-self.operand.width // self.digit_bits))

    @property
    def steps(self) -> int:
        return self.digits + 1

    def kind(self, step: int) -> int:
        """Return the kind of a step; any kind for the step in which x is taken."""
        return 3 if step == self.digits else min(max(step - 1, 0), 2)

    def lane(
        self, m: Module, name: str, x: Value, engine: Engine, turn: DigitTurn, channels: Sequence[int]
    ) -> tuple[Value, BlockRom]:
        """Add a lane; return its result, ``latency`` cycles after the last step, and the memory of its words.

        Args:
            x: the argument, in the cycle in which it is taken.
            turn: the current step.
            channels: the channel of each chunk.
        """
        several = len(self.words) > 1
        rows = [int(c) if several else 0 for c in (channels if several else channels[:1])]
        table = self.words[rows].reshape(-1).tolist()
        words = BlockRom(self.word_bits, [int(word) & (1 << self.word_bits) - 1 for word in table])
        digits = Signal(self.digits * self.digit_bits, name=f"{name}_digits", reset_less=True)
        sign = x[-1] if self.operand.signed else Const(0, 1)
        whole = Cat(x[: self.operand.width], sign.replicate(len(digits) - self.operand.width))
        with m.If(engine.fire):
            m.d.sync += digits.eq(Mux(turn.takes, whole, digits >> self.digit_bits))
        m.d.comb += words.addr.eq(Cat(digits[: self.digit_bits], turn.kind, *([turn.chunk] if len(rows) > 1 else [])))
        total = Signal(self.total, name=f"{name}_sum", reset_less=True)
        with m.If(delayed(m, engine.fire, 1, f"{name}_fired")):
            with m.If(delayed(m, turn.takes, 1, f"{name}_clears")):
                m.d.sync += total.eq(0)
            with m.Else():
                m.d.sync += total.eq((total >> self.digit_bits) + words.data.as_signed())
        result = Signal(range(self.low, self.high + 1), name=f"{name}_result")
        value = total >> self.shift
        m.d.comb += result.eq(Mux(value < self.low, self.low, Mux(value > self.high, self.high, value)))
        return result, words


@dataclass(frozen=True)
class DigitTurn:
    """Registers that say which step the current operation is.

    Attributes:
        takes: whether it takes an argument; then it clears the sum, too.
        kind: its kind.
        chunk: number of the channel group.
    """

    takes: Value
    kind: Value
    chunk: Value

    @classmethod
    def of(cls, engine: Engine, table: DigitTable, chunks: int) -> DigitTurn:
        """Return the registers of an engine with the loops "chunk" and "step"."""
        kinds = [table.kind(step) for step in range(table.steps)]
        return cls(
            engine.decode(lambda turn: turn["step"] == 0, 1, "takes"),
            engine.decode(lambda turn: pick(turn["step"], kinds), 2, "kind"),
            engine.decode(lambda turn: turn["chunk"], range(max(2, chunks)), "channels"),
        )
