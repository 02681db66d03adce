"""Large raw data that are kept apart from the message: the same models and the same refusals as without."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx.helper import make_node
from onnx.numpy_helper import from_array

from onnx import ModelProto, TensorProto
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.load.read import read
from onnx_hw.onnx.parse import large_data
from onnx_hw.onnx.parse.large_data import NotSplit, split_file
from support.onnx_files import checked as check_report
from support.onnx_files import codes, model, value, write


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and data of any size are split."""
    monkeypatch.setattr(large_data, "MIN_FILE_BYTES", 1)
    monkeypatch.setattr(large_data, "MIN_DATA_BYTES", 64)


def drawn(seed: int) -> ModelProto:
    """A sum of constants of several types and sizes; some are too small to be kept apart, some are typed fields."""
    draw = np.random.default_rng(seed)
    constants, nodes, last = [], [], "x"
    for k in range(6):
        array = draw.normal(size=(int(draw.integers(1, 60)), 2)).astype(np.float32)
        tensor = from_array(array, f"c{k}")
        if draw.random() < 0.3:
            tensor.ClearField("raw_data")
            tensor.float_data.extend(array.reshape(-1).tolist())
        tensor.doc_string = "d" * int(draw.integers(0, 300))
        constants.append(tensor)
        nodes += [
            make_node("ReduceSum", [f"c{k}"], [f"s{k}"], keepdims=0),
            make_node("Add", [last, f"s{k}"], [f"a{k}"]),
        ]
        last = f"a{k}"
    nodes.append(make_node("Relu", [last], ["y"]))
    return model(nodes, constants=constants)


def split(content: bytes) -> large_data.SplitFile:
    return split_file(io.BytesIO(content), len(content))


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_lost(seed: int) -> None:
    whole = drawn(seed)
    parts = split(whole.SerializeToString())
    rest = ModelProto.FromString(parts.message)
    large = [k for k, tensor in enumerate(whole.graph.initializer) if len(tensor.raw_data) >= 64]
    assert list(parts.raw_data) == large
    for k, data in parts.raw_data.items():
        assert not rest.graph.initializer[k].HasField("raw_data")
        rest.graph.initializer[k].raw_data = data
    assert rest == whole


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_model_is_the_same(tmp_path: Path, seed: int, mapped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_data, "MIN_MAPPED_BYTES", 1 if mapped else 1 << 29)
    path = write(tmp_path, drawn(seed))
    apart = read(path).graph.constants
    monkeypatch.setattr(large_data, "MIN_FILE_BYTES", 1 << 24)
    whole = read(path).graph.constants
    assert list(apart) == list(whole)
    for name, array in whole.items():
        np.testing.assert_array_equal(apart[name], array)


@pytest.mark.parametrize("seed", range(60))
def test_damaged_files_are_judged_alike(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is cut off or overwritten: the same problems, or the same model."""
    draw = random.Random(seed)
    content = bytearray(drawn(seed % 10).SerializeToString())
    for _ in range(draw.randint(0, 3)):
        content[draw.randrange(len(content))] = draw.randrange(256)
    if draw.random() < 0.5:
        del content[draw.randrange(len(content)) :]
    judged = []
    for least, mapped in ((1, 1 << 29), (1, 1), (1 << 24, 1 << 29)):
        monkeypatch.setattr(large_data, "MIN_FILE_BYTES", least)
        monkeypatch.setattr(large_data, "MIN_MAPPED_BYTES", mapped)
        report = check_report(tmp_path, bytes(content))
        try:
            constants = {name: array.tobytes() for name, array in read(tmp_path / "model.onnx").graph.constants.items()}
        except UserError:
            constants = {}
        judged.append((report.verdict, codes(report), report.warnings, report.summary, constants))
    assert judged[0] == judged[1] == judged[2]


def test_a_field_that_comes_twice_stays_in_the_message() -> None:
    """The parser takes the last one."""
    tensor = from_array(np.zeros((20, 2), np.float32), "c")
    twice = tensor.SerializeToString() + b"\x4a\x50" + bytes(range(80))
    rest = drawn(0)
    del rest.graph.initializer[:]
    graph = rest.graph.SerializeToString() + b"\x2a" + bytes((len(twice) & 0x7F | 0x80, len(twice) >> 7)) + twice
    rest.ClearField("graph")
    length = bytes((len(graph) & 0x7F | 0x80, len(graph) >> 7))
    with pytest.raises(NotSplit):  # nothing is kept apart
        split(rest.SerializeToString() + b"\x3a" + length + graph)


def test_small_files_are_parsed_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_data, "MIN_FILE_BYTES", 1 << 24)
    with pytest.raises(NotSplit):
        split(drawn(0).SerializeToString())


def sparse_model(folder: Path, *, external: bool) -> Path:
    """Return a chain of 20 products whose weights, 16 MiB each, are holes in a file; 330 MB that take no disk space."""
    size, chain, last, row = 1 << 22, 20, "x", (1, 1 << 11)
    nodes, constants = [], []
    for k in range(chain):
        tensor = TensorProto(name=f"w{k}", data_type=TensorProto.FLOAT, dims=(1 << 11, 1 << 11))
        if external:
            tensor.data_location = TensorProto.EXTERNAL
            for key, entry in (("location", "weights"), ("offset", k * 4 * size), ("length", 4 * size)):
                tensor.external_data.add(key=key, value=str(entry))
        else:
            tensor.raw_data = bytes(4 * size)
        constants.append(tensor)
        nodes.append(make_node("MatMul", [last, f"w{k}"], [last := f"y{k}"]))
    if external:
        with (folder / "weights").open("wb") as file:
            file.truncate(chain * 4 * size)
    whole = model(nodes, inputs=[value("x", row)], outputs=[value(last, row)], constants=constants)
    return write(folder, whole)


MEASURE = """
import resource, sys
from onnx_hw.onnx.parse import large_data
large_data.MIN_MAPPED_BYTES = 1 << 24
from onnx_hw.onnx.load.check_file import check
from onnx_hw.quantization.quantize import prepare_model
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
prepare_model(check(sys.argv[1]).model)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of the peak of memory is that of Linux")
@pytest.mark.parametrize("external", [False, True])
def test_weights_that_are_only_looked_at_do_not_stay_in_memory(tmp_path: Path, external: bool) -> None:
    path = sparse_model(tmp_path, external=external)
    run = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 100_000  # kB of 335,544
