"""Functions of a worker, called in this process, in another one, or on another machine."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.netlist import netlist_of
from onnx_hw.commands.explore.grid import Choice
from onnx_hw.commands.explore.store_transfer import Parcel, pack, unpack
from onnx_hw.commands.explore.task import RESULTS, Task, run
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.messages.errors import UserError
from onnx_hw.messages.translate_error import as_user_error
from onnx_hw.runtime.artifact_store import user_store
from onnx_hw.schedule.link_bandwidth import most_frames_a_second
from onnx_hw.schedule.schedule_for_board import schedule_for_board, with_folding_file
from onnx_hw.schedule.search_latency import cycles_of_frame_alone
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.linked_board import LinkedBoard


@dataclass(frozen=True)
class Failed:
    """Reason why work cannot be done, in one sentence."""

    why: str
    kind: str = ""  # code of the problem


@dataclass(frozen=True)
class PlannedDesign:
    """Design, by arithmetic alone, with estimated cells, and the frames per second of its link (None without one)."""

    design: Design
    lanes: int
    interval: int
    latency: int
    estimate: Cells
    clock_mhz: float
    most_fps: float | None


@dataclass(frozen=True)
class StoredCircuit:
    """Circuit, as compressed RTLIL, with which synthesis and routing begin."""

    rtlil: bytes
    constraints: str
    clock_mhz: float

    @property
    def text(self) -> str:
        return zlib.decompress(self.rtlil).decode()


@dataclass(frozen=True)
class MissingArtifacts:
    """The worker's store lacks what the task reads."""


@dataclass(frozen=True)
class Done:
    """A task's result is in the worker's store.

    Attributes:
        digest: of the entry.
        cached: it was there.
        parcel: the entry, where the worker has a store of its own.
    """

    digest: str
    cached: bool
    parcel: Parcel | None


def plan(network: Network, choice: Choice) -> PlannedDesign | Failed:
    """Return the design of a choice."""
    try:
        board = find_board(choice.board)
        request = with_folding_file(choice.scheduling, choice.folding, network)
        design, _ = schedule_for_board(board, verify_network(network), request)
    except UserError as error:
        return _failed(error)
    whole = design.with_fifos()
    cells = Cells(whole.lut, whole.ff, whole.dsp, whole.bram, whole.logic)
    most = most_frames_a_second(network, board.link) if isinstance(board, LinkedBoard) else None
    latency = cycles_of_frame_alone(design)
    return PlannedDesign(design, whole.mac_lanes, design.interval, latency, cells, design.clock_mhz, most)


def circuit(design: Design) -> StoredCircuit | Failed:
    """Return the circuit of a design."""
    try:
        netlist = netlist_of(design)
    except UserError as error:
        return _failed(error)
    return StoredCircuit(zlib.compress(netlist.rtlil.encode(), 6), netlist.constraints, netlist.clock_mhz)


def work(task: Task, store: Path | None, owner: str, parcel: Parcel | None = None) -> Done | MissingArtifacts | Failed:
    """Run a task on this machine.

    Args:
        store: of this machine; None for its user's.
        owner: identity of the store that wants the result.
        parcel: what the task reads, where it was missing before.
    """
    place = user_store(store)
    try:
        if parcel is not None:
            unpack(parcel, place)
        try:
            made = run(task, place)
        except KeyError:
            return MissingArtifacts()
    except Exception as error:
        known = as_user_error(error)
        if known is None:
            raise
        return _failed(known)
    shared = place.identity == owner
    return Done(made.digest, made.cached, None if shared else pack(place, RESULTS[task.stage], made.digest))


def _failed(error: UserError) -> Failed:
    first = error.problems[0]
    return Failed(first.message, first.code)
