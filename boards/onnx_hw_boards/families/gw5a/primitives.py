"""Hard blocks of the Arora V as Amaranth instances: multipliers, read-only memory, and flip-flops that stay apart.

yosys infers no multiplier of this family, and nextpnr times none, nor block RAM with an output register: each has a
register at its inputs and one at its output, inside the block or next to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from amaranth.hdl import Cat, ClockSignal, Const, Elaboratable, Instance, Module, Signal, Value

from onnx_hw_boards.families.ecp5.primitives.rom_blocks import add_rom
from onnx_hw_boards.families.ecp5_and_gowin import BLOCK_RAMS
from onnx_hw_rtl.target import Primitives

_PARAMETERS = 64  # INIT_RAM_00 .. INIT_RAM_3F
_ADDRESS_PINS = 14

SMALL, WIDE = (12, 12), (27, 18)
"""Bits of the operands of a MULT12X12, and of a MULTALU27X18, which takes the place of two of the former."""


def placed(operand: Value) -> int:
    """Return the pins that an operand needs: an unsigned one has a zero above it."""
    return len(operand) + (not operand.shape().signed)


def multiplier(a: Value, b: Value, p: Value) -> Elaboratable:
    """Return a multiplier: ``p``, of ``len(a) + len(b)`` bits, becomes ``a · b`` after three cycles.

    The multipliers (DSP user guide UG305) are signed, so that an unsigned operand needs one more bit. A MULT12X12 has
    all three registers. The third register of a MULTALU27X18 is made of flip-flops: Apycula 0.32 does not set the
    output register of this block on a GW5AST-138C. Of two unsigned operands of 18 bits, the highest bit of one is
    multiplied by an adder in front of that register.
    """
    if max(placed(a), placed(b)) <= max(SMALL):
        return _block("MULT12X12", SMALL, a, b, p, registers="ABPO")
    if placed(a) < placed(b):
        return multiplier(b, a, p)
    m = Module()
    register = Signal.like(p, reset_less=True)
    m.d.comb += p.eq(register)
    if placed(b) <= min(WIDE):
        product = Signal.like(p)
        m.submodules.block = _block("MULTALU27X18", WIDE, a, b, product, registers="ABP")
        m.d.sync += register.eq(product)
        return m
    low, high = b[:-1], b[-1]
    product = Signal(len(p) - 1)
    m.submodules.block = _block("MULTALU27X18", WIDE, a, low, product, registers="ABP")
    gated, waiting = Signal(len(a), reset_less=True), Signal(len(a), reset_less=True)
    m.d.sync += [gated.eq(a & high.replicate(len(a))), waiting.eq(gated)]
    m.d.sync += register.eq(product + (waiting << len(low)))
    return m


def _block(kind: str, widths: tuple[int, int], a: Value, b: Value, p: Value, *, registers: str) -> Instance:
    """Return a block, on one clock, always enabled and never reset.

    The operands sit at the *upper* end of their pins, hence the product above as many unused bits as both leave. At
    the lower end every unused pin would need a copy of the sign bit, and that net limits the clock.
    """
    pins: dict[str, object] = {}
    for name, operand, width in zip("AB", (a, b), widths, strict=True):
        sign = [] if operand.shape().signed else [Const(0, 1)]
        pins[f"i_{name}"] = Cat(Const(0, width - placed(operand)), operand, *sign)
    below = sum(widths) - placed(a) - placed(b)
    pins["o_DOUT"] = Cat(Signal(below, name="below"), p)
    if kind == "MULTALU27X18":
        pins |= {f"i_{name}": Const(0, bits) for name, bits in _IDLE.items()}
    return Instance(
        kind,
        **{f"p_{name}REG_CLK": "CLK0" for name in registers},
        i_CLK=Cat(ClockSignal("sync"), Const(0, 1)),
        i_CE=Const(3, 2),
        i_RESET=Const(0, 2),
        **pins,
    )


_IDLE = {"SIA": 27, "C": 48, "D": 26, "CASI": 48, "ACCSEL": 1, "PSEL": 1, "ASEL": 1, "PADDSUB": 1}
_IDLE |= {"CSEL": 1, "CASISEL": 1, "ADDSUB": 2}
"""Pins of a MULTALU27X18 that are zero where it only multiplies, with their numbers of bits."""


def flip_flop(d: Value, q: Value) -> Instance:
    """Return a flip-flop without reset (DFF): ``q`` becomes ``d`` with each cycle of the domain ``sync``."""
    return Instance("DFF", i_CLK=ClockSignal("sync"), i_D=d, o_Q=q)


def best_shape(width: int, depth: int) -> tuple[int, int]:
    """Return words and bits of the block RAM for ``depth`` words of ``width`` bits: that with the fewest blocks, then
    with the fewest of them one after the other.
    """

    def blocks(shape: tuple[int, int]) -> tuple[int, int]:
        banks = -(-depth // shape[0])
        return -(-width // shape[1]) * banks, banks

    return min(BLOCK_RAMS, key=blocks)


def block_rom(bits: int, words: Sequence[int], address: Value, data: Value) -> Instance:
    """Return a block: ``data`` becomes ``words[address]`` two cycles later, through the block's output register.

    Memory user guide UG300: a block has 512 rows of 36 bits (pROMX9), or of 32 for words of 4, 2 and 1 bit (pROM). A
    parameter holds eight rows. Narrower words are addressed further down.

    Args:
        bits: width of a word, 36, 18, 9, 4, 2 or 1; ``data`` may have fewer.
        words: at most as many as a block has.
    """
    row = 36 if bits % 9 == 0 else 32
    contents = sum(word << bits * index for index, word in enumerate(words))
    chunk = 8 * row
    lowest = 5 - (row // bits - 1).bit_length()
    return Instance(
        "pROMX9" if row == 36 else "pROM",
        p_READ_MODE=Const(1, 1),
        p_BIT_WIDTH=bits,
        p_RESET_MODE="SYNC",
        **{f"p_INIT_RAM_{k:02X}": Const(contents >> chunk * k & (1 << chunk) - 1, chunk) for k in range(_PARAMETERS)},
        i_CLK=ClockSignal("sync"),
        i_CE=1,
        i_OCE=1,
        i_RESET=0,
        i_AD=Cat(Const(0, lowest), address, Const(0, _ADDRESS_PINS - lowest - len(address))),
        o_DO=Cat(data, Signal(row - len(data), name="above")),
    )


def rom(m: Module, words: Sequence[int], address: Value, data: Value) -> None:
    """Add the fewest blocks to ``m`` that make ``data`` equal ``words[address]`` two cycles later."""
    depth, bits = best_shape(len(data), len(words))
    add_rom(m, words, address, data, depth=depth, width=bits, block=partial(block_rom, bits))


PRIMITIVES = Primitives(multiplier=multiplier, rom=rom, flip_flop=flip_flop)
"""Cells of a chip with memory in look-up tables."""

WITHOUT_MEMORY_IN_TABLES = replace(PRIMITIVES, distributed_memory=False)
"""Cells of a chip without it."""
