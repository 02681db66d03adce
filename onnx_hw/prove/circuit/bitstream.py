"""Link 5: the bitstream file, unpacked into cells and nets again, against golden, the predicted cycles and the netlist.

Five comparisons, each by itself: what leaves the chip, in the runs of link 4; the structure of all that the outputs
depend on with that of the netlist that was placed and routed; the contents of the block RAMs; every pin with the
board's file; the sites with nextpnr's report.
"""

from __future__ import annotations

import hashlib
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.assemble.elaborate import CircuitNames, edge_names
from onnx_hw.assemble.netlist import Netlist, pad_streams
from onnx_hw.implement.route import BITSTREAM, RouteResult
from onnx_hw.implement.synthesize import SynthesisResult
from onnx_hw.ir.design import Design
from onnx_hw.messages.errors import ExitCode, UserError, user_error
from onnx_hw.prove.circuit import pin_level
from onnx_hw.prove.circuit.gate_level import SDRAM_UNKNOWN, NotSimulated, frames_of_a_run
from onnx_hw.prove.circuit.gate_level_bench import GateLevelBench, streams_of
from onnx_hw.prove.circuit.pin_level import BoardNetlist
from onnx_hw.prove.circuit.run_time import announce_long_run
from onnx_hw.prove.circuit.stalls import SEED
from onnx_hw.prove.circuit.stored_comparison import compared_once
from onnx_hw.runtime.build_folder import BuildFolder, Made
from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.families.family import Family
from onnx_hw_boards.families.unpacked_bitstream import (
    DamagedBitstream,
    NotUnpacked,
    Pad,
    UnpackedBitstream,
    port_of_bit,
)
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_boards.pins import place

if TYPE_CHECKING:
    from onnx_hw_sim.gates.cell_models import CellLibrary, Parts
    from onnx_hw_sim.gates.netlist import FlatNetlist

STAGE = "unpack"


@dataclass(frozen=True)
class BitstreamCheck:
    """A bitstream compared.

    Attributes:
        cells: cells that were unpacked and simulated.
        runs: runs at once.
        frames: frames of all runs together.
        values, tokens: values and tokens compared, of the outputs of all runs; behind a link, values and frames.
        elements: registers, outputs of memories and outputs of the chip whose structure was compared.
        blocks: block RAMs whose contents were compared.
        pins: pins compared with the board's file.
        sites: sites of the chip that the cells take, by nextpnr's name for them.
        unread_sites: sites that nextpnr counts, too, and on which no output depends.
        bits: set bits of the configuration memory.
        featureless: those of them that belong to no feature which the database knows.
        wrong: everything that differs: values, tokens, pins, words of block RAMs.
        difference: first difference as a sentence, or empty.
        link: the link through which the runs went; empty where the streams are on pins.
        obstacle: why the bitstream is not proven although nothing differs, as a sentence, or empty.
        cached: whether all of this was known from an earlier, identical build.
    """

    cells: int = 0
    runs: int = 0
    frames: int = 0
    values: int = 0
    tokens: int = 0
    elements: int = 0
    blocks: int = 0
    pins: int = 0
    sites: Mapping[str, int] = field(default_factory=dict)
    unread_sites: int = 0
    bits: int = 0
    featureless: int = 0
    wrong: int = 0
    difference: str = ""
    link: str = ""
    obstacle: str = ""
    cached: bool = False

    @property
    def agrees(self) -> bool:
        """Whether everything was understood and compared, and nothing differs."""
        return self.wrong == 0 and not self.obstacle

    def __str__(self) -> str:
        verdict = "as golden and timing say" if self.wrong == 0 else f"{self.wrong} differences"
        counted = f"{self.bits:,} bits, {self.cells:,} cells, {self.runs} runs, {self.frames} frames: {verdict}"
        return f"{counted}; open: {self.obstacle}" if self.obstacle else counted

    def __repr__(self) -> str:
        return f"BitstreamCheck: {self.cells:,} cells, {self.wrong} wrong"


def prove(
    build: BuildFolder,
    design: Design,
    chip: Netlist,
    synthesized: SynthesisResult,
    routed: RouteResult,
    packed: Made,
    integers: Mapping[str, np.ndarray],
    *,
    progress: Callable[[str], None] = lambda fact: None,
) -> BitstreamCheck:
    """Compare the bitstream of a build, unless that was done; only agreement is stored. Raise as ``check``."""
    inputs = {
        "bitstream": packed.files[BITSTREAM],
        "netlist": synthesized.made.files[synthesized.netlist.name],
        "code": _fingerprint(chip.family),
    }
    file = packed.folder / BITSTREAM
    return compared_once(
        build,
        STAGE,
        inputs,
        integers,
        BitstreamCheck,
        lambda: check(design, chip, synthesized.netlist, routed, file.read_bytes(), integers, progress=progress),
    )


