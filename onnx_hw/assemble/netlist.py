"""A design on a board, as the tools of the chip take it: the circuit between pads, and where those are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from onnx_hw.assemble.elaborate import CircuitNames, assemble, in_shell, tidy, to_rtlil
from onnx_hw.assemble.host_link import link_of
from onnx_hw.assemble.stream_names import stream_names
from onnx_hw.implement.check_fit import pin_constraints
from onnx_hw.ir.design import Design
from onnx_hw.ir.target import DesignTarget
from onnx_hw.messages.errors import user_error
from onnx_hw.runtime.build_folder import digest
from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.board import Board
from onnx_hw_boards.families.family import Family
from onnx_hw_boards.linked_board import ALARM_LED, LinkedBoard
from onnx_hw_boards.pins import PadStream
from onnx_hw_boards.verilog_board import ShellKind, VerilogBoard
from onnx_hw_link.link import Link


@dataclass(frozen=True)
class Netlist:
    """A circuit with its pads: the input of synthesis, placement and routing.

    Attributes:
        rtlil: the circuit, module ``top``, in yosys' own text format.
        constraints: text of nextpnr's file: every port on a pin, and the clock.
        target: board, and the clock to aim at.
        pins: number of pins that the streams take, or the link.
        reset_delay: cycles from power-up, or from the end of a reset at its pad, to cycle 0 of the circuit; None where
            its streams are not on pins.
        link: facts that a host needs; None where no packets travel.
        ports: ports of a circuit that is on no pins, without clock and reset: "in" or "out", and bits.
    """

    rtlil: str
    constraints: str
    target: DesignTarget
    pins: int
    reset_delay: int | None = None
    link: Link | None = None
    ports: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.lines:,} lines of netlist, {self.pins} pins"

    def __repr__(self) -> str:
        return f"Netlist for {self.family.name}: {self.pins} pins, {self.clock_mhz:g} MHz"

    @property
    def family(self) -> Family:
        """Family of the chip."""
        return self.target.board.family

    @property
    def clock_mhz(self) -> float:
        """Clock to aim at, MHz."""
        return self.target.clock_mhz

    @property
    def lines(self) -> int:
        return len(self.rtlil.splitlines())

    @property
    def digest(self) -> str:
        """Digest of everything that the bitstream depends on, except the tools."""
        return digest({"rtlil": self.rtlil, "pads": self.constraints, "clock": self.clock_mhz})

    @property
    def circuit_digest(self) -> str:
        """Digest of the same without the contents of memories that are loaded at run time."""
        return replace(self, rtlil=without_loaded_contents(self.rtlil)).digest


def netlist_of(design: Design) -> Netlist:
    """Return the netlist of a design, with its streams on the pins of a bare chip or behind the link of a board.

    Raises:
        UserError: there are not enough pins; the board cannot make such a clock, or the link such a rate.
    """
    from onnx_hw_rtl.shells.shell import Shell
    from onnx_hw_rtl.target import Target

    board = design.target.board
    if isinstance(board, LinkedBoard):
        return _behind_its_link(design, board)
    if isinstance(board, VerilogBoard):
        return _verilog(design, board)
    assert isinstance(board, BareChip)
    assembly, names = assemble(design)
    streams = pad_streams(design, names)
    constraints = pin_constraints(board, streams, design.clock_mhz)
    shell = Shell(assembly)
    rtlil = to_rtlil(shell, Target(board.family.primitives()))
    pins, delay = sum(stream.pins for stream in streams), shell.RESET_DELAY + assembly.RESET_DELAY
    return Netlist(rtlil, constraints, design.target, pins, delay)


def pad_streams(design: Design, names: CircuitNames) -> list[PadStream]:
    """Return the streams that leave the chip."""
    open_edges = [edge for edge in design.edges() if edge.producer is None or edge.consumer is None]
    return [PadStream(names.edges[edge.tensor], edge.width, edge.type.dtype.bits) for edge in open_edges]


def _verilog(design: Design, board: VerilogBoard) -> Netlist:
    """Return the netlist of no chip, and on no pins; the digest is made as behind a link."""

    def built(digest: bytes) -> Netlist:
        link = link_of(design, design.clock_mhz, digest)
        shell = in_shell(design, board.shell, link, stream_names(design))
        ports = {
            name: (member.flow.value.lower(), len(getattr(shell, name)))
            for name, member in shell.signature.members.items()
        }
        spoken_to = link if board.shell is ShellKind.SPI else None
        pins = sum(width for _, width in ports.values())
        return Netlist(to_rtlil(shell), "", design.target, pins, link=spoken_to, ports=ports)

    return built(bytes.fromhex(built(bytes(16)).circuit_digest)[:16])


def _behind_its_link(design: Design, board: LinkedBoard) -> Netlist:
    """Return the netlist behind a link; the digest that it sends is that of the circuit with zeros in its place."""

    def built(digest: bytes) -> Netlist:
        link = link_of(design, design.clock_mhz, digest)
        shell = _shell(lambda: assemble(design)[0], link, board, design.clock_mhz)
        return replace(linked(shell, board, design.clock_mhz), link=link)

    return built(bytes.fromhex(built(bytes(16)).circuit_digest)[:16])


def require_way_to_load(board: Board) -> None:
    """Raise ``UserError`` for a board without a link, to which nothing can be loaded."""
    if isinstance(board, LinkedBoard) or (isinstance(board, VerilogBoard) and board.shell is ShellKind.SPI):
        return
    raise user_error(
        "no-link",
        f"loadable weights must come by a link; `{board.name}` has none",
        where="--weights loadable",
        hint="choose a board with a link, such as --board icebreaker; `onnx-hw boards` lists them",
        stage="arguments",
    )


def require_memory(board: Board, *, sdram: bool = False) -> None:
    """Raise ``UserError`` for a board without a memory for weights.

    Args:
        sdram: whether that must be an SDRAM.
    """
    if (board.sdram if sdram else board.memory) is None:
        kind = "an SDRAM" if sdram else "a flash with four data pins"
        raise user_error(
            "no-memory",
            f"weights must come from {kind}; `{board.name}` has none that onnx-hw knows",
            where="--memory",
            hint="choose --board ulx3s, or leave out --memory",
            stage="arguments",
        )


def without_loaded_contents(rtlil: str) -> str:
    """Return a netlist without the first contents of memories, and the first numbers, that are loaded at run time."""
    if "\\loaded" not in rtlil:
        return rtlil
    parts, end = [], 0
    for register in _LOADED_NUMBER.finditer(rtlil):
        begin, after = rtlil.rfind("\nmodule ", 0, register.start()), rtlil.find("\nend\n", register.end())
        parts += [rtlil[end:begin], _FIRST_NUMBER.sub(r"\g<1>0", rtlil[begin:after])]
        end = after
    return _LOADED_CONTENTS.sub(r"\g<1>0", "".join([*parts, rtlil[end:]]))


def shell_of(link: Link, board: LinkedBoard, clock_mhz: float) -> Netlist:
    """Return the shell around a network on a board with a link, without the network; raise as ``netlist_of``."""
    from onnx_hw_rtl.shells.black_box import BlackBox

    return linked(_shell(lambda: BlackBox(link), link, board, clock_mhz), board, clock_mhz)


def _shell(network: Callable[[], Any], link: Link, board: LinkedBoard, clock_mhz: float) -> Any:
    """Return the circuit around a network behind the link of a board.

    Raises:
        UserError: the clock is too slow for the link, or cannot make its rate.
    """
    try:
        board.link.bit_rate(clock_mhz)
    except ValueError as error:
        raise user_error("clock", str(error), where=f"board `{board.name}`", hint="--clock", stage="assemble") from None
    return board.link.shell(network(), link, clock_mhz)


def bit_rate_of(netlist: Netlist) -> int:
    """Return the bits a second on the link, as the circuit divides its clock; 0 where the host's clock drives it."""
    board = netlist.target.board
    return board.link.bit_rate(netlist.clock_mhz) if isinstance(board, LinkedBoard) else 0


