"""A stage to be run anywhere: a value that names its inputs by their digests, and no place of any machine."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.implement import route, synthesize
from onnx_hw.messages.errors import user_error
from onnx_hw.messages.version import __version__
from onnx_hw.runtime.artifact_store import Store, write_record
from onnx_hw.runtime.build_folder import BuildFolder, Made
from onnx_hw.runtime.stage import Stage
from onnx_hw_boards.board import Board
from onnx_hw_tools import tools

CIRCUIT = "circuit"
"""The stage of a store that holds what synthesis begins with."""

_CIRCUIT_FILE = "top.il"
SOURCES = {
    Stage.SYNTHESIZE: CIRCUIT,
    Stage.ROUTE: synthesize.STAGE,
    Stage.PACK: route.STAGE,
}
"""Stage of the entry that a task reads from the store, by the task's stage."""

RESULTS = {Stage.SYNTHESIZE: synthesize.STAGE, Stage.ROUTE: route.STAGE, Stage.PACK: route.BITSTREAM_STAGE}
"""Stage of the entry that a task puts into the store, by the task's stage."""


@dataclass(frozen=True)
class Task:
    """One run of yosys, nextpnr or a packer.

    Attributes:
        stage: synthesize, route or pack.
        source: digest of the entry that it reads, of the stage ``SOURCES`` names.
        board: its name.
        tools: version of every program, by name; another one would make something else.
        constraints, clock_mhz, seed: for place and route, see ``onnx_hw.implement.route``.
        version: of onnx-hw.
    """

    stage: Stage
    source: str
    board: str
    tools: Mapping[str, str] = field(hash=False)
    constraints: str = ""
    clock_mhz: float = 0.0
    seed: int = 1
    version: str = __version__


def versions(stage: Stage, board: Board) -> dict[str, str]:
    """Return the versions of the programs here that a stage needs; raise ``ToolMissing`` for a missing one."""
    family = board.family
    name = {
        Stage.SYNTHESIZE: "yosys",
        Stage.ROUTE: family.placement.tool,
        Stage.PACK: family.packing.tool,
    }[stage]
    return {name: tools.find(name).version}


def keep_circuit(rtlil: str, store: Store) -> str:
    """Put a circuit into the store; its digest."""
    digest = hashlib.sha256(rtlil.encode()).hexdigest()
    if not store.has(CIRCUIT, digest):
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / _CIRCUIT_FILE).write_text(rtlil, encoding="utf-8")
            write_record(Path(place), digest)
            store.keep(CIRCUIT, digest, Path(place))
    return digest


def run(task: Task, store: Store) -> Made:
    """Run the task, unless the store has its result already; the result is in the store then.

    Returns:
        What was made. Its folder is gone: the files are the store's.

    Raises:
        UserError: this machine has other versions of the programs, or of onnx-hw; the design has no place on the chip.
        KeyError: the store lacks what the task reads.
        ToolMissing, ToolFailed: a program is not there, or failed.
    """
    board = find_board(task.board)
    check_versions(task, {"onnx-hw": __version__, **versions(task.stage, board)})
    with tempfile.TemporaryDirectory(prefix="onnx-hw-") as place:
        return _RUN[task.stage](task, BuildFolder(Path(place).resolve(), store), board)


def check_versions(task: Task, here: Mapping[str, str]) -> None:
    """Raise UserError unless this machine would make what the task's own would."""
    wanted = {"onnx-hw": task.version, **task.tools}
    for name, version in wanted.items():
        if here.get(name) != version:
            raise user_error(
                "other-version",
                f"all machines must have the same {name}: {version} was asked for, here it is {here.get(name)}",
                hint=f"install the same version of {name} everywhere",
                stage="tools",
            )


def _synthesize(task: Task, folder: BuildFolder, board: Board) -> Made:
    circuit = folder.take(CIRCUIT, task.source)
    rtlil = (circuit.folder / _CIRCUIT_FILE).read_text(encoding="utf-8")
    return synthesize.synthesize(folder, rtlil, board.family).made


def _route(task: Task, folder: BuildFolder, board: Board) -> Made:
    made = synthesize.read_result(folder.take(synthesize.STAGE, task.source), board.family)
    return route.route(folder, made, board, task.constraints, task.clock_mhz, seed=task.seed).made


def _pack(task: Task, folder: BuildFolder, board: Board) -> Made:
    routed = route.read_result(folder.take(route.STAGE, task.source), board, task.clock_mhz)
    return route.pack(folder, routed)


_RUN: Mapping[Stage, Callable[[Task, BuildFolder, Board], Made]] = {
    Stage.SYNTHESIZE: _synthesize,
    Stage.ROUTE: _route,
    Stage.PACK: _pack,
}
