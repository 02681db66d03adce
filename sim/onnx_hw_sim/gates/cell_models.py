"""Parts that the cells of all chips are made of: tables, flip-flops, products and memories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from onnx_hw_sim.gates.netlist import ONE, RUBBISH, ZERO, ChipCell, Wires

RUBBISH_AT_FIRST = 2
"""Value at power-up of a register whose value no document states."""

NEVER, OLD_WORD, UNLESS_IT_WRITES, NEW_WORD = range(4)
"""Results of a port of a block: nothing; or while it writes the old word, nothing new, or the word that it writes."""


class UnmodelledCell(Exception):
    """A cell of a netlist is used in a way that no model covers; the message says which."""


def not_modelled(cell: ChipCell, why: str) -> UnmodelledCell:
    return UnmodelledCell(f"{cell.kind} `{cell.name}`: {why}")


@dataclass(frozen=True)
class LutCell:
    """``out`` is bit ``Σ in[k] · 2^k`` of ``function``; up to four inputs."""

    out: int
    ins: tuple[int, ...]
    function: int


@dataclass(frozen=True)
class FlipFlop:
    """One bit at the clock's rising edge.

    Attributes:
        begins: 0, 1 or RUBBISH_AT_FIRST.
        value: value that a reset gives.
        gated: whether the reset waits for the enable.
    """

    out: int
    d: int
    enable: int = ONE
    reset: int = ZERO
    value: int = 0
    gated: bool = False
    begins: int = 0


@dataclass(frozen=True)
class MultiplierCell:
    """``out`` = a · b, 18 × 18 bits; a missing output is None."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    a_signed: int
    b_signed: int
    out: tuple[int | None, ...]


@dataclass(frozen=True)
class SmallMemory:
    """16 words of 4 bits, written at the clock's edge, read at once. Begins with rubbish."""

    address: tuple[int, ...]
    out: tuple[int | None, ...]
    into: tuple[int, ...]
    data: tuple[int, ...]
    enable: int


@dataclass(frozen=True)
class BlockPort:
    """A port of a block. Bit j of part k of a word is its bit ``begins[k] + j · bit_step``.

    Attributes:
        address: nets, lowest first, at most 14.
        word, part: (lowest bit, mask) of the address: which word, and which part of it.
        enable, write: nets; it is written where both are 1.
        reads: NEVER .. NEW_WORD.
        data: nets of what is written.
        mask: per bit, the net that allows it.
        out: nets of what was read at the last edge.
    """

    address: tuple[int, ...]
    word: tuple[int, int]
    part: tuple[int, int]
    begins: tuple[int, ...]
    width: int
    enable: int
    write: int
    reads: int
    data: tuple[int, ...]
    mask: tuple[int, ...]
    out: tuple[int | None, ...]
    bit_step: int = 1


@dataclass(frozen=True)
class Block:
    """A block of memory that is read and written at the clock's edge.

    Attributes:
        words: initial contents, up to 36 bits each.
        rubbish: whether it begins with anything instead.
    """

    name: str
    words: Sequence[int]
    ports: tuple[BlockPort, ...]
    rubbish: bool

    @property
    def shared(self) -> bool:
        """Whether no port writes."""
        return all(port.write == ZERO for port in self.ports)


@dataclass(frozen=True)
class TwoWayPad:
    """A pad in both directions.

    Attributes:
        pin: net of the pin itself.
        out, off: what it drives, and where it drives nothing.
        into: value of the pin, which somebody outside drives; None where nobody reads it.
    """

    pin: int
    out: int
    off: int
    into: int | None


