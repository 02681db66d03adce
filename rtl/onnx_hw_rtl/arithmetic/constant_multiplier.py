"""Multiplication by a known integer: a tree of sums and differences of shifted copies.

The integer is written with the digits −1, 0 and 1, and as few of them as possible are not 0. A power of two costs
wires only; each further digit costs one adder, and the lowest bits bypass it. If all digits are negative, the sum is
negated at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Shape, Value
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_rtl.parts.delay_line import delayed

MULTIPLIER_LATENCY = 3
"""Cycles of the products before a division, with numerator and denominator of its factor."""


def digits_of(number: int) -> list[tuple[int, int]]:
    """Return (sign, shift) of the powers of two that add up to a number, least first: its non-adjacent form.

    The compiler counts these digits with a function of its own, because it does not import circuits; a test compares
    the two.

    >>> digits_of(7), digits_of(-12)
    ([(-1, 0), (1, 3)], [(1, 2), (-1, 4)])
    """
    digits, shift = [], 0
    while number:
        if number & 1:
            sign = 1 if number & 2 == 0 else -1
            digits.append((sign, shift))
            number -= sign
        number, shift = number >> 1, shift + 1
    return digits


@dataclass(frozen=True)
class ShiftedMultiple:
    """Multiple of x, ``factor · x`` behind ``level`` adders, that counts as ``sign · value · 2^shift``."""

    value: Value
    factor: int
    sign: int
    shift: int
    level: int


class ConstantMultiplier(Component):
    """Multiplier by a constant: ``p = a · constant``, ``latency`` cycles later.

    It takes one product per cycle, never stalls, and has no reset.

    Args:
        bits, signed: shape of the operand.
        constant: the factor; not 0.
        latency: cycles, 1 or more. Each level of adders may have a register; the registers that are left delay the
            operand.

    Ports:
        a: the operand.
        p: the product, in the least width that holds every product.
    """

    def __init__(self, bits: int, constant: int, *, signed: bool = True, latency: int = 3) -> None:
        if min(bits, latency) < 1 or not constant:
            raise ValueError(f"bits, latency and constant must not be 0: {bits}, {latency}, {constant}")
        self.digits, self.LATENCY = digits_of(constant), latency
        self.negated = all(sign < 0 for sign, _ in self.digits)
        self.levels = (len(self.digits) - 1).bit_length() + self.negated
        self.stages = min(latency, self.levels)
        self.operand = Shape(bits, signed)
        super().__init__({"a": In(self.operand), "p": Out(self._shape(constant))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self.x = delayed(m, self.a, self.LATENCY - self.stages, "x")
        total = self._sum(m, self.digits)
        if self.negated:
            total = self._part(m, -total.value, -total.factor, 1, total)
        product = Cat(Const(0, total.shift), total.value)
        m.d.comb += self.p.eq(product.as_signed() if total.value.shape().signed else product)
        return m

    def _shape(self, factor: int) -> Shape:
        """Return the shape of a multiple of x."""
        bits, signed = self.operand.width, self.operand.signed
        ends = [factor * end for end in ((-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1))]
        return Shape.cast(range(min(ends), max(ends) + 1))

    def _sum(self, m: Module, digits: list[tuple[int, int]]) -> ShiftedMultiple:
        """Add the multiples of x for some digits. The result counts as positive if one of the digits is positive."""
        if len(digits) == 1:
            ((sign, shift),) = digits
            return ShiftedMultiple(self.x, 1, sign, shift, 0)
        half = 1 << (len(digits) - 1).bit_length() - 1
        low, high = self._sum(m, digits[:half]), self._sum(m, digits[half:])
        high = self._later(m, high, low.level)  # the lower half is a full tree, so it is at least as deep
        apart = high.shift - low.shift
        if low.sign < high.sign:
            return self._part(m, (high.value << apart) - low.value, (high.factor << apart) - low.factor, 1, low)
        signs = low.sign * high.sign
        wide = _at_least(low.value, apart + 1)
        rest = wide[apart:].as_signed() if low.value.shape().signed else wide[apart:]
        total = Cat(wide[:apart], rest + high.value if signs > 0 else rest - high.value)
        return self._part(m, total, low.factor + signs * (high.factor << apart), low.sign, low)

    def _part(self, m: Module, total: Value, factor: int, sign: int, low: ShiftedMultiple) -> ShiftedMultiple:
        """Build the level above ``low``, in the bits that the multiple needs."""
        shape = self._shape(factor)
        value = total[: shape.width]
        unregistered = ShiftedMultiple(value.as_signed() if shape.signed else value, factor, sign, low.shift, low.level)
        return self._later(m, unregistered, low.level + 1)

    def _later(self, m: Module, part: ShiftedMultiple, level: int) -> ShiftedMultiple:
        """Delay a multiple by the registers up to a level."""
        stages = level * self.stages // self.levels - part.level * self.stages // self.levels
        value = delayed(m, part.value, stages, f"level{level}")
        return ShiftedMultiple(value, part.factor, part.sign, part.shift, level)


def constant_multiple(m: Module, name: str, value: Value, constant: int, latency: int) -> Value:
    """Return an unsigned value times a constant, ``latency`` cycles later; without latency, by a power of two."""
    if not latency:
        return Cat(Const(0, constant.bit_length() - 1), value)
    multiplier = ConstantMultiplier(len(value), constant, signed=False, latency=latency)
    m.submodules[name] = multiplier
    m.d.comb += multiplier.a.eq(value)
    return multiplier.p


def _at_least(value: Value, bits: int) -> Value:
    """Extend a value to a number of bits, with copies of its sign or with zeros."""
    sign = value[-1] if value.shape().signed else Const(0, 1)
    return Cat(value, sign.replicate(max(0, bits - len(value))))
