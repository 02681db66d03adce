"""External data: found beside the model and nowhere else, checked before it is read, never copied."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest

from onnx_hw.onnx.load.read import read
from support.cpu_time_limit import own_seconds
from support.onnx_files import TensorProto, checked, codes, make_node, model, value, warned, write

DATA = np.arange(8, dtype=np.float32)


def with_external(shape=(2,), **keys):
    """A model with one external initializer ``w``; the keys are those of external_data."""
    tensor = TensorProto(name="w", dims=shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    for key, content in keys.items():
        tensor.external_data.add(key=key, value=str(content))
    return model([], inputs=[], outputs=[value("w", shape)], constants=[tensor])


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "model"
    (inside / "sub").mkdir(parents=True)
    for path in (inside / "w.bin", inside / "sub" / "w.bin", inside / "w..bin", tmp_path / "outside.bin"):
        path.write_bytes(DATA.tobytes())
    return inside


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"location": "w.bin"}, DATA[:2]),
        ({"location": "w.bin", "offset": 8, "length": 8}, DATA[2:4]),
        ({"location": "./sub//w.bin", "offset": 24}, DATA[6:]),
        ({"location": "w..bin", "length": 8}, DATA[:2]),
        ({"location": "w.bin", "length": 8, "checksum": hashlib.sha1(DATA.tobytes()).hexdigest()}, DATA[:2]),
        ({"location": "w.bin", "length": 8, "basepath": "/somewhere"}, DATA[:2]),
    ],
)
def test_good(folder, keys, expected):
    found = read(write(folder, with_external(**keys))).graph.constants["w"]
    np.testing.assert_array_equal(found, expected)
    assert not found.flags.writeable


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({}, "external-path"),
        ({"location": ""}, "external-path"),
        ({"location": "."}, "external-path"),
        ({"location": "../outside.bin"}, "external-path"),
        ({"location": "sub/../../outside.bin"}, "external-path"),
        ({"location": "sub/../w.bin"}, "external-path"),
        ({"location": "/etc/hostname"}, "external-path"),
        ({"location": "sub\\w.bin"}, "external-path"),
        ({"location": "C:w.bin"}, "external-path"),
        ({"location": "file:///etc/hostname"}, "external-path"),
        ({"location": "w.bin\0.txt"}, "external-path"),
        ({"location": "sub"}, "external-file"),
        ({"location": "nowhere.bin"}, "external-file"),
        ({"location": "x" * 5000}, "external-file"),
        ({"location": "w.bin", "offset": -4}, "external-number"),
        ({"location": "w.bin", "offset": "0x4"}, "external-number"),
        ({"location": "w.bin", "length": "eight"}, "external-number"),
        ({"location": "w.bin", "offset": "٤"}, "external-number"),
        ({"location": "w.bin", "offset": 28}, "external-range"),
        ({"location": "w.bin", "offset": 1 << 40}, "external-range"),
        ({"location": "w.bin", "length": 4}, "external-length"),
        ({"location": "w.bin", "length": 1 << 62}, "external-length"),
        ({"location": "w.bin", "checksum": "0" * 40}, "external-checksum"),
        ({"location": "w.bin", "checksum": "abc"}, "external-checksum"),
    ],
)
def test_refused(folder, keys, code):
    assert codes(checked(folder, with_external(**keys))) == [f"external:{code}"]


def test_a_link_out_of_the_folder_is_refused_one_inside_followed(folder):
    (folder / "out.bin").symlink_to(folder.parent / "outside.bin")
    (folder / "in.bin").symlink_to(folder / "sub" / "w.bin")
    (folder / "up").symlink_to(folder.parent)
    assert codes(checked(folder, with_external(location="out.bin"))) == ["external:external-path"]
    assert codes(checked(folder, with_external(location="up/outside.bin"))) == ["external:external-path"]
    assert checked(folder, with_external(location="in.bin", length=8)).valid


def test_a_pipe_does_not_keep_us_waiting(folder):
    os.mkfifo(folder / "pipe.bin")
    assert codes(checked(folder, with_external(location="pipe.bin"))) == ["external:external-file"]


def test_warnings(folder):
    os.link(folder / "w.bin", folder / "same.bin")
    report = checked(folder, with_external(location="same.bin", colour="red"))
    assert report.valid
    assert set(warned(report)) == {"external-hard-link", "external-unknown-key", "external-no-length"}
    dead = with_external(location="/nowhere")
    dead.graph.initializer[0].data_location = TensorProto.DEFAULT
    dead.graph.initializer[0].float_data.extend([1, 2])
    report = checked(folder, dead)
    assert report.valid
    assert warned(report) == ["external-dead"]


def test_a_repeated_key_is_refused(folder):
    content = with_external(location="w.bin")
    content.graph.initializer[0].external_data.add(key="location", value="sub/w.bin")
    assert codes(checked(folder, content)) == ["external:external-repeated-key"]


def test_values_inside_as_well_are_refused(folder):
    content = with_external(location="w.bin")
    content.graph.initializer[0].raw_data = bytes(8)
    assert codes(checked(folder, content)) == ["validate:tensor-two-data"]


def test_every_tensor_of_the_file_is_checked(folder):
    """In attributes, functions and training graphs too."""
    bad = with_external(location="../outside.bin").graph.initializer[0]
    content = model([make_node("Constant", [], ["y"], value=bad)], opset={"": 13, "f": 1})
    function = content.functions.add(name="f", domain="f", output=["o"])
    function.opset_import.add(version=13)
    function.node.append(make_node("Constant", [], ["o"], value=bad))
    content.training_info.add().algorithm.initializer.append(bad)
    report = checked(folder, content)
    assert codes(report) == ["external:external-path"] * 3
    assert {problem.where.split(".")[0] for problem in report.problems} == {
        "training_info[0]",
        "graph",
        'functions[0]("f")',
    }


def test_paths_are_relative_to_the_model_not_the_working_directory(folder, monkeypatch):
    path = write(folder, with_external(location="w.bin", length=8))
    monkeypatch.chdir(folder.parent)
    np.testing.assert_array_equal(read(path).graph.constants["w"], DATA[:2])
    monkeypatch.chdir(folder)
    np.testing.assert_array_equal(read(path.name).graph.constants["w"], DATA[:2])


def test_a_gigabyte_is_opened_without_being_read(folder):
    with (folder / "big.bin").open("wb") as file:
        file.truncate(1 << 30)  # sparse: takes no room on disk
    path = write(folder, with_external((1 << 28,), location="big.bin"))
    with own_seconds() as seconds:
        found = read(path).graph.constants["w"]
        assert seconds() < 1
    assert found.nbytes == 1 << 30
    assert found[-1] == 0
