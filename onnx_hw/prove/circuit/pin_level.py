"""A board's netlist through its pins: which nets they are, what clocks it, and 64 sessions with it (links 4 and 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.assemble.elaborate import SIMULATED_FLASH, tape_address
from onnx_hw.assemble.netlist import Netlist, bit_rate_of
from onnx_hw.assemble.tape_file import tape_image
from onnx_hw.ir.design import Design
from onnx_hw.prove.circuit.pin_level_bench import BoardTimes, PinLevelBench, SessionComparison
from onnx_hw.prove.circuit.run_time import announce_long_run
from onnx_hw.prove.circuit.stalls import SEED
from onnx_hw_boards.linked_board import BoardPin, LinkedBoard
from onnx_hw_link.flash_parts import PARTS, FlashFault
from onnx_hw_link.link import Link

if TYPE_CHECKING:
    from onnx_hw_sim.gates.cell_models import CellLibrary
    from onnx_hw_sim.gates.netlist import FlatNetlist
    from onnx_hw_sim.gates.pin_simulator import BoardsUnderWay, FlashChip, PinLevel, PinSimulator
    from onnx_hw_sim.gates.toggles import ModelledCells, ToggleCount

FRAMES_OF_A_SESSION = (1, 4)
"""Least and most frames of a session; more than the least only where they fit in ``SECONDS``."""

SECONDS = 20

LOCKS_AFTER, POWER_UP_US = 10, 100
"""Cycles after which the PLLs of a board lock, and microseconds after which a host comes, where sessions are not drawn.
A chip is in reset until its PLLs have locked, on iCE40 for 15 µs at least, and hears nothing in that time.
"""


_WAYS = {"i": "an input", "o": "an output", "io": "an input and an output"}


@dataclass(frozen=True)
class BoardNetlist:
    """The netlist of a board, ready to be spoken to.

    Attributes:
        cells: its cells with their models; None where a pin or the clock is wrong.
        flat: the netlist, whose inputs are those of the board's file.
        differences: what is wrong with pins and clock, in sentences.
        tape: what its flash holds; None for the tape of the design.
    """

    design: Design
    link: Link
    bits_per_second: int
    flat: FlatNetlist
    cells: ModelledCells | None
    differences: tuple[str, ...]
    tape: bytes | None = None

    @property
    def board(self) -> LinkedBoard:
        board = self.design.target.board
        assert isinstance(board, LinkedBoard)
        return board

    @property
    def cycles_per_bit(self) -> Fraction:
        """Cycles of the chip's clock in a bit of the link."""
        return self.board.clock(self.design.clock_mhz).mhz * 1_000_000 / Fraction(self.bits_per_second)

    @property
    def flash(self) -> FlashChip | None:
        """The flash of the board with its tape; None where no weights come from one."""
        from onnx_hw_sim.gates.pin_simulator import FlashChip, FlashTimes

        memory, cells = self.board.memory, self.cells
        if self.design.tape is None or memory is None or cells is None:
            return None
        part, pads = PARTS[SIMULATED_FLASH], self.board.memory_pads
        both_ways = {pad.pin: pad for pad in cells.parts.pads}
        nets = {name: self.flat.ports[pad.port][0] for name, pad in pads.items()}
        return FlashChip(
            nets["clk"] if "clk" in nets else cells.parts.memory_clocks[0],
            nets["cs"],
            [both_ways[nets[name]] for name in ("copi", "cipo", "wp", "hold")],
            tape_address(self.design),
            FlashTimes(
                low=self.cycles(part.low_ns),
                high=self.cycles(part.high_ns),
                period=self.cycles(part.period_ns),
                deselect=self.cycles(part.deselect_ns),
                wake=self.cycles(part.wake_ns),
                invalid=max(1, self.cycles(part.valid_ns + memory.pads_ns)) - 1,
                dummy_clocks=part.dummy_clocks,
            ),
            tape_image(self.design) if self.tape is None else self.tape,
        )

    def cycles(self, nanoseconds: float) -> int:
        """Return the least whole number of the chip's cycles that take a time."""
        return ceil(nanoseconds * float(self.board.clock(self.design.clock_mhz).mhz) / 1e3 - 1e-9)

    def net(self, name: str) -> int:
        """Return the net of one of the board's pins."""
        return self.flat.ports[self.board.pads[name].port][0]

    def memory_net(self, name: str) -> int:
        """Return the net of one of the pins of its memory."""
        return self.flat.ports[self.board.memory_pads[name].port][0]