def _fingerprint(family: Family) -> str:
    """Return the digest of all code that a result depends on."""
    from onnx_hw_sim.gates.native_gates import fingerprint

    state = hashlib.sha256(fingerprint(family.cell_library()).encode())
    unpack = family.unpacker()
    if unpack is not None:
        for file in sorted(Path(inspect.getfile(unpack)).parent.glob("*.py")):
            state.update(file.read_bytes())
    return state.hexdigest()


def check(
    design: Design,
    chip: Netlist,
    netlist: Path,
    routed: RouteResult,
    data: bytes,
    integers: Mapping[str, np.ndarray],
    *,
    progress: Callable[[str], None] = lambda fact: None,
) -> BitstreamCheck:
    """Unpack a bitstream, and compare all that it makes of the chip.

    Args:
        chip: netlist before synthesis.
        netlist: yosys' JSON file.
        data: the bitstream file.
        integers: by input tensor, (frames, height, width, channels).

    Raises:
        NotSimulated: the family, or the computer, has nothing to unpack or to simulate it with.
    """
    board = chip.target.board
    unpack = chip.family.unpacker()
    if unpack is None:
        raise NotSimulated(f"the bitstreams of {chip.family.name} are not unpacked")
    if design.sdram is not None:
        raise NotSimulated(SDRAM_UNKNOWN)
    try:
        pin_of = _pins(design, chip)
        progress("reading the file")
        unpacked = unpack(data, board.device.name, board.package, pin_of)
    except NotUnpacked as why:
        raise NotSimulated(str(why)) from None
    except DamagedBitstream as why:
        return BitstreamCheck(wrong=1, difference=f"the bitstream is damaged: {why}")
    return compare(design, chip, netlist, routed, unpacked, pin_of, integers, progress=progress)


def _pins(design: Design, chip: Netlist) -> dict[str, str]:
    """Return the pin of each bit of the chip's ports, as the board's file says."""
    board = chip.target.board
    if isinstance(board, LinkedBoard):
        return {pad.port: pad.pin for pad in pin_level.pads_of(design).values()}
    assert isinstance(board, BareChip)
    return place(board, pad_streams(design, CircuitNames(edge_names(design), {})))


def compare(
    design: Design,
    chip: Netlist,
    netlist: Path,
    routed: RouteResult,
    unpacked: UnpackedBitstream,
    pin_of: Mapping[str, str],
    integers: Mapping[str, np.ndarray],
    *,
    progress: Callable[[str], None] = lambda fact: None,
) -> BitstreamCheck:
    """Compare what was unpacked; see ``check``.

    Args:
        pin_of: pin of each bit of the chip's ports, as the board's file says.
    """
    from onnx_hw_sim.gates.cell_models import UnmodelledCell
    from onnx_hw_sim.gates.netlist import flatten, read_netlist
    from onnx_hw_tools.tools import ToolMissing

    library = chip.family.cell_library()
    extent = BitstreamCheck(
        cells=len(unpacked.netlist.cells),
        pins=len(pin_of),
        sites=unpacked.sites,
        bits=unpacked.bits,
        featureless=unpacked.featureless,
    )
    differences, obstacles = _pads(design, chip, unpacked, pin_of), list(unpacked.problems)
    unread, surplus = _sites(unpacked, routed)
    differences += surplus
    if differences:  # without its pins the circuit cannot be driven
        return _result(extent, differences, obstacles)
    try:
        flat = flatten(read_netlist(netlist), wires=library.wires)
        before = _side(design, chip, flat, library, "netlist")
        after = _side(design, chip, unpacked.netlist, library, "bitstream")
        if before.differences or after.differences:
            return _result(extent, [*after.differences, *before.differences], obstacles)
        differences += _contents(after.parts, before.parts)
        unequal, elements = _structure(after, before)
        obstacles += unequal
        ran = (
            _through_pins(after.board, integers, progress)
            if after.board
            else _on_pins(design, chip, after, integers, progress)
        )
    except UnmodelledCell as why:
        return _result(extent, differences, [*obstacles, f"it was not simulated: {why}"])
    except ToolMissing as why:
        raise NotSimulated(str(why)) from None
    extent = replace(
        extent,
        runs=ran.runs,
        frames=ran.frames,
        values=ran.values,
        tokens=ran.tokens,
        elements=elements,
        blocks=len(after.parts.blocks),
        unread_sites=unread,
        link=ran.link,
    )
    result = _result(extent, [*differences, *([ran.difference] if ran.difference else [])], obstacles)
    return replace(result, wrong=len(differences) + ran.wrong)


