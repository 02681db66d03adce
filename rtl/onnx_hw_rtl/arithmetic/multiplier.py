"""Multipliers with registers: one hardware multiplier, or wide multipliers made of several."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Shape, Signal, Value
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_rtl.target import primitives_of


def product_shape(a: Shape, b: Shape) -> Shape:
    """Return the shape that holds every product of two integers."""
    return Shape(a.width + b.width, a.signed or b.signed)


class Multiplier(Component):
    """Multiplier: ``p = a · b``, full width, ``LATENCY`` cycles later.

    It takes one product per cycle, never stalls, and has no reset. It is one hardware multiplier with all its registers
    if the target has such a primitive, and plain registers otherwise.

    Args:
        a_bits, b_bits: widths, 1..18.
        a_signed, b_signed: whether the operands are two's complement.
        delayed: whether ``p`` goes into a register and nowhere else. Then yosys can absorb the three registers of this
            module and that register into an SB_MAC16 (iCE40). Otherwise yosys leaves the third register in the netlist,
            and this register drives ``p``, too.

    Ports:
        a, b: the operands.
        p: the product, signed if one of the operands is.
    """

    LATENCY = 3
    MAX_BITS = 18

    def __init__(
        self, a_bits: int, b_bits: int, *, a_signed: bool = True, b_signed: bool = True, delayed: bool = False
    ) -> None:
        for name, bits in (("a", a_bits), ("b", b_bits)):
            if not 1 <= bits <= self.MAX_BITS:
                raise ValueError(f"operand {name} must have 1..{self.MAX_BITS} bits, not {bits}")
        self._delayed = delayed
        a, b = Shape(a_bits, a_signed), Shape(b_bits, b_signed)
        super().__init__({"a": In(a), "b": In(b), "p": Out(product_shape(a, b))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if primitive := primitives_of(platform).multiplier:
            m.submodules.primitive = primitive(self.a, self.b, self.p)
            return m
        a = Signal.like(self.a, reset_less=True)
        b = Signal.like(self.b, reset_less=True)
        product = Signal.like(self.p, reset_less=True, attrs={} if self._delayed else {"keep": 1})
        p = Signal.like(self.p, reset_less=True)
        m.d.sync += [a.eq(self.a), b.eq(self.b), product.eq(a * b), p.eq(product)]
        m.d.comb += self.p.eq(p)
        return m


class WideMultiplier(Component):
    """Multiplier for operands of up to 36 bits: ``p = a · b``, ``LATENCY`` cycles later.

    It takes one product per cycle and has no reset. An operand wider than 18 bits is cut into an unsigned lower limb of
    18 bits and the rest. The products of the limbs are added with one carry chain per stage; the lowest bits need none.

    Args:
        a_bits, b_bits: widths, 1..36.
        a_signed, b_signed: whether the operands are two's complement.

    Attributes:
        dsp: number of hardware multipliers.
        LATENCY: cycles: 3, and one more for every level of additions.

    Ports:
        a, b: the operands.
        p: the product, signed if one of the operands is.
    """

    LIMB = Multiplier.MAX_BITS
    MAX_BITS = 2 * LIMB

    def __init__(self, a_bits: int, b_bits: int, *, a_signed: bool = True, b_signed: bool = True) -> None:
        for name, bits in (("a", a_bits), ("b", b_bits)):
            if not 1 <= bits <= self.MAX_BITS:
                raise ValueError(f"operand {name} must have 1..{self.MAX_BITS} bits, not {bits}")
        a, b = Shape(a_bits, a_signed), Shape(b_bits, b_signed)
        self.dsp, self.LATENCY = self.parts(a_bits, b_bits), self.latency(a_bits, b_bits)
        super().__init__({"a": In(a), "b": In(b), "p": Out(product_shape(a, b))})

    @classmethod
    def parts(cls, a_bits: int, b_bits: int) -> int:
        """Return the number of products of limbs."""
        return (1 + (a_bits > cls.LIMB)) * (1 + (b_bits > cls.LIMB))

    @classmethod
    def latency(cls, a_bits: int, b_bits: int) -> int:
        return Multiplier.LATENCY + cls.parts(a_bits, b_bits).bit_length() - 1

    def elaborate(self, platform: object) -> Module:
        m = Module()
        products = [
            [self._product(m, f"a{j}_b{k}", x, y) for k, y in enumerate(self._limbs(self.b))]
            for j, x in enumerate(self._limbs(self.a))
        ]
        if self.dsp == 1:
            total = products[0][0]
        elif self.dsp == 2:
            low, high = [product for row in products for product in row]
            total = self._add(m, "total", low, high)
        else:
            (low, right), (left, high) = products
            outer = Signal(Shape(len(low) + len(high), high.shape().signed), reset_less=True)
            middle = Signal((left + right).shape(), reset_less=True)
            m.d.sync += [outer.eq(Cat(low, high)), middle.eq(left + right)]
            total = self._add(m, "total", outer, middle)
        m.d.comb += self.p.eq(total)
        return m

    def _limbs(self, operand: Value) -> list[Value]:
        """Cut an operand into limbs, least significant first. All but the last are unsigned."""
        if len(operand) <= self.LIMB:
            return [operand]
        high = operand[self.LIMB :]
        return [operand[: self.LIMB], high.as_signed() if operand.shape().signed else high]

    def _product(self, m: Module, name: str, x: Value, y: Value) -> Value:
        m.submodules[name] = part = Multiplier(len(x), len(y), a_signed=x.shape().signed, b_signed=y.shape().signed)
        m.d.comb += [part.a.eq(x), part.b.eq(y)]
        return part.p

    def _add(self, m: Module, name: str, low: Value, high: Value) -> Signal:
        """Return ``low + high · 2^18`` one cycle later. The lower 18 bits of ``low`` bypass the adder."""
        total = Signal.like(self.p, name=name, reset_less=True)
        rest = low[self.LIMB :]
        if low.shape().signed:
            rest = rest.as_signed()
        m.d.sync += total.eq(Cat(low[: self.LIMB], (rest + high)[: len(self.p) - self.LIMB]))
        return total