def pads_of(design: Design) -> dict[str, BoardPin]:
    """Return the pins that a design uses on its board; those of a flash are called as their ports."""
    board = design.target.board
    assert isinstance(board, LinkedBoard)
    memory = board.memory_pads.values() if design.tape is not None else ()
    return board.pads | {pad.port: pad for pad in memory}


def load_board(
    design: Design, chip: Netlist, flat: FlatNetlist, library: CellLibrary, *, whose: str = "netlist"
) -> BoardNetlist:
    """Return a board's netlist with its models; raise UnmodelledCell.

    Args:
        chip: netlist before synthesis.
        flat: its cells, or those of the bitstream.
        whose: what is simulated, for sentences.
    """
    from onnx_hw_sim.gates.cell_models import WrongClock
    from onnx_hw_sim.gates.clock_tree import clock_of
    from onnx_hw_sim.gates.toggles import ModelledCells

    board = design.target.board
    assert isinstance(board, LinkedBoard) and chip.link is not None
    pads, wanted = pads_of(design), board.clock(chip.clock_mhz).mhz
    flat = replace(flat, inputs=frozenset(pad.port for pad in pads.values() if pad.direction == "i"))
    loaded = BoardNetlist(design, chip.link, bit_rate_of(chip), flat, None, ())
    try:
        clock = clock_of(flat, library, pads["clk"].port, board.oscillator_mhz)
    except WrongClock as why:
        return replace(loaded, differences=(f"the clock must be {float(wanted):g} MHz; {why}",))
    if clock.mhz != wanted:
        said = f"the clock must be {float(wanted):g} MHz; the {whose} makes {float(clock.mhz):g} MHz of the oscillator"
        return replace(loaded, differences=(said,))
    cells = ModelledCells(flat, library.models, clock.net)
    sentences = []
    both_ways = {pad.pin for pad in cells.parts.pads}
    for pad in pads.values():
        (net,) = flat.ports[pad.port]
        own = "io" if net in both_ways else "o" if net in cells.drivers else "i"
        if own != pad.direction:
            said = f"{_WAYS[pad.direction]} in the board's file, {_WAYS[own]} in the {whose}"
            sentences.append(f"pin {pad.pin}, `{pad.port}`: {said}")
    if design.tape is not None and "clk" not in board.memory_pads and len(cells.parts.memory_clocks) != 1:
        count = len(cells.parts.memory_clocks)
        sentences.append(f"the clock of the flash must have one cell that drives it; the {whose} has {count}")
    return replace(loaded, cells=None if sentences else cells, differences=tuple(sentences))


def frames_of_a_session(loaded: BoardNetlist) -> tuple[int, float]:
    """Return the frames of a session that fit in ``SECONDS``, and the nanoseconds that a cycle is estimated to take.

    Both depend on the netlist alone.
    """
    assert loaded.cells is not None
    least, most = FRAMES_OF_A_SESSION
    design = loaded.design
    times = BoardTimes.of(design, loaded.link, loaded.board)
    # Where the network rests most of the time in all runs, little is computed.
    busy = min(1.0, 0.2 + 64 * 2 * design.interval / times.frame)
    nanoseconds = loaded.cells.program.nanoseconds * busy
    fitting = (SECONDS * 1e9 / nanoseconds / 2 - times.session(0)) / times.frame
    return int(min(most, max(least, fitting))), nanoseconds


