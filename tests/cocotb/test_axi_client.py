"""The AXI-Stream shell in Icarus, moved by cocotbext-axi: ports that it finds by their prefix, and golden's frames."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import onnx_hw_boards
from onnx_hw.assemble.netlist import netlist_of
from onnx_hw.export.shells import write_shell
from onnx_hw.runtime.build_folder import opened
from onnx_hw_link.frames import to_transfers
from support.fixture_paths import CHECKOUT
from support.optional_software import needs_icarus
from support.shell_bench import drawn, small
from support.targets import on_board

FRAMES = 20
RUN = """
from cocotb_tools.runner import get_runner
runner = get_runner("icarus")
runner.build(sources=["shell.v"], hdl_toplevel="sketch_core_axi_stream", build_dir="sim", timescale=("1ns", "1ps"))
runner.test(hdl_toplevel="sketch_core_axi_stream", test_module="axi_client", build_dir="sim")
"""


@needs_icarus
def test_a_foreign_client_moves_frames_with_pauses(tmp_path: Path) -> None:
    network = small()
    design = on_board(network.design, onnx_hw_boards.board("verilog_axi_stream"))
    with opened(tmp_path / "build") as folder:
        write_shell(folder, lambda kind, name: None, design, netlist_of(design))
    with np.load(tmp_path / "build" / "shell" / "frames.npz") as stored:
        used = stored["used_out_sum_o"]
    shutil.copy(tmp_path / "build" / "shell" / "sketch_core_axi_stream.v", tmp_path / "shell.v")
    frames = drawn(FRAMES, 4)
    rows = {name: b"".join(network.beats(name, frames[name])) for name in ("a", "b")}
    (port,), edge = network.outputs, next(edge for edge in network.design.edges() if edge.tensor == "sum.o")
    sums = edge.order.to_beats(network.sums(frames)).reshape(FRAMES, port.beats, port.width)
    rows["sum_o"] = b"".join(to_transfers(port, frame) for frame in sums)
    arrays = {name: np.frombuffer(row, dtype=np.uint8).reshape(FRAMES, -1) for name, row in rows.items()}
    np.savez(tmp_path / "frames.npz", used=used, **arrays)
    clients = {"PYTHONPATH": str(CHECKOUT / "tests" / "cocotb"), "FRAMES": str(tmp_path / "frames.npz")}
    environment = {**os.environ, "COCOTB_RESOLVE_X": "ZEROS", **clients}
    done = subprocess.run(
        [sys.executable, "-c", RUN], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "PASS=1" in done.stdout.replace(" ", "").replace("\x1b", ""), (
        done.stdout + done.stderr
    )
