"""Boards with a link: what nextpnr is told of them is what their platform classes say."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import Component, In, Out

import onnx_hw_boards
from onnx_hw.assemble.netlist import linked
from onnx_hw.messages.errors import UserError
from onnx_hw_boards.board_link import BoardLink
from onnx_hw_boards.families.clock_source import TOLERANCE
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_boards.links.spi import Spi

ALL = [onnx_hw_boards.board(name) for name in onnx_hw_boards.names()]
BOARDS = [board for board in ALL if isinstance(board, LinkedBoard)]
every_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)

FAMILIES = {board.family.folder: board.family for board in BOARDS}
LEAST = {"ecp5": 6, "ice40": 5, "gowin": 2, "gw5a": 2}


class Later(Component):
    """Sends what it hears, a few cycles later, at all outputs of a link."""

    def __init__(self, link: BoardLink) -> None:
        self.ways = link.ports
        super().__init__({name: (In if way == "i" else Out)(1) for name, way in link.ports.items()})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        line = Signal(4, init=0b1111)
        heard, sent = ([getattr(self, name) for name, way in self.ways.items() if way == kind] for kind in "io")
        m.d.sync += line.eq(line << 1 | Cat(heard).xor())
        m.d.comb += Cat(sent).eq(line[3].replicate(len(sent)))
        return m


def test_people_own_some_of_these() -> None:
    of_family = [board.family.folder for board in BOARDS]
    assert all(of_family.count(family) >= least for family, least in LEAST.items())
    assert len(of_family) >= 14


PLACES = {
    "ecp5": r'^LOCATE COMP "(\S+)" SITE "(\S+)";$',
    "ice40": r"^set_io (\S+) (\S+)$",
    "gowin": r'^IO_LOC "(\S+)" (\S+);$',
    "gw5a": r'^IO_LOC "(\S+)" (\S+);$',
}
STANDARDS = {
    "ecp5": r'^IOBUF PORT "(\S+)" .*\bIO_TYPE=(\S+?);?(?:\s|$)',
    "gowin": r'^IO_PORT "(\S+)" IO_TYPE=(\S+);$',
    "gw5a": r'^IO_PORT "(\S+)" IO_TYPE=(\S+);$',
}


@every_board
def test_pins_are_those_of_the_platform(board: LinkedBoard) -> None:
    platform, family = board.platform(), board.family.folder
    netlist = linked(Later(board.link), board, board.default_clock_mhz)

    def pins(resource: str, number: int = 0) -> dict[str, tuple[str, str]]:
        """Pin and standard by the name of the port, read from the resource as its author wrote it."""
        described = platform.lookup(resource, number)
        found = {}
        for part in described.ios:
            if hasattr(part, "ios"):  # a subsignal
                name, holder = f"{resource}_{number}__{part.name}__io", part.ios[0]
            else:
                name, holder = f"{resource}_{number}__io", part
            attributes = {**described.attrs, **getattr(part, "attrs", {})}
            (pin,) = holder.map_names(platform._conn_pins, described)
            found[name] = pin, attributes.get("IO_TYPE", "")
        return found

    link = pins(board.link.resource, board.link.number)
    ours = [f"{board.link.resource}_{board.link.number}__{name}__io" for name in board.link.ports]
    wanted = pins(platform.default_clk) | {name: link[name] for name in ours}
    if platform.default_rst is not None:
        wanted |= pins(platform.default_rst)
    assert len(wanted) == netlist.pins >= 3
    placed = dict(re.findall(PLACES[family], netlist.constraints, re.MULTILINE))
    assert placed == {name: pin for name, (pin, _) in wanted.items()}
    assert {pad.port: pad.pin for pad in board.pads.values()} == placed  # what the proof takes for the board's pins
    if family in STANDARDS:
        assert {pad.port: pad.standard for pad in board.pads.values()} == {name: of for name, (_, of) in wanted.items()}
        standards = dict(re.findall(STANDARDS[family], netlist.constraints, re.MULTILINE))
        assert standards == {name: standard for name, (_, standard) in wanted.items()}
    for port in placed:
        assert re.search(rf"^  wire width 1 \w+ \d+  \\{port}$", netlist.rtlil, re.MULTILINE)


OF_MAKERS = {
    "colorlight_i5": {"P3", "H18", "J17"},  # wuxx/Colorlight-FPGA-Projects, README.md and src/i5/uart_tx/top.lpf
    "colorlight_i9": {"P3", "H18", "J17"},  # the same, colorlight_i9_v7.2.md: as on an i5, but for pin 41 of the edge
    "tang_mega_138k_pro": {"P16", "N16", "P15"},  # litex-hub/litex-boards, platforms/sipeed_tang_mega_138k_pro.py
    "tang_nano_20k": {"4", "70", "69"},  # sipeed/TangNano-20K-example, uart/src/top.cst
    "tang_primer_25k": {"E2", "B3", "C3"},  # litex-hub/litex-boards, platforms/sipeed_tang_primer_25k.py
    "upduino3": {"20", "46", "47"},  # tinyvision-ai-inc/UPduino-v3.0, docs/source/features/specs.rst
    "tinyfpga_bx": {"B2", "H9", "D9"},  # the platform's connector: pins 14 and 15
}


@pytest.mark.parametrize(("name", "pins"), OF_MAKERS.items(), ids=OF_MAKERS)
def test_pins_of_our_own_classes_are_the_makers(name: str, pins: set[str]) -> None:
    board = onnx_hw_boards.board(name)
    assert isinstance(board, LinkedBoard)
    text = linked(Later(board.link), board, board.default_clock_mhz).constraints
    assert {pin for _, pin in re.findall(PLACES[board.family.folder], text, re.MULTILINE)} == pins


@every_board
def test_the_default_clock_is_made_and_carries_the_link(board: LinkedBoard) -> None:
    made = board.clock(board.default_clock_mhz).mhz
    assert abs(made - Fraction(board.default_clock_mhz)) <= TOLERANCE * made
    assert board.link.bit_rate(made) == pytest.approx(board.link.bits_per_second, rel=0.015)
    assert made * 1_000_000 / board.link.bits_per_second >= 4 * (1 - TOLERANCE)


MADE = {
    "ecp5": lambda f, d: f / d["CLKI_DIV"] * d["CLKFB_DIV"] * d["CLKOP_DIV"] / d["CLKOS_DIV"],
    "ice40": lambda f, d: f * (d["DIVF"] + 1) / (d["DIVR"] + 1) / 2 ** d["DIVQ"],
    "gowin": lambda f, d: f * (d["FBDIV_SEL"] + 1) / (d["IDIV_SEL"] + 1),
}
"""What the makers' documents say that a PLL with such dividers makes."""


