"""The cells of a Gowin LittleBee, from the family's documentation (SUG283; UG285 on memory, UG287 on DSP)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from onnx_hw_sim.gates.cell_models import (
    NEVER,
    NEW_WORD,
    OLD_WORD,
    UNLESS_IT_WRITES,
    Block,
    BlockPort,
    CellLibrary,
    ClockPath,
    FlipFlop,
    Model,
    MultiplierCell,
    Parts,
    SmallMemory,
    clocked,
    in_range,
    not_modelled,
)
from onnx_hw_sim.gates.netlist import ONE, RUBBISH, ZERO, ChipCell, Wires

_WIRES: Wires = {
    "IBUF": ("O", "I"),
    "OBUF": ("O", "I"),
    "GND": ("G", ZERO),
    "VCC": ("V", ONE),
}
"""Cells that join two nets, or tie one to a constant."""


def _lut(cell: ChipCell, parts: Parts) -> None:
    ins = tuple(cell.pin(f"I{k}") for k in range(int(cell.kind[-1])))
    parts.table(ins, cell.number("INIT"), cell.pin("F"))


def _mux(cell: ChipCell, parts: Parts) -> None:
    parts.table((cell.pin("I0"), cell.pin("I1"), cell.pin("S0")), 0b11001010, cell.pin("O"))


Bit = Callable[[int, int, int], int]

_ALU: dict[int, tuple[Bit, Bit]] = {
    0: (lambda a, b, c: a ^ b, lambda a, b, c: a),
    1: (lambda a, b, c: a ^ b ^ 1, lambda a, b, c: a),
    2: (lambda a, b, c: a ^ b ^ 1 ^ c, lambda a, b, c: a),
    3: (lambda a, b, c: a ^ b ^ 1, lambda a, b, c: 1),
    4: (lambda a, b, c: a ^ b ^ 1, lambda a, b, c: a),
    5: (lambda a, b, c: a ^ b ^ 1, lambda a, b, c: b),
    6: (lambda a, b, c: a, lambda a, b, c: 0),
    7: (lambda a, b, c: a ^ 1, lambda a, b, c: 1),
    8: (lambda a, b, c: a ^ 1 ^ c, lambda a, b, c: a),
    9: (lambda a, b, c: a & b ^ c, lambda a, b, c: a & b),
}
"""Functions of I0, I1 and I3, by mode: whether the carry passes, which is the sum without it; the carry otherwise."""


def _alu(cell: ChipCell, parts: Parts) -> None:
    mode = cell.number("ALU_MODE")
    if mode not in _ALU:
        raise not_modelled(cell, f"its mode is {mode}")
    ins = tuple(cell.pin(name) for name in ("I0", "I1", "I3"))
    passes, generated = (
        parts.table(ins, sum(bit(k & 1, k >> 1 & 1, k >> 2) << k for k in range(8))) for bit in _ALU[mode]
    )
    carry = cell.pin("CIN")
    if "SUM" in cell.pins:
        parts.table((passes, carry), 0b0110, cell.pin("SUM"))
    if "COUT" in cell.pins:
        parts.table((generated, carry, passes), 0b11001010, cell.pin("COUT"))


_FLIP_FLOP = re.compile(r"DFF(?P<falls>N?)(?P<resets>[SRPC]?)(?P<enabled>E?)")


def _flip_flop(cell: ChipCell, parts: Parts) -> None:
    """Add a flip-flop; a reset does not wait for the enable."""
    clocked(cell, parts, "CLK")
    kind = _FLIP_FLOP.fullmatch(cell.kind)
    assert kind is not None
    pins = {"S": "SET", "R": "RESET", "P": "PRESET", "C": "CLEAR", "": ""}
    reset = cell.pin(pins[kind["resets"]]) if kind["resets"] else ZERO
    if kind["falls"] or (kind["resets"] in ("P", "C") and reset != ZERO):
        raise not_modelled(cell, "it has the other clock edge, or an asynchronous reset")
    value = int(kind["resets"] in ("S", "P"))
    enable = cell.pin("CE") if kind["enabled"] else ONE
    begins = cell.number("INIT", value)
    parts.flip_flops.append(FlipFlop(cell.pin("Q"), cell.pin("D"), enable, reset, value, begins=begins))


def _ram16(cell: ChipCell, parts: Parts) -> None:
    clocked(cell, parts, "CLK")
    if any(cell.number(f"INIT_{k}") for k in range(4)):
        raise not_modelled(cell, "it has first contents, and models of such memories begin with rubbish")
    out = (*cell.pins.get("DO", ()), None, None, None, None)[:4]
    parts.small.append(SmallMemory(cell.bits("RAD", 4), out, cell.bits("WAD", 4), cell.bits("DI", 4), cell.pin("WRE")))


def _multiplier(cell: ChipCell, parts: Parts) -> None:
    """Add a multiplier as synthesis uses it, without any register."""
    registers = ("AREG", "BREG", "OUT_REG", "PIPE_REG", "ASIGN_REG", "BSIGN_REG")
    if any(cell.number(name) for name in registers):
        raise not_modelled(cell, "its registers are used")
    if cell.pin("ASEL") != ZERO or cell.pin("BSEL") != ZERO:
        raise not_modelled(cell, "an operand comes from its neighbour")
    width = 9 if cell.kind == "MULT9X9" else 18
    signs = [cell.pin(name) for name in ("ASIGN", "BSIGN")]
    operands = []
    for name, sign in zip("AB", signs, strict=True):
        nets = cell.bits(name, width)
        above = parts.both(sign, nets[-1])
        operands.append((*nets, *[above] * (18 - width)))
    out = (*cell.pins["DOUT"], *[None] * 36)[:36]
    parts.products.append(MultiplierCell(operands[0], operands[1], signs[0], signs[1], out))


@dataclass(frozen=True)
class _Side:
    """Names of the pins and parameters of a port of a block; empty where the port lacks one."""

    suffix: str
    width: str
    data: str
    out: str
    write: str = ""
    write_mode: str = ""
    read_mode: str = ""
    oce: str = ""


_ONE = _Side("", "BIT_WIDTH", "DI", "DO", "WRE", "WRITE_MODE", "READ_MODE", "OCE")
_ROM = _Side("", "BIT_WIDTH", "", "DO", "", "", "READ_MODE", "OCE")
_BOTH = tuple(
    _Side(p, f"BIT_WIDTH_{k}", f"DI{p}", f"DO{p}", f"WRE{p}", f"WRITE_MODE{k}", f"READ_MODE{k}", f"OCE{p}")
    for k, p in enumerate("AB")
)
_HALVES = (_Side("A", "BIT_WIDTH_0", "DI", ""), _Side("B", "BIT_WIDTH_1", "", "DO", "", "", "READ_MODE", "OCE"))

_SIDES = {"SP": (_ONE,), "pROM": (_ROM,), "DPB": _BOTH, "SDPB": _HALVES}
_SIDES |= {"SPX9": (_ONE,), "pROMX9": (_ROM,), "DPX9B": _BOTH, "SDPX9B": _HALVES}

_WRITE_MODES = (UNLESS_IT_WRITES, NEW_WORD, OLD_WORD)


def _block(cell: ChipCell, parts: Parts) -> None:
    """Add a block of 512 rows of 32 bits, or of 36 where a byte has nine; a parameter holds eight rows."""
    row = 36 if "X9" in cell.kind else 32
    rows = [cell.number(f"INIT_RAM_{k:02X}") >> row * index & (1 << row) - 1 for k in range(64) for index in range(8)]
    ports = tuple(_port(cell, parts, side, row) for side in _SIDES[cell.kind])
    written = any(port.write != ZERO for port in ports)
    parts.blocks.append(Block(cell.name, rows, ports, rubbish=written and not any(rows)))


def _port(cell: ChipCell, parts: Parts, side: _Side, row: int) -> BlockPort:
    for k, net in enumerate(cell.bits(f"BLKSEL{side.suffix}", 3)):
        if net not in (ZERO, RUBBISH) or cell.number(f"BLK_SEL{side.width[9:]}"):
            raise not_modelled(cell, f"its block select {k} is used")
    if cell.pin(f"RESET{side.suffix}") not in (ZERO, RUBBISH):
        raise not_modelled(cell, "its reset is used")
    enable = cell.pin(f"CE{side.suffix}")
    if enable != ZERO:
        clocked(cell, parts, f"CLK{side.suffix}")
    width = cell.number(side.width, row)
    if row % width:
        raise not_modelled(cell, f"a port is {width} bits wide")
    write = cell.pin(side.write) if side.write else ONE if side.data else ZERO
    address = cell.bits(f"AD{side.suffix}", 14)
    out: tuple[int | None, ...] = (*cell.pins.get(side.out, ()), *[None] * width)[:width]
    if side.read_mode and cell.number(side.read_mode):
        latched = tuple(None if net is None else parts.fresh() for net in out)
        for read, q in zip(latched, out, strict=True):
            if read is not None:
                parts.register(read, q, enable=cell.pin(side.oce))
        out = latched
    begins = tuple(range(0, row, width))
    return BlockPort(
        address=address,
        word=(5, 511),
        part=(5 - (len(begins) - 1).bit_length(), len(begins) - 1),
        begins=begins,
        width=width,
        enable=enable,
        write=write,
        reads=_WRITE_MODES[cell.number(side.write_mode)] if side.write_mode else OLD_WORD if side.out else NEVER,
        data=cell.bits(side.data, width)[:width] if side.data else (ZERO,) * width,
        mask=tuple(address[j // (row // 4)] if width > row // 4 else ONE for j in range(width)),
        out=out,
    )


def _driver(cell: ChipCell, parts: Parts) -> None:
    if cell.pin("OEN") != ZERO:
        raise not_modelled(cell, "it does not always drive")
    parts.table((cell.pin("I"),), 0b10, cell.pin("O"))


def _pll(cell: ChipCell, parts: Parts) -> None:
    if cell.pin("RESET") != ZERO or cell.pin("RESET_P") != ZERO:
        raise not_modelled(cell, "its reset is used")
    if "LOCK" in cell.pins:
        parts.locks.append(cell.pin("LOCK"))


def _through_pll(cell: ChipCell, mhz: Fraction) -> ClockPath:
    """Return the clock of a PLL that is fed back inside (UG286, chapter 6; ranges of DS117 and DS226)."""
    dynamic = any(cell.text(f"DYN_{name}", "false") != "false" for name in ("IDIV_SEL", "FBDIV_SEL", "ODIV_SEL"))
    if dynamic or cell.text("CLKFB_SEL", "internal") != "internal":
        raise not_modelled(cell, "its dividers are at pins, or it is fed back outside")
    phase = mhz / (cell.number("IDIV_SEL") + 1)
    clock = phase * (cell.number("FBDIV_SEL") + 1)
    in_range(cell, "phase detector", phase, 3, 400)
    in_range(cell, "oscillator", clock * cell.number("ODIV_SEL", 8), 500, 1200)
    return ClockPath(cell.pin("CLKIN"), {cell.pin("CLKOUT"): clock})


_MODELS: dict[str, Model] = {
    **{f"LUT{inputs}": _lut for inputs in (1, 2, 3, 4)},
    **{f"MUX2_LUT{inputs}": _mux for inputs in (5, 6, 7, 8)},
    "ALU": _alu,
    **{
        f"DFF{falls}{resets}{enabled}": _flip_flop
        for falls in ("", "N")
        for resets in ("", "S", "R", "P", "C")
        for enabled in ("", "E")
    },
    "RAM16SDP4": _ram16,
    "MULT9X9": _multiplier,
    "MULT18X18": _multiplier,
    **dict.fromkeys(_SIDES, _block),
    "TBUF": _driver,
    "rPLL": _pll,
}

LIBRARY = CellLibrary(_MODELS, Path(__file__), wires=_WIRES, clocks={"rPLL": _through_pll})