def converse(
    loaded: BoardNetlist,
    integers: Mapping[str, np.ndarray],
    *,
    count: ToggleCount | None = None,
    whose: str = "netlist",
    progress: Callable[[str], None] = lambda fact: None,
) -> tuple[PinLevelBench, SessionComparison]:
    """Hold 64 sessions with a board, and compare their results.

    Args:
        integers: by input tensor, (frames, height, width, channels).
        count: toggles to count, in the sessions that nothing disturbs.
        whose: what is simulated, for sentences.
    """
    assert loaded.cells is not None
    resets = "rst" in loaded.board.pads or bool(loaded.cells.parts.locks)
    frames, nanoseconds = frames_of_a_session(loaded)
    bench = PinLevelBench(loaded.design, loaded.link, integers, frames, resets=resets, whose=whose)
    levels = _levels(loaded, bench.locks_after, bench.resets_at())
    long = announce_long_run(2 * bench.times.session(frames), nanoseconds, whose)
    progress(f"{len(loaded.flat.cells):,} cells, {bench.frames} frames in {len(bench.plans)} sessions{long}")
    run = _simulator(loaded).run(levels, seed=SEED, count=count, watched=bench.steady, paces=bench.paces)
    with run as boards:
        bench.talk(boards, loaded.net("irq") if "irq" in loaded.board.link.ports else None)
        faults = [] if loaded.flash is None else list(boards.flash_faults())
    return bench, _with_faults(bench.compare(), faults, whose)


def _with_faults(compared: SessionComparison, faults: Sequence[int], whose: str) -> SessionComparison:
    """Return a comparison with what the flash of each run saw at its pins."""
    run = next((run for run, fault in enumerate(faults) if fault), None)
    if run is None:
        return compared
    name = FlashFault(int(faults[run])).name.lower().replace("_", " ")
    said = f"the flash must be read as its data sheet says; the {whose} does not: {name} (run {run})"
    wrong = compared.wrong + sum(fault != 0 for fault in faults)
    return replace(compared, wrong=wrong, difference=compared.difference or said)


@contextmanager
def under_way(loaded: BoardNetlist) -> Iterator[BoardsUnderWay]:
    """Yield the board, powered up and out of its reset, which nobody presses."""
    from onnx_hw_sim.gates.native_gates import RUNS

    with _simulator(loaded).run(_levels(loaded, [LOCKS_AFTER] * RUNS, ()), seed=SEED) as boards:
        boards.step(ceil(POWER_UP_US * loaded.design.clock_mhz))
        yield boards


def _levels(loaded: BoardNetlist, locks_after: Sequence[int], resets: Sequence[tuple[int, int, int]]) -> list[PinLevel]:
    """Return the levels of the locks of PLLs, and of the reset; a board without one is reset by its PLLs.

    Args:
        locks_after: cycles after which the PLLs of each run lock.
        resets: (run, first cycle, cycle after the last one) of each reset.
    """
    from onnx_hw_sim.gates.pin_simulator import PinLevel

    assert loaded.cells is not None
    pads, waits = loaded.board.pads, [(run, 0, cycles) for run, cycles in enumerate(locks_after)]
    of_locks = waits if "rst" in pads else [*waits, *resets]
    levels = [PinLevel(net, True, of_locks) for net in loaded.cells.parts.locks]
    if "rst" in pads:
        levels.append(PinLevel(loaded.net("rst"), pads["rst"].inverted, resets))
    return levels


def _simulator(loaded: BoardNetlist) -> PinSimulator:
    from onnx_hw_sim.gates.pin_simulator import PinSimulator

    assert loaded.cells is not None
    wires = {name: loaded.net(name) for name in loaded.board.link.ports}
    return PinSimulator(loaded.cells, wires, loaded.cycles_per_bit, loaded.flash)
