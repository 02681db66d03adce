"""Multiplier of look-up tables: rows of two bits of the narrower operand, added by a tree.

A row, ``x·y[k] + 2·x·y[k + 1]``, is one carry chain whose look-up tables also do the ands; it takes 10 look-up tables
for 8 bits. The tree adds neighbours; the lower bits of the lower neighbour bypass the adder. If y has an odd number of
bits, the last bit is not a row of its own: the carry chain that adds it also does its ands. The top row of a signed y
is subtracted if y is negative.

8 × 8 bits take four rows and three adders, 40 + 32 look-up tables, in three levels. If the bits of both operands
together are no more than the inputs of a look-up table, each bit of the product is one look-up table.
"""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_rtl.arithmetic.multiplier import product_shape
from onnx_hw_rtl.parts.delay_line import delayed
from onnx_hw_rtl.parts.fanout import copies
from onnx_hw_rtl.target import Gated, primitives_of

TABLE_BITS = 4
"""Number of inputs of a look-up table."""

LEVELS_PER_STAGE = 2
"""Carry chains one after the other between two registers, where a multiplier has as few registers as it should."""


def levels_of(a_bits: int, b_bits: int) -> int:
    """Return the carry chains one after the other: the rows, and the levels of the tree that adds them."""
    return 1 + (-(-min(a_bits, b_bits) // 2) - 1).bit_length()


def latency_of(a_bits: int, b_bits: int) -> int:
    """Return the cycles of a product with as few registers as it should have."""
    return 1 if a_bits + b_bits <= TABLE_BITS else -(-levels_of(a_bits, b_bits) // LEVELS_PER_STAGE)


def _number(code: int, operand: Value) -> int:
    """Return the value of the lowest bits of a code, read as an operand."""
    bits, signed = len(operand), operand.shape().signed
    code &= (1 << bits) - 1
    return code - (1 << bits) if signed and code >> bits - 1 else code


@dataclass(frozen=True)
class PartialProduct:
    """Product of x and some bits of y.

    Attributes:
        value: the product; or x, if the product is not computed yet.
        low, bits: position and number of the bits of y.
        gate: the bit of y, if the product is not computed yet; None otherwise.
        negative: whether that bit counts as −1.
    """

    value: Value
    low: int
    bits: int
    gate: Value | None = None
    negative: bool = False


class SoftMultiplier(Component):
    """Multiplier of look-up tables: ``p = a · b``, full width, ``latency`` cycles later.

    It takes one product per cycle, never stalls, and has no reset.

    Args:
        a_bits, b_bits: widths, 1 or more.
        a_signed, b_signed: whether the operands are two's complement.
        latency: cycles, 1 or more. Each level of the product may have a register; the registers that are left delay the
            operands.

    Ports:
        a, b: the operands.
        p: the product, signed if one of the operands is.
    """

    def __init__(
        self, a_bits: int, b_bits: int, *, a_signed: bool = True, b_signed: bool = True, latency: int = 3
    ) -> None:
        if min(a_bits, b_bits, latency) < 1:
            raise ValueError(f"bits and latency must be 1 or more, not {a_bits}, {b_bits} and {latency}")
        a, b = Shape(a_bits, a_signed), Shape(b_bits, b_signed)
        self.LATENCY = latency
        super().__init__({"a": In(a), "b": In(b), "p": Out(product_shape(a, b))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self.gated_sum = primitives_of(platform).gated_sum
        if len(self.a) + len(self.b) <= TABLE_BITS:
            m.d.comb += self.p.eq(self._table(m))
            return m
        x, y = (self.a, self.b) if len(self.a) >= len(self.b) else (self.b, self.a)
        levels = levels_of(len(x), len(y))
        spare = max(0, self.LATENCY - levels)
        if spare:  # placed next to the rows, where it must not be merged with the equal registers of other products
            (copy,) = copies(m, delayed(m, x, spare - 1, "x"), 1, "x")
            x = copy.as_signed() if x.shape().signed else copy
            y = delayed(m, y, spare, "y")
        parts = [self._row(m, x, y, k) for k in range(0, len(y), 2)]
        stages = self.LATENCY - spare
        for level in range(levels):
            if level:
                pairs = zip(parts[::2], parts[1::2], strict=False)
                parts = [self._add_pair(m, low, high) for low, high in pairs] + parts[len(parts) // 2 * 2 :]
            if (level + 1) * stages // levels > level * stages // levels:
                parts = [self._register(m, part, level) for part in parts]
        m.d.comb += self.p.eq(parts[0].value)
        return m

    def _table(self, m: Module) -> Value:
        """Build the product as a truth table of the bits of both operands, followed by a register."""
        bits = delayed(m, Cat(self.a, self.b), self.LATENCY - 1, "operands")
        made = Signal(self.p.shape(), reset_less=True)
        with m.Switch(bits):
            for code in range(1 << len(bits)):
                a, b = (_number(code >> low, value) for low, value in ((0, self.a), (len(self.a), self.b)))
                with m.Case(code):
                    m.d.sync += made.eq(a * b)
        return made

    def _row(self, m: Module, x: Value, y: Value, low: int) -> PartialProduct:
        """Multiply x by one or two bits of y. A single bit is left to the chain that adds it, if there is one."""
        negative = low + 2 >= len(y) and y.shape().signed
        if low + 1 < len(y):
            twice = Cat(Const(0, 1), x)
            twice = twice.as_signed() if x.shape().signed else twice
            total = self._sum(m, f"row{low}", (x, y[low]), (twice, y[low + 1]), len(x) + 2, negative)
            return PartialProduct(self._with_sign(total, x, negative), low, 2)
        if low:
            return PartialProduct(x, low, 1, y[low], negative)
        total = self._sum(m, "row", (Const(0, 1), Const(0, 1)), (x, y[0]), len(x) + 1, negative)
        return PartialProduct(self._with_sign(total, x, negative), 0, 1)

    def _add_pair(self, m: Module, low: PartialProduct, high: PartialProduct) -> PartialProduct:
        """Add two neighbours."""
        shift, one = high.low - low.low, Const(1, 1)
        upper: Value = low.value[shift:]
        upper = upper.as_signed() if low.value.shape().signed else upper
        bits = len(low.value) - low.bits + high.bits  # the bits of x, and of the upper part of y
        if high.gate is None:
            total: Value = (upper + high.value)[:bits]
            negative = high.value.shape().signed
        else:
            total = self._sum(m, f"sum{high.low}", (upper, one), (high.value, high.gate), bits, high.negative)
            negative = high.negative
        total = Cat(low.value[:shift], total)
        return PartialProduct(self._with_sign(total, low.value, negative), low.low, low.bits + high.bits)

    def _sum(self, m: Module, name: str, kept: Gated, added: Gated, bits: int, negative: bool) -> Value:
        """Return ``k·g + a·h``, or ``k·g − a·h`` if ``negative``."""
        if self.gated_sum:
            return self.gated_sum(m, name, kept, added, bits, negative)
        k, a = (Mux(gate, value, 0) for value, gate in (kept, added))
        return (k - a if negative else k + a)[:bits]

    def _with_sign(self, total: Value, x: Value, negative: bool) -> Value:
        return total.as_signed() if x.shape().signed or negative else total

    def _register(self, m: Module, part: PartialProduct, level: int) -> PartialProduct:
        """Delay a partial product by one cycle."""
        value = delayed(m, part.value, 1, f"level{level}_{part.low}")
        gate = None if part.gate is None else delayed(m, part.gate, 1, f"level{level}_gate")
        return PartialProduct(value, part.low, part.bits, gate, part.negative)
