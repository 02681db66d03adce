"""Folder ``shell`` of a build for Verilog: the network in its shell, and a bench that does not need onnx-hw."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np

from onnx_hw.assemble.host_link import link_of
from onnx_hw.assemble.netlist import Netlist
from onnx_hw.assemble.stream_names import stream_names
from onnx_hw.export import verilog
from onnx_hw.export.shell_readme import shell_page
from onnx_hw.export.test_vectors import FRAMES
from onnx_hw.ir.design import Design
from onnx_hw.ir.golden import streamed_in
from onnx_hw.prove.circuit.prove import beats_of
from onnx_hw.runtime.build_folder import BuildFolder
from onnx_hw.runtime.listener import NULL_LISTENER, Listener
from onnx_hw_boards.verilog_board import ShellKind, VerilogBoard
from onnx_hw_link.frames import in_turns, to_transfers
from onnx_hw_link.link import LinkPort

SHELL = "shell"


def write_shell(
    folder: BuildFolder,
    note_file: Callable[[str, str], None],
    design: Design,
    netlist: Netlist,
    frames: Mapping[str, np.ndarray] | None = None,
    listener: Listener = NULL_LISTENER,
) -> None:
    """Write the folder of a shell other than plain streams. Without yosys, write nothing.

    Args:
        note_file: called with kind and name of the file that was written.
        netlist: netlist of the design, which is for a ``VerilogBoard``.
        frames: samples by graph input, (frames, *shape), of which the bench streams the first few; None for random
            integers.

    Raises:
        ToolFailed: yosys failed.
    """
    from onnx_hw_tools.tools import ToolMissing

    board = design.target.board
    assert isinstance(board, VerilogBoard)
    if board.shell is ShellKind.STREAMS:
        return
    module = f"{verilog.module_name(design.network.name)}_{board.shell}"
    link = link_of(design, design.clock_mhz)
    names = stream_names(design)
    inputs, outputs = (
        tuple(replace(port, name=names[port.name]) for port in side) for side in (link.inputs, link.outputs)
    )
    renamed = replace(link, inputs=inputs, outputs=outputs)
    try:
        with tempfile.TemporaryDirectory() as work_folder:
            text = verilog.of_rtlil(
                netlist.rtlil,
                module,
                ["clk", "rst", *netlist.ports],
                Path(work_folder),
                on_first_run=listener.first_run,
            )
    except ToolMissing:
        return  # `export_folders.write` has warned already
    facts = {
        "module": module,
        "digest": netlist.link.digest.hex() if netlist.link else "",
        "inputs": [_facts(port) for port in renamed.inputs],
        "outputs": [_facts(port) for port in renamed.outputs],
        "input_bytes": link.input_bytes,
        "output_bytes": link.output_bytes,
        "result_bytes": link.result_bytes,
        "window": 1 << netlist.ports["wb_adr_i"][1] if board.shell is ShellKind.WISHBONE else 0,
    }
    arrays = _frames(design, (inputs, outputs), (link.input_turns, link.output_turns), frames)
    texts = {
        f"{module}.v": text,
        "README.md": shell_page(module, board.shell, renamed, netlist.ports, design.clock_mhz),
        "instantiation.v": _instantiation(module, netlist.ports),
        "shell.json": json.dumps(facts, indent=1) + "\n",
        **{name: _bench(name).replace("@MODULE@", module) for name in ("test_shell.py", "requirements.txt")},
        "bench.py": _bench(f"{board.shell}_bench.py"),
    }

    def write(path: Path) -> None:
        for name, content in texts.items():
            (path / name).write_text(content, encoding="utf-8")
        np.savez_compressed(path / "frames.npz", **arrays)  # type: ignore[arg-type]  # the stub has a keyword

    digest = {name: array.tobytes().hex() for name, array in arrays.items()}
    folder.stage(SHELL, {"texts": texts, "frames": digest}, write)
    note_file(SHELL, f"{SHELL}/{module}.v")


def _facts(port: LinkPort) -> dict[str, object]:
    return {"name": port.name, "beats": port.beats, "beat_bytes": port.transfer_bytes}


def _frames(
    design: Design,
    ports: tuple[tuple[LinkPort, ...], tuple[LinkPort, ...]],
    turns: tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]],
    frames: Mapping[str, np.ndarray] | None,
) -> dict[str, np.ndarray]:
    """Return the arrays of ``frames.npz``.

    ``in`` and ``out`` hold the bytes of all streams in the order of a link, ``in_{stream}`` and ``out_{stream}`` those
    of one: (frames, bytes) uint8. ``used_...`` are masks, (bytes,) uint8: 255 where a byte carries results, 0 where it
    fills up a beat.
    """
    first = {tensor: array[:FRAMES] for tensor, array in streamed_in(design.network, frames).items()}
    edges = {edge.tensor: edge for edge in design.edges() if edge.producer is None or edge.consumer is None}
    outer = beats_of(design, first, edges)
    arrays: dict[str, np.ndarray] = {}
    network, count = design.network, len(next(iter(first.values())))
    for side, boundaries, sides, order in zip(
        ("in", "out"), (network.inputs, network.outputs), ports, turns, strict=True
    ):
        streams = [edges[tensor] for tensor in dict.fromkeys(boundary.tensor for boundary in boundaries)]
        beats = [
            outer[edge.tensor].astype(np.int64).reshape(count, port.beats, port.width)
            for edge, port in zip(streams, sides, strict=True)
        ]
        used = [-edge.order.used(edge.beats).astype(np.int64) for edge in streams]
        arrays[side] = _bytes(in_turns(sides, order, [words[k] for words in beats]) for k in range(count))
        arrays[f"used_{side}"] = _bytes([in_turns(sides, order, used)])[0]
        for port, words, mask in zip(sides, beats, used, strict=True):
            arrays[f"{side}_{port.name}"] = _bytes(to_transfers(port, frame) for frame in words)
            arrays[f"used_{side}_{port.name}"] = _bytes([to_transfers(port, mask)])[0]
    return arrays


def _bytes(rows: object) -> np.ndarray:
    return np.array([np.frombuffer(row, dtype=np.uint8) for row in rows])  # type: ignore[attr-defined]


def _instantiation(module: str, ports: Mapping[str, tuple[str, int]]) -> str:
    """Return Verilog to copy: a wire for every port, and the instance."""
    wires = {}
    for name, (flow, width) in ports.items():
        bits = f"[{width - 1}:0] " if width > 1 else ""
        wires[name] = f"wire {bits}{name};  // {'to' if flow == 'in' else 'from'} the network"
    return verilog.instance(module, wires)


def _bench(name: str) -> str:
    folder = "bench" if name == "requirements.txt" else "shell_bench"
    return (files("onnx_hw.export") / folder / name).read_text(encoding="utf-8")
