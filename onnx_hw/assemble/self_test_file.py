"""Frames of a build's self-test, ``self_test.json``: integers of the whole range, and golden's results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnx_hw.assemble.netlist import Netlist
from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.runtime.build_folder import BuildFolder
from onnx_hw.timing.link_times import BehindALink
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_link.frames import in_turns
from onnx_hw_link.link import Link
from onnx_hw_link.self_test import FILE, ROUNDS, KnownFrames

FRAMES = 8
"""Number of frames: the least integers everywhere, the greatest ones, and random ones, of which many are at an end."""


def write_self_test(
    folder: BuildFolder, note_file: Callable[[str, str], None], design: Design, netlist: Netlist
) -> None:
    """Write the file, and note it in the report, where the board has a link."""
    board = design.target.board
    if isinstance(board, LinkedBoard) and netlist.link is not None:
        folder.write(FILE, known_frames(design, netlist.link, board.name).to_text())
        note_file("self_test", FILE)


def known_frames(design: Design, link: Link, board: str) -> KnownFrames:
    """Return frames of a design with golden's results, and the cycles of a frame alone."""
    network, edges = design.network, {edge.tensor: edge for edge in design.edges()}
    into, out = (
        list(dict.fromkeys(boundary.tensor for boundary in side)) for side in (network.inputs, network.outputs)
    )
    generator = np.random.default_rng(1)
    integers = {name: _drawn(network.tensors[name].shape, network.tensors[name].range, generator) for name in into}
    rounds = 1 + ROUNDS if network.keepers else 1  # with a state, the same frame has another result in every round
    integers = {name: np.concatenate([array] * rounds) for name, array in integers.items()}
    leaving: dict[str, list[np.ndarray]] = {name: [] for name in out}
    for _, name, array in golden.walk_in_pieces(network, integers):
        if name in leaving:
            leaving[name].append(array)
    values = integers | {name: np.concatenate(arrays) for name, arrays in leaving.items()}

    def framed(names: list[str], k: int) -> list[np.ndarray]:
        return [edges[name].order.to_beats(values[name][k : k + 1]) for name in names]

    used = [-edges[name].order.used(edges[name].beats).astype(np.int64) for name in out]
    latency = BehindALink(design, link).latency if len(link.inputs) == 1 else None
    return KnownFrames(
        link.digest.hex(),
        board,
        tuple(in_turns(link.inputs, link.input_turns, framed(into, k)) for k in range(FRAMES)),
        tuple(in_turns(link.outputs, link.output_turns, framed(out, k)) for k in range(FRAMES * rounds)),
        in_turns(link.outputs, link.output_turns, used),
        latency,
        link.frame_at_once,
    )


def _drawn(shape: tuple[int, ...], span: tuple[int, int], generator: np.random.Generator) -> np.ndarray:
    """Return (FRAMES, *shape) int64."""
    low, high = span
    values = generator.integers(low, high, (FRAMES, *shape), endpoint=True)
    values[2::2] = np.where(generator.random(values[2::2].shape) < 0.3, generator.choice(span), values[2::2])
    values[0], values[1] = low, high
    return values
