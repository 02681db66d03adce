"""The cells of an iCE40, from the family's documentation (ICE Technology Library 3.0; Lattice TN1250, TN1295).

What a netlist leaves open is 0 in these chips, a clock enable 1.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from onnx_hw_sim.gates.cell_models import (
    NEVER,
    OLD_WORD,
    Block,
    BlockPort,
    CellLibrary,
    ClockPath,
    FlipFlop,
    Model,
    MultiplierCell,
    Parts,
    clocked,
    in_range,
    not_modelled,
)
from onnx_hw_sim.gates.netlist import ONE, ZERO, ChipCell


def _lut4(cell: ChipCell, parts: Parts) -> None:
    parts.table(tuple(cell.tied(f"I{k}") for k in range(4)), cell.number("LUT_INIT"), cell.pin("O"))


def _carry(cell: ChipCell, parts: Parts) -> None:
    parts.table((cell.tied("I0"), cell.tied("I1"), cell.tied("CI")), 0b11101000, cell.pin("CO"))


_FLIP_FLOP = re.compile(r"SB_DFF(?P<falls>N?)(?P<enabled>E?)(?P<resets>SR|R|SS|S|)")


def _flip_flop(cell: ChipCell, parts: Parts) -> None:
    """Add a flip-flop that begins with 0; a synchronous reset waits for the enable."""
    clocked(cell, parts, "C")
    kind = _FLIP_FLOP.fullmatch(cell.kind)
    assert kind is not None
    reset = cell.tied(kind["resets"][-1]) if kind["resets"] else ZERO
    if kind["falls"] or (reset != ZERO and len(kind["resets"]) == 1):
        raise not_modelled(cell, "it has the other clock edge, or an asynchronous reset")
    enable = cell.tied("E", ONE) if kind["enabled"] else ONE
    value = int(kind["resets"] in ("SS", "S"))
    parts.flip_flops.append(FlipFlop(cell.pin("Q"), cell.pin("D"), enable, reset, value, gated=True))


_MODES = ((16, 1, 0), (8, 2, 0), (4, 4, 1), (2, 8, 3))
"""Bits of a word, their distance in a row of 16 and among the pins, and the first of these pins, by mode."""


def _ram40(cell: ChipCell, parts: Parts) -> None:
    """Add a block of 256 rows of 16 bits; the bits of a narrow port lie apart in a row."""
    rows = [cell.number(f"INIT_{k:X}") >> 16 * index & 0xFFFF for k in range(16) for index in range(16)]
    strobe = parts.both(cell.tied("WE"), cell.tied("WCLKE", ONE))
    takes = parts.both(cell.tied("RE"), cell.tied("RCLKE", ONE))
    for pin, net in (("WCLK", strobe), ("RCLK", takes)):
        if net != ZERO:
            clocked(cell, parts, pin)
    data, mask = cell.bits("WDATA", 16), cell.pins.get("MASK", (ZERO,) * 16)
    out = (*cell.pins.get("RDATA", ()), *[None] * 16)[:16]

    def port(mode: int, address: str, *, reads: int, enable: int, write: int) -> BlockPort:
        width, step, first = _MODES[mode]
        pins = range(first, 16, step)
        return BlockPort(
            address=cell.bits(address, 11),
            word=(0, 255),
            part=(8, step - 1),
            begins=tuple(range(step)),
            bit_step=step,
            width=width,
            enable=enable,
            write=write,
            reads=reads,
            data=tuple(data[k] for k in pins),
            mask=tuple(parts.inverted(mask[k]) if mode == 0 and write != ZERO else ONE for k in pins),
            out=tuple(out[k] if reads else None for k in pins),
        )

    ports = (
        port(cell.number("WRITE_MODE"), "WADDR", reads=NEVER, enable=ONE, write=strobe),
        port(cell.number("READ_MODE"), "RADDR", reads=OLD_WORD, enable=takes, write=ZERO),
    )
    parts.blocks.append(Block(cell.name, rows, ports, rubbish=strobe != ZERO and not any(rows)))


def _mac16(cell: ChipCell, parts: Parts) -> None:
    """Add four products of 8 × 8 bits, their sum, and an adder or accumulator of 16 bits per half of the result."""
    for pin in ("IRSTTOP", "IRSTBOT", "ORSTTOP", "ORSTBOT"):
        if cell.tied(pin) != ZERO:
            raise not_modelled(cell, f"its asynchronous reset {pin} is used")
    if cell.number("NEG_TRIGGER"):
        raise not_modelled(cell, "it has the other clock edge")
    if cell.tied("CLK") != ZERO:
        clocked(cell, parts, "CLK")
    enable, narrow = cell.tied("CE", ONE), cell.number("MODE_8x8")

    def held(hold: str) -> int:
        return parts.both(enable, parts.inverted(cell.tied(hold)))

    def operand(name: str) -> list[int]:
        nets = list(cell.pins.get(name, (ZERO,) * 16))
        return [parts.register(n, enable=held(f"{name}HOLD")) for n in nets] if cell.number(f"{name}_REG") else nets

    def piped(nets: list[int], register: str) -> list[int]:
        return [parts.register(net, enable=enable) for net in nets] if cell.number(register) else nets

    def product(x: list[int], x_signed: int, y: list[int], y_signed: int) -> list[int]:
        wide = [(*half, *[half[-1] if signed else ZERO] * 10) for half, signed in ((x, x_signed), (y, y_signed))]
        nets = tuple(parts.fresh() for _ in range(16))
        signs = [ONE if signed else ZERO for signed in (x_signed, y_signed)]
        parts.products.append(MultiplierCell(wide[0], wide[1], signs[0], signs[1], (*nets, *[None] * 20)))
        return list(nets)

    a, b, c, d = (operand(name) for name in "ABCD")
    a_signed, b_signed = cell.number("A_SIGNED"), cell.number("B_SIGNED")
    low_a, low_b = a_signed and narrow, b_signed and narrow
    f = piped(product(a[8:], a_signed, b[8:], b_signed), "TOP_8x8_MULT_REG")
    g = piped(product(a[:8], low_a, b[:8], low_b), "BOT_8x8_MULT_REG")
    j = piped(product(a[:8], 0, b[8:], b_signed), "PIPELINE_16x16_MULT_REG1")
    k = piped(product(a[8:], a_signed, b[:8], 0), "PIPELINE_16x16_MULT_REG1")
    j_sign, k_sign = j[-1] if b_signed else ZERO, k[-1] if a_signed else ZERO
    total, _ = parts.sum([*g, *f], [*[ZERO] * 8, *j, *[j_sign] * 8])
    total, _ = parts.sum(total, [*[ZERO] * 8, *k, *[k_sign] * 8])
    h = piped(total, "PIPELINE_16x16_MULT_REG2")

    def half(name: str, kept: list[int], lower: list[list[int]], carry: int) -> tuple[list[int], int, list[int]]:
        """Return the (result, carry out, first addend) of an adder and its register."""
        register = [parts.fresh() for _ in range(16)]
        x = lower[cell.number(f"{name}ADDSUB_LOWERINPUT")]
        w = kept if cell.number(f"{name}ADDSUB_UPPERINPUT") else register
        minus = cell.tied(f"ADDSUB{name}")
        added, out = parts.sum(x, [parts.different(bit, minus) for bit in w], carry)
        loaded = cell.tied(f"OLOAD{name}")
        result = [
            parts.table((parts.different(bit, minus), load, loaded), 0b11001010)
            for bit, load in zip(added, kept, strict=True)
        ]
        for bit, q in zip(result, register, strict=True):
            parts.register(bit, q, enable=held(f"OHOLD{name}"))
        product8, product16 = lower[1], lower[2]
        return [result, register, product8, product16][cell.number(f"{name}OUTPUT_SELECT")], out, x

    def chosen(name: str, below: list[int]) -> int:
        return below[cell.number(f"{name}ADDSUB_CARRYSELECT")]

    carry = chosen("BOT", [ZERO, ONE, cell.tied("ACCUMCI"), cell.tied("CI")])
    low, above, z = half("BOT", d, [b, g, h[:16], [cell.tied("SIGNEXTIN")] * 16], carry)
    carry = chosen("TOP", [ZERO, ONE, above, parts.different(above, cell.tied("ADDSUBBOT"))])
    high, last, x = half("TOP", c, [a, f, h[16:], [z[15]] * 16], carry)
    named = {"ACCUMCO": last, "CO": parts.different(last, cell.tied("ADDSUBTOP")), "SIGNEXTOUT": x[15]}
    outs = [*zip([*low, *high], cell.pins.get("O", ()), strict=False)]
    outs += [(net, cell.pins[pin][0]) for pin, net in named.items() if pin in cell.pins]
    for net, out in outs:
        parts.table((net,), 0b10, out)


_INPUT, _OUTPUT, _ENABLED_OUTPUT = 0b01, 0b0110, 0b1010
"""Parts of the type of a pad without registers: the lowest two bits, and the other ones."""


def _pad(cell: ChipCell, parts: Parts) -> None:
    """Add a pad that is either an input or always drives."""
    kind = cell.number("PIN_TYPE")
    if kind >> 2 == 0 and kind & 3 == _INPUT:
        parts.table((cell.pin("PACKAGE_PIN"),), 0b10, cell.pin("D_IN_0"))
    elif "D_IN_0" not in cell.pins and (
        kind >> 2 == _OUTPUT or (kind >> 2 == _ENABLED_OUTPUT and cell.tied("OUTPUT_ENABLE") == ONE)
    ):
        parts.table((cell.tied("D_OUT_0"),), 0b10, cell.pin("PACKAGE_PIN"))
    else:
        raise not_modelled(cell, f"its type is {kind:06b}")


def _through_table(cell: ChipCell, mhz: Fraction) -> ClockPath | None:
    """Return the clock behind a table that passes one input on, as nextpnr puts it before some PLLs."""
    nets = [cell.pins.get(f"I{k}", (ZERO,))[0] for k in range(4)]
    free = [k for k, net in enumerate(nets) if net not in (ZERO, ONE)]
    if len(free) != 1:
        return None
    entry, table = sum(1 << k for k, net in enumerate(nets) if net == ONE), cell.number("LUT_INIT")
    passed = not table >> entry & 1 and table >> (entry | 1 << free[0]) & 1
    return ClockPath(nets[free[0]], {cell.pin("O"): mhz}) if passed else None


def _buffered_pad(cell: ChipCell, parts: Parts) -> None:
    """Add a pad whose input drives a global network."""
    kind = cell.number("PIN_TYPE")
    if kind >> 2 != 0 or kind & 3 != _INPUT:
        raise not_modelled(cell, f"its type is {kind:06b}")
    parts.table((cell.pin("PACKAGE_PIN"),), 0b10, cell.pin("GLOBAL_BUFFER_OUTPUT"))


def _through_buffered_pad(cell: ChipCell, mhz: Fraction) -> ClockPath:
    return ClockPath(cell.pin("PACKAGE_PIN"), {cell.pin("GLOBAL_BUFFER_OUTPUT"): mhz})


def _through_pad(cell: ChipCell, mhz: Fraction) -> ClockPath | None:
    return ClockPath(cell.pin("PACKAGE_PIN"), {cell.pin("D_IN_0"): mhz}) if "D_IN_0" in cell.pins else None


def _pll(cell: ChipCell, parts: Parts) -> None:
    if cell.tied("RESETB") != ONE or cell.tied("BYPASS") != ZERO:
        raise not_modelled(cell, "it is in reset, or bypassed")
    if "LOCK" in cell.pins:
        parts.locks.append(cell.pin("LOCK"))


def _through_pll(cell: ChipCell, mhz: Fraction) -> ClockPath:
    """Return the clock of a PLL with the simple feedback (FPGA-TN-02052; ranges of FPGA-DS-02029, table 4.13)."""
    if cell.text("FEEDBACK_PATH") != "SIMPLE" or cell.text("PLLOUT_SELECT", "GENCLK") != "GENCLK":
        raise not_modelled(cell, f"its feedback is {cell.text('FEEDBACK_PATH')}")
    phase = mhz / (cell.number("DIVR") + 1)
    vco = phase * (cell.number("DIVF") + 1)
    in_range(cell, "phase detector", phase, 10, 133)
    in_range(cell, "oscillator", vco, 533, 1066)
    source = cell.pin("PACKAGEPIN" if cell.kind.endswith("PAD") else "REFERENCECLK")
    outs = [cell.pin(name) for name in ("PLLOUTGLOBAL", "PLLOUTCORE") if name in cell.pins]
    return ClockPath(source, dict.fromkeys(outs, vco / 2 ** cell.number("DIVQ")))


_MODELS: dict[str, Model] = {
    "SB_LUT4": _lut4,
    "SB_CARRY": _carry,
    **{
        f"SB_DFF{falls}{enabled}{resets}": _flip_flop
        for falls in ("", "N")
        for enabled in ("", "E")
        for resets in ("", "SR", "R", "SS", "S")
    },
    "SB_RAM40_4K": _ram40,
    "SB_MAC16": _mac16,
    "SB_IO": _pad,
    "SB_GB_IO": _buffered_pad,
    "SB_PLL40_PAD": _pll,
    "SB_PLL40_CORE": _pll,
}

LIBRARY = CellLibrary(
    _MODELS,
    Path(__file__),
    clocks={
        "SB_LUT4": _through_table,
        "SB_IO": _through_pad,
        "SB_GB_IO": _through_buffered_pad,
        "SB_PLL40_PAD": _through_pll,
        "SB_PLL40_CORE": _through_pll,
    },
)