@pytest.mark.parametrize("family", MADE)
@pytest.mark.parametrize("oscillator", [12, 16, 25, 27, 50, 100])
def test_a_pll_makes_the_clock_that_is_told(family: str, oscillator: int) -> None:
    clocking, made = FAMILIES[family].clocking, 0
    for mhz in map(Fraction, (18, 24, 33.5, 48, 60, 72, 96.5)):
        try:
            source = clocking.nearest(Fraction(oscillator), mhz)
        except ValueError:
            continue
        assert source.dividers is not None
        assert MADE[family](Fraction(oscillator), source.dividers) == source.mhz
        assert abs(source.mhz - mhz) <= TOLERANCE * mhz
        made += 1
    assert made >= 4
    assert FAMILIES[family].clocking.nearest(Fraction(oscillator), Fraction(oscillator)).dividers is None


def test_a_chip_without_a_pll_has_the_clock_of_its_oscillator_alone() -> None:
    """No family but one is without."""
    (family,) = set(FAMILIES) - set(MADE)
    clocking = FAMILIES[family].clocking
    assert family == "gw5a" and clocking.nearest(Fraction(50), Fraction(50)).dividers is None
    with pytest.raises(
        ValueError, match="must be the oscillator's 50 MHz, or one that the chip's PLL makes of it, not"
    ):
        clocking.nearest(Fraction(50), Fraction(60))


def test_block_rams_of_an_ice40_are_left_alone_for_a_while() -> None:
    for mhz in (12, 24, 60):
        assert FAMILIES["ice40"].clocking.nearest(Fraction(12), Fraction(mhz)).reset_cycles / mhz >= 15


def test_a_clock_that_cannot_be_is_refused() -> None:
    board = onnx_hw_boards.board("icebreaker")
    assert isinstance(board, LinkedBoard)
    with pytest.raises(UserError, match="the oscillator's 12 MHz, or one that the chip's PLL makes of it, not 900 MHz"):
        linked(None, board, 900)
    with pytest.raises(ValueError, match=r"at 15\.6 MHz a bit takes 2\.60; 18 MHz would do"):
        board.link.bit_rate(Fraction(156, 10))
    with pytest.raises(ValueError, match="SPI at 6 MHz needs a clock of 24 MHz or more, not 20 MHz"):
        Spi(6_000_000).bit_rate(20)
