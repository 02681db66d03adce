"""Reading: the real models come in whole, and what is no model is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.load.read import read
from support.fixture_paths import MODELS, model_names, needs_models


@needs_models
@pytest.mark.parametrize("name", model_names())
def test_real_models_are_read(name):
    model = read(MODELS / name / "model.onnx")
    assert isinstance(model, Model)
    known = {value.name for value in model.graph.inputs} | set(model.graph.constants)
    for node in model.graph.nodes:
        assert {name for name in node.inputs if name} <= known, f"{node.where} reads what is not there"
        known.update(node.outputs)
    assert {value.name for value in model.graph.outputs} <= known
    feeds = np.load(MODELS / name / "inputs.npz").files
    assert {value.name for value in model.graph.inputs} == set(feeds)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty-file"),
        (b"<!DOCTYPE html>\n<html><head>", "html-page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n", "git-lfs-pointer"),
        (b"\n\x09ONNXOPSET\x10\x01", "operator-set"),
        (b'{"irVersion": "8"}', "json-text"),
        (b"this is a note, not a model\n", "text-file"),
        (b"PK\x03\x04\x14\x00", "archive"),
        (b"\x08\x08\x3a\xff\xff\xff\xff\x07", "not-onnx"),
        (bytes(64), "not-onnx"),
        (b"\x08\x08\x12\x05abc", "not-onnx"),
    ],
)
def test_what_is_no_model_is_named(tmp_path, content, code):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        read(path)
    assert [(problem.code, problem.stage) for problem in caught.value.problems] == [(code, "parse")]


def test_missing_file_names_the_nearest(tmp_path):
    (tmp_path / "digits.onnx").write_bytes(b"x")
    with pytest.raises(UserError, match=r"did you mean .*digits\.onnx") as caught:
        read(tmp_path / "digit.onnx")
    assert caught.value.problems[0].code == "no-such-file"


def test_a_folder_is_no_model(tmp_path):
    with pytest.raises(UserError, match="not a folder"):
        read(tmp_path)
