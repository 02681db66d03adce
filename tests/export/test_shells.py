"""Verilog of a network in each of its shells, with a bench that needs nothing of ours; a build for no chip at all."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import onnx_hw_boards
from onnx_hw import flow
from onnx_hw.assemble.host_link import link_of
from onnx_hw.assemble.netlist import netlist_of
from onnx_hw.assemble.stream_names import stream_names
from onnx_hw.commands.build import clamp_stages
from onnx_hw.export.shell_readme import shell_page
from onnx_hw.export.shells import write_shell
from onnx_hw.messages.errors import UserError
from onnx_hw.runtime.build_folder import opened
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.stage import Stage
from onnx_hw_boards.verilog_board import ShellKind, VerilogBoard
from support.optional_software import needs_icarus
from support.shell_bench import small
from support.targets import on_board

BOARDS = [onnx_hw_boards.board(name) for name in onnx_hw_boards.names()]
SHELLS = {board.shell: board for board in BOARDS if isinstance(board, VerilogBoard)}


def emitted(shell: ShellKind, place: Path) -> Path:
    told: dict[str, str] = {}
    design = on_board(small().design, SHELLS[shell])
    with opened(place) as folder:
        write_shell(folder, told.__setitem__, design, netlist_of(design))
    assert told == {"shell": f"shell/sketch_core_{shell}.v"}
    return place / "shell"


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shell is not ShellKind.STREAMS])
def test_the_page_names_every_port_and_stream(shell: ShellKind) -> None:
    design = on_board(small().design, SHELLS[shell])
    netlist, link = netlist_of(design), link_of(design, 80)
    inputs, outputs = (
        tuple(replace(port, name=stream_names(design)[port.name]) for port in side)
        for side in (link.inputs, link.outputs)
    )
    page = shell_page("network", shell, replace(link, inputs=inputs, outputs=outputs), netlist.ports, 80)
    assert shell is not ShellKind.AXI_STREAM or {"s_axis_a_tdata", "m_axis_sum_o_tlast"} <= netlist.ports.keys()
    for name, (way, width) in netlist.ports.items():
        assert f"| `{name}` | {'to' if way == 'in' else 'from'} the network | {width} |" in page
    names = stream_names(design)
    assert list(names.values()) == ["a", "b", "sum_o"]
    for port in (*link.inputs, *link.outputs):
        size = port.transfer_bytes if shell is ShellKind.AXI_STREAM else port.beat_bits
        assert f"| `{names[port.name]}` | {port.beats:,} | {size:,} |" in page
    assert "{" not in page


def run(place: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """``pytest`` in the folder, where nothing of ours can be imported."""
    for name in ("onnx_hw", "onnx_hw_rtl", "onnx_hw_link", "amaranth", "conftest"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not here')\n" if name != "conftest" else "")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "test_shell.py"]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=120, check=False)


@needs_icarus
@pytest.mark.parametrize(
    "shell",
    [
        ShellKind.AXI_STREAM,
        *(pytest.param(shell, marks=pytest.mark.slow) for shell in (ShellKind.WISHBONE, ShellKind.SPI)),
    ],
)
def test_the_bench_passes_alone(shell: ShellKind, tmp_path: Path) -> None:
    done = run(emitted(shell, tmp_path / "build"), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_icarus
@pytest.mark.slow
def test_the_bench_sees_a_bit_that_is_wrong(tmp_path: Path) -> None:
    place = emitted(ShellKind.AXI_STREAM, tmp_path / "build")
    arrays = dict(np.load(place / "frames.npz"))
    arrays["out_sum_o"][-1, 0] ^= 1
    np.savez(place / "frames.npz", **arrays)
    done = run(place, tmp_path)
    assert done.returncode == 1 and "AssertionError: frame 2" in done.stdout, done.stdout


def test_a_build_for_verilog_ends_with_the_simulation() -> None:
    for board in SHELLS.values():
        assert clamp_stages(BuildOptions(model=Path("m.onnx"), board=board.name)).stop_after is Stage.SIMULATE
        early = BuildOptions(model=Path("m.onnx"), board=board.name, stop_after=Stage.SCHEDULE)
        assert clamp_stages(early) is early
    with pytest.raises(UserError, match="has the stages up to simulate, not route") as refusal:
        clamp_stages(BuildOptions(model=Path("m.onnx"), board="verilog", stop_after=Stage.ROUTE))
    assert refusal.value.problems[0].where == "--stop-after"
    assert set(SHELLS) == set(ShellKind)


def test_streams_alone_are_in_the_folder_of_every_build(tmp_path: Path) -> None:
    design = on_board(small().design, SHELLS[ShellKind.STREAMS])
    netlist = flow.assemble(design)
    with opened(tmp_path / "build") as folder:
        write_shell(folder, lambda kind, name: None, design, netlist)
    assert netlist.link is None and not list((tmp_path / "build").glob("shell*"))