@dataclass
class Parts:
    """The parts of a netlist, collected cell by cell.

    Attributes:
        nets: number of nets.
        clock: the one net that clocks everything.
        locks: nets on which PLLs say that they have locked; somebody outside drives them.
        pads: pads in both directions.
        memory_clocks: nets that drive the clock of the flash with the bitstream, by a cell of its own.
    """

    nets: int
    clock: int
    tables: list[LutCell] = field(default_factory=list)
    flip_flops: list[FlipFlop] = field(default_factory=list)
    products: list[MultiplierCell] = field(default_factory=list)
    small: list[SmallMemory] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    locks: list[int] = field(default_factory=list)
    pads: list[TwoWayPad] = field(default_factory=list)
    memory_clocks: list[int] = field(default_factory=list)

    @property
    def driven_outside(self) -> list[int]:
        """Nets that nothing in the netlist drives, besides those of its inputs: locks, and pads in both directions."""
        return [*self.locks, *(pad.into for pad in self.pads if pad.into is not None)]

    def fresh(self) -> int:
        self.nets += 1
        return self.nets - 1

    def table(self, ins: tuple[int, ...], function: int, out: int | None = None) -> int:
        out = self.fresh() if out is None else out
        self.tables.append(LutCell(out, ins, function))
        return out

    def inverted(self, net: int) -> int:
        return {ZERO: ONE, ONE: ZERO}[net] if net in (ZERO, ONE) else self.table((net,), 0b01)

    def both(self, one: int, other: int) -> int:
        return other if one == ONE else one if other == ONE else self.table((one, other), 0b1000)

    def different(self, one: int, other: int) -> int:
        return other if one == ZERO else one if other == ZERO else self.table((one, other), 0b0110)

    def sum(self, a: Sequence[int], b: Sequence[int], carry: int = ZERO) -> tuple[list[int], int]:
        """Return the bits of ``a + b + carry``, in the width of the operands, and the carry out."""
        bits = []
        for x, y in zip(a, b, strict=True):
            bits.append(self.table((x, y, carry), 0b10010110))
            carry = self.table((x, y, carry), 0b11101000)
        return bits, carry

    def register(
        self, d: int, out: int | None = None, *, enable: int = ONE, reset: int = ZERO, begins: int = RUBBISH_AT_FIRST
    ) -> int:
        """Return the output of a flip-flop whose reset gives 0."""
        out = self.fresh() if out is None else out
        self.flip_flops.append(FlipFlop(out, d, enable, reset, begins=begins))
        return out


Stored = Callable[[ChipCell], tuple[list[int], int]]
"""Function from a block of memory that is only read to (words, their bits), decoded from its parameters and pins."""

Model = Callable[[ChipCell, Parts], None]
"""Function that adds the parts of a cell; raises UnmodelledCell."""


class WrongClock(Exception):
    """A PLL that makes no clock of its setting; the message says why."""


@dataclass(frozen=True)
class ClockPath:
    """The way of a clock through a cell.

    Attributes:
        source: net of the clock that enters.
        clocks: the clocks that leave, in MHz, by net.
    """

    source: int
    clocks: Mapping[int, Fraction]


ClockModel = Callable[[ChipCell, Fraction], ClockPath | None]
"""Function from a cell and the MHz of the clock at its input to what it makes of it; None where no clock passes.

It raises UnmodelledCell and WrongClock.
"""


@dataclass(frozen=True)
class CellLibrary:
    """Models of the cells of one chip family.

    Attributes:
        models: function that adds the parts of a cell, by kind of cell.
        source: file that states the models.
        wires: kinds of cells that only join a net with another one, or with a constant.
        stored: function that decodes the contents, by kind of memory cell that the family places by hand.
        clocks: function that follows a clock, by kind of PLL or pad.
    """

    models: Mapping[str, Model]
    source: Path
    wires: Wires = field(default_factory=dict)
    stored: Mapping[str, Stored] = field(default_factory=dict)
    clocks: Mapping[str, ClockModel] = field(default_factory=dict)


def in_range(cell: ChipCell, what: str, mhz: Fraction, least: int, most: int) -> None:
    """Raise WrongClock unless a frequency within a PLL lies in its range."""
    if not least <= mhz <= most:
        raise WrongClock(f"{cell.kind} `{cell.name}`: its {what} is {float(mhz):g} MHz, and must be {least} to {most}")


def require(cell: ChipCell, **pins: int) -> None:
    """Raise UnmodelledCell unless these pins are on these nets, or left open."""
    for name, net in pins.items():
        if cell.pin(name) not in (net, RUBBISH):
            raise not_modelled(cell, f"its pin {name} is not constant")


def clocked(cell: ChipCell, parts: Parts, pin: str) -> None:
    """Raise UnmodelledCell unless the pin is on the one clock."""
    if cell.pin(pin) != parts.clock:
        raise not_modelled(cell, f"its pin {pin} is on another net than the clock")