@dataclass(frozen=True)
class _Side:
    """Cells on one side of the comparison: those of the netlist, or of the bitstream.

    Attributes:
        flat: cells on nets.
        parts: what they are made of.
        board: the same as a board; None on a bare chip.
        differences: what is wrong with pins and clock of a board, in sentences.
    """

    flat: FlatNetlist
    parts: Parts
    board: BoardNetlist | None = None
    differences: tuple[str, ...] = ()

    def structure(self) -> Counter[int]:
        """Return the signatures of all that outputs depend on.

        Locks of PLLs count as inputs, the clock of a flash as an output, and a pad in both directions as an input and
        two outputs.
        """
        from onnx_hw_sim.gates.netlist import RUBBISH
        from onnx_hw_sim.gates.structure import structure

        ports = {**self.flat.ports, "lock": tuple(self.parts.locks), "flash clock": tuple(self.parts.memory_clocks)}
        inputs, port_of = {*self.flat.inputs, "lock"}, {nets[0]: name for name, nets in self.flat.ports.items()}
        for pad in self.parts.pads:
            name = port_of[pad.pin]
            ports |= {f"{name} out": (pad.out, pad.off), f"{name} in": (RUBBISH if pad.into is None else pad.into,)}
            inputs |= set() if pad.into is None else {f"{name} in"}
        return structure(self.parts, ports, frozenset(inputs))


def _side(design: Design, chip: Netlist, flat: FlatNetlist, library: CellLibrary, whose: str) -> _Side:
    from onnx_hw_sim.gates.cell_models import Parts
    from onnx_hw_sim.gates.toggles import parts_of

    if not isinstance(chip.target.board, LinkedBoard):
        return _Side(flat, parts_of(flat, library.models)[0])
    board = pin_level.load_board(design, chip, flat, library, whose=whose)
    parts = Parts(flat.nets, 0) if board.cells is None else board.cells.parts
    return _Side(board.flat, parts, board, board.differences)


def _result(extent: BitstreamCheck, differences: Sequence[str], obstacles: Sequence[str]) -> BitstreamCheck:
    """Return a result with the first difference, and the first obstacle."""
    first = obstacles[0] if obstacles else ""
    more = f", and {len(obstacles) - 1:,} more" if len(obstacles) > 1 else ""
    return replace(
        extent, wrong=len(differences), difference="; ".join(differences[:3]), obstacle=first + more if first else ""
    )


def _wanted_pads(design: Design, chip: Netlist, pin_of: Mapping[str, str]) -> dict[str, tuple[str, str, str]]:
    """Return direction, electrical standard and pull of each port bit, as the board's file says; empty is any."""
    board = chip.target.board
    if isinstance(board, LinkedBoard):
        ways = {"i": "INPUT", "o": "OUTPUT", "io": "BIDIR"}
        return {pad.port: (ways[pad.direction], pad.standard, pad.pull) for pad in pin_level.pads_of(design).values()}
    assert isinstance(board, BareChip)
    sources, sinks = streams_of(design)
    inputs = {"clk", "rst", *(f"{sink.name}_ready" for sink in sinks)}
    inputs |= {f"{source.name}_{part}" for source in sources for part in ("payload", "valid")}
    return {port: ("INPUT" if port_of_bit(port) in inputs else "OUTPUT", board.io_type, board.pull) for port in pin_of}


def _pads(design: Design, chip: Netlist, unpacked: UnpackedBitstream, pin_of: Mapping[str, str]) -> list[str]:
    """Return what differs between the pins and the board's file, in sentences."""
    off = Pad("", "", frozenset(), "")
    wanted = _wanted_pads(design, chip, pin_of)
    sentences = []
    for port, pin in pin_of.items():
        pad, (direction, standard, pull) = unpacked.pads.get(pin, off), wanted[port]
        other = pad.direction != direction or (pull and pad.pull and pad.pull != pull)
        if other or (standard and standard not in pad.standards):
            said = f"{direction} {standard}".strip() + (f", pull {pull}" if pull else "")
            sentences.append(f"pin {pin}, `{port}`: {said} in the board's file, bitstream {pad}")
        elif not pad.plain:
            sentences.append(f"pin {pin}, `{port}`: there is a register between pin and circuit")
    for pin in sorted(set(unpacked.pads) - set(pin_of.values())):
        sentences.append(f"pin {pin}: off in the board's file, bitstream {unpacked.pads[pin]}")
    return sentences


