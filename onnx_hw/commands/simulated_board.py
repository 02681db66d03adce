"""Simulation of a board: its whole chip, bit by bit at its link, behind a port of this machine.

The driver in front of it is the one that users have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.assemble.elaborate import to_linked_chip
from onnx_hw.assemble.host_model_file import host_model, kind_of
from onnx_hw.assemble.netlist import Netlist, bit_rate_of, netlist_of
from onnx_hw.assemble.tape_file import held_tape
from onnx_hw.commands.reference_host import HostByReference
from onnx_hw.ir.design import Design
from onnx_hw.messages.errors import ExitCode, user_error
from onnx_hw.runtime.artifact_store import read_entry
from onnx_hw.runtime.build_folder import BuildFolder
from onnx_hw.runtime.progress import Progress
from onnx_hw.runtime.stage import Stage
from onnx_hw.samples.samples import Samples, frame_count, stack_outputs
from onnx_hw_boards.board import Board
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_boards.links import link_of_kind
from onnx_hw_link.device import Device
from onnx_hw_link.errors import LinkError
from onnx_hw_link.host_model import HostModel

if TYPE_CHECKING:
    from onnx_hw.prove.circuit.pin_level import BoardNetlist

WHERE, GATES = "--engine board", "--engine gates"
TIMEOUT = 120.0
"""Seconds without an answer; a simulated chip is some hundred times slower than a real one."""


@contextmanager
def simulated_board(
    design: Design, model: HostModel, folder: BuildFolder, progress: Progress, netlist: Netlist | None = None
) -> Iterator[str]:
    """Yield the name of the port. The chip has the digests of its netlist, whatever ``model`` says.

    Args:
        netlist: of the chip; None to make it.
        model: what a host knows of the build.
        folder: where the simulator is compiled.

    Raises:
        ToolMissing, ToolFailed: what the simulation needs.
    """
    link, clock_mhz = link_of_kind(model.link_kind, model.baud), model.link.clock_hz / 1e6
    with progress.stage(Stage.SIMULATE) as running:
        running.fact = "compiling"
        made = (netlist or netlist_of(design)).link
        assert made is not None, "the model has a link"
        facts = replace(model.link, digest=made.digest, load=made.load)
        rtlil = to_linked_chip(design, facts, link, clock_mhz, tape=held_tape(folder.path, design))
        with link.simulated_port(rtlil, clock_mhz, folder.path / "simulation") as port:
            running.fact = f"the whole chip, bit by bit, at {port.path}"
            yield port.path
            running.fact = f"{port.cycle:,} cycles of the whole chip, bit by bit"
            if port.error is not None:
                raise port.error


def require_same_chip(model: HostModel, netlist: Netlist) -> None:
    """Raise ``UserError``, exit code 4, unless a host's model describes the chip of a netlist, its digest aside.

    A simulated port has no rate of its own, and the chip of a ``model.json`` would fit whatever that says.
    """
    made, rate = netlist.link, bit_rate_of(netlist)
    assert made is not None, "the model has a link"
    pairs = {field.name: (getattr(model.link, field.name), getattr(made, field.name)) for field in fields(made)}
    pairs["baud"] = model.baud, rate
    for name, (stated, true) in pairs.items():
        if name != "digest" and stated != true:
            message = f"`model.json` must describe the chip; its `{name}` is {stated}, and that of the chip {true}"
            hint = "build it again; if that changes nothing, please report it with the model"
            raise user_error("host-model-differs", message, hint=hint, stage="link", exit_code=ExitCode.MISMATCH)


@contextmanager
def simulated_netlist(
    design: Design, folder: BuildFolder, progress: Progress, netlist: Netlist | None = None
) -> Iterator[str]:
    """Yield the name of a port at which the cells of a build answer, as they were placed and routed.

    Args:
        netlist: of the chip before synthesis; None to make it.

    Raises:
        UserError: the build did not come to its synthesis, or its netlist is damaged or cannot be simulated; with exit
            code 4, its pins or its clock are not the board's.
        ToolMissing, ToolFailed: the C++ compiler, which is needed once per machine.
    """
    from onnx_hw.prove.circuit import pin_level

    with progress.stage(Stage.SIMULATE) as running:
        running.fact = "reading the netlist"
        loaded = _read_cells(design, folder, netlist)
        if loaded.cells is None:
            raise user_error(
                "netlist-differs", loaded.differences[0], where=GATES, stage="gates", exit_code=ExitCode.MISMATCH
            )
        with (
            pin_level.under_way(loaded) as boards,
            loaded.board.link.port_of_pins(boards, loaded.cycles_per_bit) as port,
        ):
            running.fact = f"{len(loaded.flat.cells):,} cells of the whole chip, at {port.path}"
            yield port.path
            running.fact = f"{len(loaded.flat.cells):,} cells of the whole chip, {port.cycle:,} cycles"
            if port.error is not None:
                raise port.error


def _read_cells(design: Design, folder: BuildFolder, netlist: Netlist | None) -> BoardNetlist:
    """Return the netlist of a build with the models of its cells; raise ``UserError`` as ``simulated_netlist``."""
    from onnx_hw.implement.synthesize import NETLIST, STAGE
    from onnx_hw.prove.circuit import pin_level
    from onnx_hw_sim.gates.cell_models import UnmodelledCell
    from onnx_hw_sim.gates.netlist import flatten, read_netlist

    place = folder.path / STAGE
    if read_entry(place) is None:
        message = "the build must have come to its synthesis, and its files must be as they were written"
        hint = "build it again, at least to the stage `synthesize`"
        raise user_error("no-netlist", message, where=str(place), hint=hint, stage="arguments")
    chip = netlist or netlist_of(design)
    library = chip.family.cell_library()
    try:
        flat = flatten(read_netlist(place / NETLIST), wires=library.wires)
        loaded = pin_level.load_board(design, chip, flat, library)
        return replace(loaded, tape=held_tape(folder.path, design))
    except UnmodelledCell as why:
        hint = "--engine compiled simulates the circuit instead"
        raise user_error("engine", f"every cell must have a model here; {why}", where=GATES, hint=hint) from None


def require_link(board: Board) -> None:
    """Raises ``UserError`` for a board without a serial link."""
    if not isinstance(board, LinkedBoard):
        hint = "a board that has one, such as --board icebreaker; `onnx-hw boards` tells of all"
        raise user_error("engine", f"the board must have a link; `{board.name}` has none", where=WHERE, hint=hint)


def on_simulated_board(
    frames: Mapping[str, np.ndarray],
    design: Design,
    netlist: Netlist,
    folder: BuildFolder,
    progress: Progress,
) -> dict[str, np.ndarray]:
    """Return the model's outputs by name, (frames, *shape).

    Args:
        frames: by graph input, (frames, *shape).
        netlist: of the chip, which has a link.

    Raises:
        UserError: the chip does not answer.
        ToolMissing, ToolFailed: what the simulation needs.
    """
    assert netlist.link is not None
    model = HostModel.of(json.loads(host_model(design, netlist.link, bit_rate_of(netlist), kind_of(netlist))))
    if model.elsewhere:
        model = HostByReference.with_(model, design.network)
    try:
        with (
            simulated_board(design, model, folder, progress, netlist) as port,
            Device.of(model, port, timeout=TIMEOUT) as device,
        ):
            return stack_outputs(list(device.stream(Samples(frames, frame_count(frames)))))
    except LinkError as error:
        raise user_error(error.code, str(error), where=WHERE, stage="link", exit_code=ExitCode.TOOL_FAILED) from error
