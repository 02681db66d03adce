"""Weights outside the chip in a build: which ones, and the file that a board's flash gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from onnx_hw.assemble.elaborate import tape_contents
from onnx_hw.assemble.netlist import require_memory
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.runtime.build_folder import BuildFolder
from onnx_hw.runtime.options import MemoryChoice
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule.choose_outside import candidates_outside, put_outside, put_outside_what_does_not_fit
from onnx_hw_boards.board import Board

TAPE_FILE = "weights.tape"
"""File of what lies in the memory outside the chip."""

NOTHING_OUTSIDE = (
    "no weights come from the flash: no layer uses each of its weights once a frame",
    "a dense layer of one vector does; leave out --memory",
)


def with_weights_outside(
    choice: MemoryChoice,
    board: Board,
    network: Network,
    request: ScheduleRequest,
    warn: Callable[[Iterable[tuple[str, str]]], None],
) -> Network:
    """Return the network with the weights outside the chip that a user asks for.

    Raises:
        UserError: the board has no memory for them.
    """
    if choice is MemoryChoice.NONE:
        return network
    require_memory(board)
    if choice is MemoryChoice.AUTO:
        return put_outside_what_does_not_fit(board, network, request)
    nodes = candidates_outside(network)
    if not nodes:
        warn([NOTHING_OUTSIDE])
    return put_outside(network, [node.name for node in nodes])


def write_tape_file(folder: BuildFolder, note_file: Callable[[str, str], None], design: Design) -> None:
    """Write what the board's flash gets, where weights lie there, and note the file in the report."""
    if design.tape is not None:
        (folder.path / TAPE_FILE).write_bytes(design.tape.image(tape_contents(design)))
        note_file("tape", TAPE_FILE)