def _sites(unpacked: UnpackedBitstream, routed: RouteResult) -> tuple[int, list[str]]:
    """Return the sites of nextpnr's report on which nothing depends, and what takes more than it says."""
    unread, sentences = 0, []
    for kind, count in unpacked.sites.items():
        reported = routed.utilisation[kind].used if kind in routed.utilisation else 0
        unread += max(0, reported - count)
        if count > reported:
            sentences.append(f"{count:,} {kind} in the bitstream, {reported:,} in nextpnr's report")
    return unread, sentences


def _contents(own: Parts, placed: Parts) -> list[str]:
    """Return which block RAMs of the netlist have contents that none of the bitstream has."""
    there = Counter(tuple(block.words) for block in own.blocks if not block.rubbish)
    sentences = []
    for block in placed.blocks:
        words = tuple(block.words)
        if block.rubbish:
            continue
        if there[words]:
            there[words] -= 1
            continue
        nearest = min(
            (other for other, count in there.items() if count and len(other) == len(words)),
            key=lambda other: sum(one != another for one, another in zip(other, words, strict=True)),
            default=(),
        )
        word = next((k for k, (one, another) in enumerate(zip(words, nearest, strict=False)) if one != another), 0)
        seen = f"bitstream {nearest[word]:#x}" if nearest else "no block RAM of the bitstream has these contents"
        sentences.append(f"word {word} of the block RAM {block.name}: netlist {words[word]:#x}, {seen}")
    return sentences


def _structure(after: _Side, before: _Side) -> tuple[list[str], int]:
    """Return the sentence that the bitstream has another structure than the netlist, if so; and what was compared."""
    own, placed = after.structure(), before.structure()
    missing, added = (placed - own).total(), (own - placed).total()
    if not missing and not added:
        return [], placed.total()
    return [
        f"{missing:,} of {placed.total():,} registers, memories and outputs of the netlist depend on other inputs in "
        f"the bitstream"
    ], placed.total()


def _on_pins(
    design: Design, chip: Netlist, side: _Side, integers: Mapping[str, np.ndarray], progress: Callable[[str], None]
) -> BitstreamCheck:
    """Return how the unpacked cells of a bare chip did in the runs of link 4."""
    from onnx_hw_sim.gates.simulator import GateSimulator

    assert chip.reset_delay is not None
    models = chip.family.cell_library().models
    simulator = GateSimulator(side.flat, models, *streams_of(design), chip.reset_delay)
    bench = GateLevelBench(design, integers, frames_of_a_run(design, simulator.program.nanoseconds), whose="bitstream")
    long = announce_long_run(bench.cycles, simulator.program.nanoseconds, bench.whose)
    progress(f"{len(side.flat.cells):,} cells, {bench.frames} frames in {len(bench.starts)} runs{long}")
    compared = bench.compare(simulator.run(bench.plan(), seed=SEED))
    return BitstreamCheck(
        runs=len(bench.starts),
        frames=bench.frames,
        values=compared.values,
        tokens=compared.tokens,
        wrong=compared.wrong,
        difference=str(compared.difference or ""),
    )


def _through_pins(
    board: BoardNetlist, integers: Mapping[str, np.ndarray], progress: Callable[[str], None]
) -> BitstreamCheck:
    """Return how the unpacked cells of a board did in the sessions of link 4."""
    bench, compared = pin_level.converse(board, integers, whose="bitstream", progress=progress)
    return BitstreamCheck(
        runs=len(bench.plans),
        frames=bench.frames,
        values=compared.values,
        tokens=compared.cycles,
        wrong=compared.wrong,
        difference=compared.difference,
        link=str(board.board.link),
    )


def difference_error(result: BitstreamCheck) -> UserError:
    """Return the error for a bitstream that differs from golden, the netlist or the board's file."""
    return user_error(
        "bitstream-differs",
        result.difference,
        hint="this is a bug of onnx-hw, or of the tools that place, route and pack: please report it with the model",
        stage=STAGE,
        exit_code=ExitCode.MISMATCH,
    )
