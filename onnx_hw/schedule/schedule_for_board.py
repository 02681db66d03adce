"""Scheduling for a board: its budget, its clock, and other boards where nothing fits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import onnx_hw_boards
from onnx_hw.assemble.shell_area import shell_cells
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.ir.target import DesignTarget
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.messages.errors import ExitCode, UserError, user_error
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.tape import ReaderTiming
from onnx_hw.runtime.schedule_request import ScheduleRequest, WeightPlace
from onnx_hw.schedule.budget import RESOURCES, Budget, amount
from onnx_hw.schedule.candidates import Offers
from onnx_hw.schedule.cost_model import Cost
from onnx_hw.schedule.explain_no_fit import NOTHING_HELPS, OtherTarget
from onnx_hw.schedule.folding_file import read_foldings
from onnx_hw.schedule.folding_for_interval import fold_for, resources_of
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.link_bandwidth import most_frames_a_second
from onnx_hw.schedule.min_cycles import longest_interval
from onnx_hw.schedule.outside.size_tape_fifos import size_tape_fifos
from onnx_hw.schedule.schedule_network import design_at_rate, has_slow_design, schedule_network
from onnx_hw.schedule.search_folding import QUICK_SEARCH, Search, far_too_little
from onnx_hw.schedule.write_tape import write_tape
from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.board import Board
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_link.flash_tape import image_bytes
from onnx_hw_link.sdram_tape import SdramTiming

NOTHING = Cells()


LUTS_PER_LANE = 64
"""Look-up tables of the chip for each lane, where no number of lanes is asked for. Narrow products take a few of them
each: without a bound a binary network is thousands of lanes wide, which fill the chip and take the tools long."""


def target_budget(board: Board, multipliers: int | None, shell: Cells = NOTHING) -> Budget:
    """Return what a design should use at most, in addition to its shell, so that it fits comfortably.

    Where a number of lanes is asked for, that is all multipliers, and look-up tables for the lanes beyond them.
    """
    asked, planned = multipliers is not None, board.family.fill.plan(board.cells, shell, comfortable=True)
    if asked:
        planned["dsp"] = board.cells.dsp
    lanes = multipliers if asked else max(1, board.cells.lut // LUTS_PER_LANE)
    return Budget(lanes, **planned, pins=pins_of(board), in_logic=asked, easy_logic=_easy_logic(board, shell))


def full_budget(board: Board, multipliers: int | None, shell: Cells = NOTHING) -> Budget:
    """Return what a design may use that does not fit comfortably."""
    planned = board.family.fill.plan(board.cells, shell, comfortable=False)
    return Budget(
        multipliers,
        **planned,
        pins=pins_of(board),
        in_logic=multipliers is not None,
        easy_logic=_easy_logic(board, shell),
    )


def excess_over_target(design: Design, multipliers: int | None) -> str:
    """Return what a design takes more of than a comfortable share: ``205 of 208 block RAMs``; empty if nothing."""
    used, board = design.resources(), design.target.board
    shell = shell_cells(design.network, board, design.clock_mhz)
    names = replace(target_budget(board, multipliers, shell), pins=None).excess(used)
    there = {field: name for field, name in RESOURCES.items() if name in names and field != "mac_lanes"}
    return ", ".join(f"{amount(used, f):,} of {getattr(board.cells, f):,} {name}" for f, name in there.items())


def _easy_logic(board: Board, shell: Cells) -> int | None:
    """Return the logic cells of a design that is placed easily, shell aside; None without a bound."""
    share = board.family.fill.easy_logic
    return None if share is None else int(share * (board.cells.logic - shell.logic))


def pins_of(board: Board) -> int | None:
    """Return the number of pins for streams; None where a link carries them."""
    return len(board.pins) if isinstance(board, BareChip) else None


def schedule_for_board(
    board: Board,
    network: Network,
    request: ScheduleRequest | None = None,
    search: Search = Search(),  # noqa: B008
) -> tuple[Design, dict[str, Folding]]:
    """Return the design of a network for a board, and its foldings; see ``schedule_network``.

    On a board with a link, and where nothing bounds the speed, the cheapest design that keeps the link busy; only
    where none fits, the fastest one.

    Raises:
        UserError: as ``schedule_network``; the weights outside the chip do not fit in the memory of the board.
    """
    request = request or ScheduleRequest()
    design, foldings = _on_chip(board, network, request, search)
    if not design.taped_ports():
        return design, foldings
    timing = reader_timing(board, design.clock_mhz, request.memory)
    design = replace(design, sdram=timing) if isinstance(timing, SdramTiming) else replace(design, flash=timing)
    design = write_tape(design)
    assert design.tape is not None
    taken = image_bytes(design.sdram.flash_bytes(design.tape.size) if design.sdram else design.tape.size)
    if board.memory is not None and taken > board.memory.room():
        raise user_error(
            "too-big",
            f"the weights outside the chip need {taken:,} bytes of the {board.memory.room():,} that the flash of "
            f"`{board.name}` has behind the bitstream",
            hint=NOTHING_HELPS,
            stage="schedule",
            exit_code=ExitCode.DOES_NOT_FIT,
        )
    shell = shell_cells(network, board, design.clock_mhz)
    room = full_budget(board, request.multipliers, shell)
    return size_tape_fifos(design, room, request.depths or ()), foldings


def reader_timing(board: Board, clock_mhz: float, memory: WeightPlace) -> ReaderTiming | None:
    """Return the timing of the reader of a board's memory; None for a board without one.

    Raises:
        UserError: the memory is too slow for the clock.
    """
    if memory is WeightPlace.FLASH or board.sdram is None:
        return board.memory.timing(clock_mhz) if board.memory else None
    try:
        return board.sdram.timing(clock_mhz)
    except ValueError as error:
        raise user_error(
            "clock",
            f"{error}: the SDRAM of `{board.name}` has the clock of the chip",
            where="--memory sdram",
            hint="choose a lower --clock, or --memory flash",
            stage="schedule",
        ) from None


def most_frames_from_memory(board: Board, network: Network, clock_mhz: float, memory: WeightPlace) -> float:
    """Return the greatest rate that the weights outside the chip allow; infinity where there are none."""
    used = sum(-(-bits // 8) for node in network.nodes if (bits := node.operator.taped_bits))
    timing = reader_timing(board, clock_mhz, memory)
    return clock_mhz * 1e6 / timing.pass_cycles(timing.whole(used)) if timing and used else math.inf


def _on_chip(
    board: Board, network: Network, request: ScheduleRequest, search: Search
) -> tuple[Design, dict[str, Folding]]:
    """Return the design without the order of weights outside the chip."""
    multipliers, target = request.multipliers, DesignTarget(board, clock_of(board, request.clock_mhz))
    shell = shell_cells(network, board, target.clock_mhz)

    budget, most = target_budget(board, multipliers, shell), full_budget(board, multipliers, shell)
    if isinstance(board, LinkedBoard) and request.wants_fastest and not multipliers and not request.depths:
        from_memory = most_frames_from_memory(board, network, target.clock_mhz, request.memory)
        fps = min(most_frames_a_second(network, board.link), from_memory)
        room = most.easily_placed()
        enough = design_at_rate(network, budget, fps, target=target, most=room, search=search)
        if enough is not None:
            return enough  # else the chip does not keep the link busy: as fast as it can, then
    elsewhere = OtherBoards(board, multipliers, request.clock_mhz, shell)
    return schedule_network(network, budget, request, target=target, most=most, elsewhere=elsewhere, search=search)


MAX_SEARCHED_NODES = 60
"""Number of nodes of a network that is refused only after every design that a build would try."""


def refuse_what_does_not_fit(board: Board, network: Network, request: ScheduleRequest) -> None:
    """Raise the ``UserError`` of ``schedule_for_board``, if any; how fast a design would be is not worked out.

    For a larger network the slowest designs and a few others are tried: it fits clearly, or it is too large.
    """
    large = unbounded(request) and len(network.nodes) > MAX_SEARCHED_NODES
    search = QUICK_SEARCH if large else Search(for_loops=False, least_fifos=False)
    if unbounded(request) and _slowest_fits(board, network, request, search):
        return
    if network.loops and request.fps is None:
        with suppress(UserError):
            schedule_for_board(board, network, request, search)
            return
    schedule_for_board(board, network, request, replace(search, for_loops=True))


def unbounded(request: ScheduleRequest) -> bool:
    """Return whether a design may be as slow as it likes."""
    return request.fps is None and request.latency_us is None and request.foldings is None and not request.depths


def slowest_fits(board: Board, network: Network, request: ScheduleRequest) -> bool:
    """Return whether the cheapest design of the longest interval fits, without one of smaller cores being tried."""
    return _slowest_fits(board, network, request, Search(for_loops=False, least_fifos=False, tighter_rooms=0))


def blocks_left(board: Board, network: Network, request: ScheduleRequest) -> int:
    """Return the block RAMs of a board that the cores of the cheapest design leave; 0 where they take all or more."""
    network, cost = verify_network(insert_forks(network), "insert_forks"), Cost.of(board.family)
    foldings = fold_for(network, longest_interval(network), None, cost)
    room = _whole_chip(board, network, request)[1].bram
    assert room is not None
    return 0 if foldings is None else max(0, room - resources_of(network, foldings, cost).bram)


def _slowest_fits(board: Board, network: Network, request: ScheduleRequest, search: Search) -> bool:
    target, room = _whole_chip(board, network, request)
    return has_slow_design(network, room, target=target, search=search)


def _whole_chip(board: Board, network: Network, request: ScheduleRequest) -> tuple[DesignTarget, Budget]:
    """Return the target of a design, and all that it may use."""
    target = DesignTarget(board, clock_of(board, request.clock_mhz))
    return target, full_budget(board, request.multipliers, shell_cells(network, board, target.clock_mhz))


def far_too_large(board: Board, network: Network, request: ScheduleRequest) -> bool:
    """Return whether the cores of a network, each as small as it can be, surely take more than a board has.

    Multipliers are not counted, whose work look-up tables might do.
    """
    shell = shell_cells(network, board, clock_of(board, request.clock_mhz))
    room = replace(full_budget(board, request.multipliers, shell), dsp=None)
    return far_too_little(Offers(insert_forks(network), Cost.of(board.family)), room)


def with_folding_file(request: ScheduleRequest, path: Path | None, network: Network) -> ScheduleRequest:
    """Return a request with the foldings and FIFO depths of a file; the same where ``path`` is None.

    Raises:
        UserError: everything that is wrong with the file.
    """
    if path is None:
        return request
    foldings, depths = read_foldings(path, network)
    return replace(request, foldings=foldings, depths=depths)


def clock_of(board: Board, mhz: float | None) -> float:
    """Return the clock of a design: ``mhz``, or the board's own; on a board with a link the nearest one that it makes.

    Raises:
        UserError: the board makes no clock near it.
    """
    clock = mhz or board.default_clock_mhz
    if not isinstance(board, LinkedBoard):
        return clock
    try:
        return float(board.clock(clock).mhz)
    except ValueError as error:
        raise user_error(
            "clock", str(error), where=f"board `{board.name}`", hint="--clock", stage="arguments"
        ) from None


class OtherBoards(Mapping[str, OtherTarget]):
    """Boards of the same kind on which a network might be built, one for each other chip; read when asked for."""

    def __init__(self, board: Board, multipliers: int | None, clock_mhz: float | None, shell: Cells) -> None:
        self.board, self.multipliers, self.clock_mhz, self.shell = board, multipliers, clock_mhz, shell

    def __getitem__(self, name: str) -> OtherTarget:
        board = onnx_hw_boards.board(name)
        # The shell is that of the board at hand: it is much the same everywhere.
        most = full_budget(board, self.multipliers, self.shell)
        comfortable = target_budget(board, self.multipliers, self.shell)
        return OtherTarget(most, DesignTarget(board, self.clock_mhz or board.default_clock_mhz), comfortable)

    def __iter__(self) -> Iterator[str]:
        seen = {self.board.device.name}
        for name in same_kind(self.board):
            device = onnx_hw_boards.board(name).device.name
            if device not in seen:
                yield name
            seen.add(device)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def same_kind(board: Board) -> tuple[str, ...]:
    """Return the names of the boards of the same kind: bare chips, or boards with a link."""
    return tuple(name for name in onnx_hw_boards.names() if type(onnx_hw_boards.board(name)) is type(board))
