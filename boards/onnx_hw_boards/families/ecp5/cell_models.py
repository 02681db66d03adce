"""The cells of an ECP5, from the family's documentation (Lattice FPGA-DS-02012; TN1264 on memory; TN1267 on sysDSP)."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from onnx_hw_sim.gates.cell_models import (
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
    TwoWayPad,
    clocked,
    in_range,
    not_modelled,
    require,
)
from onnx_hw_sim.gates.netlist import ONE, RUBBISH, ZERO, ChipCell


def _lut4(cell: ChipCell, parts: Parts) -> None:
    parts.table(tuple(cell.pin(name) for name in "ABCD"), cell.number("INIT"), cell.pin("Z"))


def _pfumx(cell: ChipCell, parts: Parts) -> None:
    parts.table((cell.pin("BLUT"), cell.pin("ALUT"), cell.pin("C0")), 0b11001010, cell.pin("Z"))


def _l6mux21(cell: ChipCell, parts: Parts) -> None:
    parts.table((cell.pin("D0"), cell.pin("D1"), cell.pin("SD")), 0b11001010, cell.pin("Z"))


def _ccu2c(cell: ChipCell, parts: Parts) -> None:
    """Add two bits of a chain: the table says whether the carry passes; if not, its lower entries are the carry."""
    carry = cell.pin("CIN")
    for half in "01":
        table, cut = cell.number(f"INIT{half}"), cell.text(f"INJECT1_{half}", "YES") == "YES"
        ins = tuple(cell.pin(f"{name}{half}") for name in "ABCD")
        passes = parts.table(ins, table)
        out = cell.pins.get(f"S{half}")
        if out is not None:
            parts.table((passes, ZERO if cut else carry), 0b0110, out[0])
        generated = ZERO if cut else parts.table(ins[:2], table & 15)
        last = cell.pins.get("COUT") if half == "1" else None
        if half == "0" or last is not None:
            carry = parts.table((generated, carry, passes), 0b11001010, None if last is None else last[0])


def _flip_flop(cell: ChipCell, parts: Parts) -> None:
    clocked(cell, parts, "CLK")
    if cell.text("CLKMUX", "CLK") != "CLK" or cell.text("LSRMODE", "LSR") != "LSR":
        raise not_modelled(cell, "it has another clock edge, or is loaded by its reset")
    reset = ZERO if "LSR" not in cell.pins else cell.pin("LSR")
    if cell.text("LSRMUX", "LSR") == "INV":
        reset = parts.inverted(reset)
    if reset != ZERO and cell.text("SRMODE") == "ASYNC":
        raise not_modelled(cell, "its reset is asynchronous")
    mux = cell.text("CEMUX", "1")
    enable = {"1": ONE, "0": ZERO}[mux] if mux in ("0", "1") else cell.pin("CE")
    if mux == "INV":
        enable = parts.inverted(enable)
    value = int(cell.text("REGSET", "RESET") == "SET")
    parts.flip_flops.append(FlipFlop(cell.pin("Q"), cell.pin("DI"), enable, reset, value, begins=value))


def _dpr16x4(cell: ChipCell, parts: Parts) -> None:
    clocked(cell, parts, "WCK")
    if cell.text("WCKMUX", "WCK") != "WCK" or cell.text("WREMUX", "WRE") != "WRE":
        raise not_modelled(cell, "its clock or its strobe is inverted")
    if cell.number("INITVAL"):
        raise not_modelled(cell, "it has first contents, and models of such memories begin with rubbish")
    out = (*cell.pins.get("DO", ()), None, None, None, None)[:4]
    parts.small.append(SmallMemory(cell.bits("RAD", 4), out, cell.bits("WAD", 4), cell.bits("DI", 4), cell.pin("WRE")))


def _mult18x18d(cell: ChipCell, parts: Parts) -> None:
    """Add a multiplier; the pins SIGNED pass the register of their operand with it."""
    require(cell, SOURCEA=ZERO, SOURCEB=ZERO)

    def stage(register: str, nets: tuple[int, ...], outs: tuple[int | None, ...] | None = None) -> tuple[int, ...]:
        clock, enable, reset = (cell.text(f"REG_{register}_{what}", what + "0") for what in ("CLK", "CE", "RST"))
        if f"REG_{register}_CLK" not in cell.parameters or clock == "NONE":
            return nets
        if (clock, enable, reset) != ("CLK0", "CE0", "RST0"):
            raise not_modelled(cell, f"its register {register} is on other pins than CLK0, CE0 and RST0")
        clocked(cell, parts, "CLK0")
        if cell.pin("RST0") not in (ZERO, RUBBISH) and cell.text("RESETMODE", "SYNC") != "SYNC":
            raise not_modelled(cell, "its reset is asynchronous")
        targets = outs or (None,) * len(nets)
        reset_net = ZERO if "RST0" not in cell.pins else cell.pin("RST0")
        return tuple(
            parts.register(net, out, enable=cell.pin("CE0"), reset=reset_net)
            for net, out in zip(nets, targets, strict=True)
        )

    *a, a_signed = stage("INPUTA", (*cell.pins_of("A", 18), cell.pin("SIGNEDA")))
    *b, b_signed = stage("INPUTB", (*cell.pins_of("B", 18), cell.pin("SIGNEDB")))
    driven = cell.driven("P", 36)
    used = [k for k, net in enumerate(driven) if net is not None]
    nets: list[int | None] = [None] * 36
    for k in used:
        nets[k] = parts.fresh()
    parts.products.append(MultiplierCell(tuple(a), tuple(b), a_signed, b_signed, tuple(nets)))
    piped = stage("PIPELINE", tuple(net for net in nets if net is not None))
    outs = tuple(net for net in driven if net is not None)
    for net, out in zip(stage("OUTPUT", piped, outs), outs, strict=True):
        if net != out:
            parts.table((net,), 0b10, out)


_BEGINS = {
    36: (0,),
    18: (0, 18),
    9: (0, 9, 18, 27),
    4: tuple(9 * byte + at for byte in range(4) for at in (0, 4)),
    2: tuple(9 * byte + at for byte in range(4) for at in (0, 2, 4, 6)),
    1: tuple(9 * byte + at for byte in range(4) for at in range(8)),
}
"""First bits of the parts of a row of 36 bits, by width: ports of 4, 2, 1 bit do not see the highest bit of a byte."""

_WRITE_MODES = {"NORMAL": UNLESS_IT_WRITES, "READBEFOREWRITE": OLD_WORD, "WRITETHROUGH": NEW_WORD}


def rows_of(cell: ChipCell) -> list[int]:
    """Return the 512 rows of 36 bits; a parameter is 16 words of 18 bits, each in 20."""
    words = [cell.number(f"INITVAL_{k:02X}") >> 20 * index & (1 << 18) - 1 for k in range(64) for index in range(16)]
    return [low | high << 18 for low, high in zip(words[::2], words[1::2], strict=True)]


def stored(cell: ChipCell) -> tuple[list[int], int]:
    """Return the words, and their width, of a block that is only read.

    It is read through port A, or its lower half through A and the rest through B, side by side.
    """
    begins, width = _BEGINS[cell.number("DATA_WIDTH_A", 18)], cell.number("DATA_WIDTH_A", 18)
    words = [row >> begin & (1 << width) - 1 for row in rows_of(cell) for begin in begins]
    bits, above = (sum(f"DO{port}{k}" in cell.pins for k in range(18)) for port in "AB")
    low = [word & (1 << bits) - 1 for word in words]
    if cell.pin("CEB") != ONE:
        return low, bits
    half = len(words) // 2
    high = [word & (1 << above) - 1 for word in words[half:]]
    return [word | upper << bits for word, upper in zip(low, high, strict=False)], bits + above


def _dp16kd(cell: ChipCell, parts: Parts) -> None:
    """Add a block with two ports; at 36 bits A only writes and B only reads, each with the data pins of both."""
    widths = [cell.number(f"DATA_WIDTH_{port}", 18) for port in "AB"]
    if (widths[0] != 36 and widths[1] == 36) or any(width not in _BEGINS for width in widths):
        raise not_modelled(cell, f"its ports are {widths[0]} and {widths[1]} bits wide")
    ports = [_port(cell, parts, name, width) for name, width in zip("AB", widths, strict=True)]
    rows = rows_of(cell)
    written = any(port.write != ZERO for port in ports)
    parts.blocks.append(Block(cell.name, rows, tuple(ports), rubbish=written and not any(rows)))


def _port(cell: ChipCell, parts: Parts, name: str, width: int) -> BlockPort:
    if cell.text(f"CSDECODE_{name}", "0b000") != "0b000":
        raise not_modelled(cell, f"port {name} has another select code than 0")
    require(cell, **{f"CS{name}{k}": ZERO for k in range(3)}, **{f"RST{name}": ZERO})
    enable, write = cell.pin(f"CE{name}"), cell.pin(f"WE{name}")
    if enable != ZERO:
        clocked(cell, parts, f"CLK{name}")
    if cell.text(f"CLK{name}MUX", f"CLK{name}") == "INV":
        raise not_modelled(cell, f"port {name} has the other clock edge")
    address = cell.pins_of(f"AD{name}", 14)
    data, out = cell.pins_of(f"DI{name}", 18), cell.driven(f"DO{name}", 18)
    reads = _WRITE_MODES[cell.text(f"WRITEMODE_{name}", "NORMAL")]
    if width == 36 and name == "A":
        data, out, reads = cell.pins_of("DIA", 18) + cell.pins_of("DIB", 18), (), 0
    elif width == 36:
        out, write = cell.driven("DOA", 18) + cell.driven("DOB", 18), ZERO
    if cell.text(f"REGMODE_{name}", "NOREG") == "OUTREG":
        latched = tuple(None if net is None else parts.fresh() for net in out)
        for net, q in zip(latched, out, strict=True):
            if net is not None:
                parts.register(net, q, enable=cell.pin(f"OCE{name}"))
        out = latched
    begins = _BEGINS[width]
    lowest = 5 - (len(begins) - 1).bit_length()
    return BlockPort(
        address=address,
        word=(5, 511),
        part=(lowest, len(begins) - 1),
        begins=begins,
        width=width,
        enable=enable,
        write=write,
        reads=reads,
        data=data[:width],
        mask=tuple(address[j // 9] if width >= 18 else ONE for j in range(width)),
        out=(*out, *[None] * width)[:width],
    )


def _pad(cell: ChipCell, parts: Parts) -> None:
    """Add a pad that is an input, always drives, or both as its pin T says (FPGA-TN-02032)."""
    if cell.text("DIR") == "INPUT":
        parts.table((cell.pin("B"),), 0b10, cell.pin("O"))
    elif cell.text("DIR") == "OUTPUT" and cell.tied("T") == ZERO:
        parts.table((cell.pin("I"),), 0b10, cell.pin("B"))
    elif cell.text("DIR") == "BIDIR":
        into = cell.pins["O"][0] if "O" in cell.pins else None
        parts.pads.append(TwoWayPad(cell.pin("B"), cell.pin("I"), cell.tied("T"), into))
    else:
        raise not_modelled(cell, "it is an output that does not always drive")


def _memory_clock(cell: ChipCell, parts: Parts) -> None:
    """Add the way to the clock of the flash (sysCONFIG usage guide FPGA-TN-02039)."""
    require(cell, USRMCLKTS=ZERO)
    parts.memory_clocks.append(cell.pin("USRMCLKI"))


def _through_pad(cell: ChipCell, mhz: Fraction) -> ClockPath | None:
    return ClockPath(cell.pin("B"), {cell.pin("O"): mhz}) if cell.text("DIR") == "INPUT" else None


_OUTPUTS = ("CLKOP", "CLKOS", "CLKOS2", "CLKOS3")


def _pll(cell: ChipCell, parts: Parts) -> None:
    require(cell, RST=ZERO, STDBY=ZERO)
    if "LOCK" in cell.pins:
        parts.locks.append(cell.pin("LOCK"))


def _through_pll(cell: ChipCell, mhz: Fraction) -> ClockPath:
    """Return the clocks of a PLL (FPGA-TN-02200) whose output, fed back outside of it, has the phase detector's."""
    path = cell.text("FEEDBK_PATH", "CLKOP")
    if path not in _OUTPUTS or cell.pin("CLKFB") != cell.pin(path) or cell.pin(path) == RUBBISH:
        raise not_modelled(cell, f"it is fed back by {path}, and its pin CLKFB is on another net")
    phase = mhz / cell.number("CLKI_DIV", 1)
    vco = phase * cell.number("CLKFB_DIV", 1) * cell.number(f"{path}_DIV", 8)
    in_range(cell, "phase detector", phase, 10, 400)
    in_range(cell, "oscillator", vco, 400, 800)
    on = [out for out in _OUTPUTS if cell.text(f"{out}_ENABLE") == "ENABLED" and cell.pin(out) != RUBBISH]
    return ClockPath(cell.pin("CLKI"), {cell.pin(out): vco / cell.number(f"{out}_DIV", 8) for out in on})


_MODELS: dict[str, Model] = {
    "LUT4": _lut4,
    "PFUMX": _pfumx,
    "L6MUX21": _l6mux21,
    "CCU2C": _ccu2c,
    "TRELLIS_FF": _flip_flop,
    "TRELLIS_DPR16X4": _dpr16x4,
    "MULT18X18D": _mult18x18d,
    "DP16KD": _dp16kd,
    "TRELLIS_IO": _pad,
    "EHXPLLL": _pll,
    "USRMCLK": _memory_clock,
}

LIBRARY = CellLibrary(
    _MODELS,
    Path(__file__),
    stored={"DP16KD": stored},
    clocks={"TRELLIS_IO": _through_pad, "EHXPLLL": _through_pll},
)