def linked(circuit: Any, board: LinkedBoard, clock_mhz: float) -> Netlist:
    """Return a circuit with the ports of a board's link on the link's pins, with the board's clock and reset.

    Pins and constraints are what Amaranth's platform says.

    Args:
        circuit: an Amaranth component of the domain ``sync``.
        clock_mhz: clock to aim at; the netlist has the exact clock.

    Raises:
        UserError: the board cannot make such a clock.
    """
    from onnx_hw_rtl.shells.board_top import BoardTop
    from onnx_hw_rtl.target import PllSetting, Target

    try:
        source = board.clock(clock_mhz)
    except ValueError as error:
        raise user_error("clock", str(error), where=f"board `{board.name}`", stage="assemble") from None
    setting = None
    if source.dividers is not None:
        setting = PllSetting(float(board.oscillator_mhz), source.dividers, source.at_pad)
    reads_sdram = board.sdram is not None and hasattr(circuit, "sdram_command")
    reads_flash = board.memory is not None and (reads_sdram or hasattr(circuit, "flash_sck"))
    top = BoardTop(
        circuit,
        Target(board.family.primitives()),
        link=(board.link.resource, board.link.number),
        ports=board.link.ports,
        setting=setting,
        reset_cycles=source.reset_cycles,
        flash=(board.memory.resource, 0) if board.memory and reads_flash else None,
        alarm=ALARM_LED if reads_flash and board.has_alarm_led else None,
        sdram=(board.sdram.resource, 0) if board.sdram and reads_sdram else None,
        falling=board.sdram.timing(float(source.mhz)).falling if board.sdram and reads_sdram else False,
    )
    files = board.platform().prepare(top, "top", emit_src=False).files
    constraints = files["top" + PurePath(board.family.placement.constraints).suffix]
    pins = len(_PLACED.findall(constraints))
    return Netlist(tidy(files["top.il"]), constraints, DesignTarget(board, float(source.mhz)), pins)


_LOADED_CONTENTS = re.compile(
    r'(    parameter \\MEMID "\\\\loaded\d*"\n(?:    parameter .*\n)*'
    r"    connect \\ADDR .*\n    connect \\DATA \d+')[01]+"
)
"""Contents of a memory of the names that ``LoadedMemory`` and ``ContentsLoader`` give theirs."""

_LOADED_NUMBER = re.compile(r"^  wire width \d+ output \d+  \\loaded_number$", re.MULTILINE)
"""Declaration of a number of the name that ``LoadedRegister`` gives its own, in its module."""

_FIRST_NUMBER = re.compile(r"(  attribute \\init \d+')[01]+")
"""First number of a register."""

_PLACED = re.compile(r"^(?:LOCATE COMP|set_io|IO_LOC) ", re.MULTILINE)
"""A line that places a port, in every dialect."""
