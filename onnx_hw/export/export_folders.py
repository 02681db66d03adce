"""Folders ``verilog`` and ``cocotb`` of a build."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path

import numpy as np

from onnx_hw.assemble.elaborate import to_circuit
from onnx_hw.export import readme, test_vectors, verilog
from onnx_hw.ir.design import Design
from onnx_hw.ir.golden import streamed_in
from onnx_hw.runtime.build_folder import BuildFolder
from onnx_hw.runtime.listener import NULL_LISTENER, Listener

VERILOG, COCOTB = "verilog", "cocotb"

BENCH = ("bench.py", "test_circuit.py", "Makefile", "README.md", "requirements.txt")
"""Files of every bench; ``@MODULE@`` in them stands for the module's name."""


def write(
    folder: BuildFolder,
    note_file: Callable[[str, str], None],
    design: Design,
    frames: Mapping[str, np.ndarray] | None = None,
    simulated: str = "",
    listener: Listener = NULL_LISTENER,
) -> None:
    """Write both folders. Without yosys, write neither and warn.

    Args:
        note_file: called with kind and name of each file that was written.
        frames: samples by graph input, (frames, *shape), of which the bench streams the first few; None for random
            integers.
        simulated: the Verilog that yosys wrote for ``to_circuit(design)``, if there is one already
            (``Proof.verilog``); else empty.

    Raises:
        ToolFailed: yosys failed.
    """
    from onnx_hw_tools.tools import ToolMissing

    module = verilog.module_name(design.network.name)
    try:
        text = _verilog(design, module, simulated, listener)
    except ToolMissing as missing:
        listener.warn("neither Verilog nor a cocotb bench was written, since yosys is missing", str(missing))
        return
    streamed = test_vectors.vectors(design, module, streamed_in(design.network, frames))
    circuit = {
        f"{module}.v": text,
        "README.md": readme.page(design, module),
        "instantiation.v": readme.instantiation(module, readme.ends(design)),
    }
    bench = {name: bench_file(name).replace("@MODULE@", module) for name in BENCH}

    def write_bench(path: Path) -> None:
        _write_files(path, bench)
        streamed.write(path)

    folder.stage(VERILOG, circuit, lambda path: _write_files(path, circuit))
    folder.stage(COCOTB, {"bench": bench, "vectors": streamed.digest}, write_bench)
    note_file(VERILOG, f"{VERILOG}/{module}.v")
    note_file(COCOTB, COCOTB)


def _verilog(design: Design, module: str, simulated: str, listener: Listener) -> str:
    ports = test_vectors.ports(design)
    if simulated:
        return verilog.portable(simulated, module, ports)
    circuit, _, _ = to_circuit(design)
    with tempfile.TemporaryDirectory() as folder:
        return verilog.of_rtlil(circuit.rtlil, module, ports, Path(folder), on_first_run=listener.first_run)


def _write_files(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def bench_file(name: str) -> str:
    """Return the text of a file of ``bench/``."""
    return (files("onnx_hw.export") / "bench" / name).read_text(encoding="utf-8")
