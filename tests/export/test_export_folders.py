"""The folders that a build writes for other people's designs: Verilog, and a bench that needs nothing of ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_hw.exact.integers import Int
from onnx_hw.export import export_folders, test_vectors, verilog
from onnx_hw.ops.add import Add
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.tensor import Tensor
from onnx_hw.runtime.build_folder import opened
from onnx_hw.runtime.listener import NullListener
from onnx_hw_tools.tools import ToolMissing
from support.hand_built_designs import Sketch
from support.optional_software import needs_icarus

X = Tensor((2, 3, 5), Int(5))
WEIGHTS = np.random.default_rng(1).integers(-8, 8, (5, 5))


def residual():
    """``x + W x``, in ragged beats; two tensors leave."""
    sketch = Sketch()
    copies = sketch.add("fork", Fork(X), [sketch.input("x", X)], (3, 3), 8, 12)
    product = MatMul(X, WEIGHTS)
    (sums,) = sketch.add("product", product, [copies[0]], (3, 3), 8)
    (sums, left) = sketch.add("again", Fork(product.results()[0]), [sums], (3, 3), 8, 8)
    sketch.add("sum", Add(product.results()[0], X), [sums, copies[1]], (3, 3), 8)
    assert left in sketch.design().network.tensors
    return sketch.design()


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, told = tmp_path_factory.mktemp("emitted"), dict[Any, Any]()
    with opened(place) as folder:
        export_folders.write(folder, told.__setitem__, residual())
    assert told == {"verilog": "verilog/sketch_core.v", "cocotb": "cocotb"}
    return place


def run(place: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """``pytest`` in the folder, where nothing of ours can be imported."""
    for name in ("onnx_hw", "onnx_hw_rtl", "onnx_hw_sim", "amaranth", "conftest"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not here')\n" if name != "conftest" else "")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "test_circuit.py"]
    return subprocess.run(
        command, cwd=place / "cocotb", env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@needs_icarus
def test_the_bench_passes_alone_and_sees_a_weight_that_is_wrong(emitted: Path, tmp_path: Path) -> None:
    done = run(emitted, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    file = emitted / "verilog" / "sketch_core.v"
    text = file.read_text()
    # One bit of a weight that meets five bits of random data in every frame.
    words = list(re.finditer(r"(?<=memory0\[1\] = )(\d+)'h([0-9a-f]+)(?=;)", text))
    (word,) = [word for word in words if "product__core__weights" in text[: word.start()].rpartition("\nmodule ")[2]]
    try:
        file.write_text(f"{text[: word.start()]}{word[1]}'h{int(word[2], 16) ^ 2:x}{text[word.end() :]}")
        done = run(emitted, tmp_path)
    finally:
        file.write_text(text)
    assert done.returncode == 1
    first = re.search(r"\n\S* *(\S+): frame \d+, beat \d+, lane \d+: golden -?\d+, circuit -?\d+", done.stdout)
    assert first is not None, done.stdout
    assert first[1] == "product.o"
    assert "hesitating_at_random" in done.stdout


def test_ports_are_the_streams_of_the_outside_in_order(emitted: Path) -> None:
    text = (emitted / "verilog" / "sketch_core.v").read_text()
    head = re.search(r"^module sketch_core\(([^)]*)\)", text, re.MULTILINE)
    assert head is not None
    ports = [port.strip() for port in head[1].split(",")]
    ends = [s for s in test_vectors.streams(residual()) if s.direction != "inner"]
    assert ports[:2] == ["clk", "rst"]
    assert ports[2:] == [f"{s.name}_{part}" for s in ends for part in ("payload", "valid", "ready")]
    top = text[head.start() : text.index("endmodule", head.start())]
    assert set(re.findall(r"^  (?:input|output) (?:\[.*\] )?(\S+);", top, re.MULTILINE)) == set(ports)
    assert "\\top" not in text
    template = (emitted / "verilog" / "instantiation.v").read_text()
    assert set(re.findall(r"\.(\w+)\(", template)) == set(ports)
    page = (emitted / "verilog" / "README.md").read_text()
    assert all(f"`{s.name}`" in page and f"| {s.beats:,} |" in page for s in ends)


@pytest.mark.parametrize(
    ("name", "module"),
    [("Digits", "digits_core"), ("8×8", "model_8_8_core"), ("模型", "model_core"), ("module", "module_core")],
)
def test_any_model_has_a_module_name(name: str, module: str) -> None:
    assert verilog.module_name(name) == module


def test_without_yosys_both_folders_are_left_out_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ToolMissing(name, ("nowhere",), "YOSYS")

    told: list[str] = []

    class Listener(NullListener):
        def warn(self, message: str, hint: str) -> None:
            told.append(f"{message}; {hint}")

    monkeypatch.setattr("onnx_hw_tools.tools.find", missing)
    with opened(tmp_path) as folder:
        export_folders.write(folder, pytest.fail, residual(), listener=Listener())
    assert len(told) == 1 and "nor a cocotb bench" in told[0] and "YOSYS" in told[0]
    assert not any(place.is_dir() for place in tmp_path.iterdir())
