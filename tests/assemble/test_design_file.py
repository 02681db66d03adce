"""The file of a design: what is read is what was written, for every operator, and only our own classes are made."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.design_file import FILE, KeptDesign, read_design, write_design
from onnx_hw.ir import golden, value_file
from onnx_hw.ir.design import Design
from onnx_hw.ir.value_file import Stored, decode, encode
from onnx_hw.onnx.graph.model import Value
from onnx_hw.runtime.build_folder import BuildFolder
from onnx_hw_boards.board import Board
from support import core_tests
from support.fixture_paths import EXAMPLES
from support.hand_built_designs import alone
from support.random_designs import chains

BOARDS = {"board": Stored(Board, lambda board: board.name, find_board)}


def again(path: Path, design: Design) -> Design:
    path.write_bytes(encode(design, BOARDS))
    read = decode(path, Design, BOARDS)
    assert encode(read, BOARDS) == path.read_bytes()
    return read


@settings(max_examples=8)
@given(design=chains(4, 5))
def test_drawn_designs(tmp_path_factory: pytest.TempPathFactory, design: Design) -> None:
    read = again(tmp_path_factory.mktemp("design") / "d.npz", design)
    assert repr(read) == repr(design)
    integers = golden.random_integers(design.network)
    for name, array in golden.trace(design.network, integers).items():
        assert np.array_equal(golden.trace(read.network, integers)[name], array)


@pytest.mark.parametrize("name", core_tests.operator_files())
def test_every_operator(tmp_path: Path, name: str) -> None:
    for operator, folding in core_tests.load(name).NARROW_CORES.values():
        design = alone(operator, folding, 2)
        assert repr(again(tmp_path / "d.npz", design)) == repr(design)


def test_a_network_with_host_parts(tmp_path: Path) -> None:
    """Head, tail, orders and scales are there: the outputs for samples are the same."""
    network = flow.quantize(flow.read(EXAMPLES / "digits" / "digits.onnx"))
    design = flow.schedule(network, board="icebreaker", multipliers=4)
    noted: dict[str, str] = {}
    inputs = (Value("image", "float", ("N", 1, 8, 8)),)
    write_design(BuildFolder(tmp_path), noted.setdefault, design, "icebreaker", inputs, 2, 10)
    kept = read_design(tmp_path)
    assert (kept.inputs, kept.batch, kept.classes, noted) == (inputs, 2, 10, {"design": FILE})
    with np.load(EXAMPLES / "digits" / "digits_test.npz") as stored:
        frames = {"image": stored["image"][:5].reshape(5, 1, 1, 8, 8)}
    for name, array in golden.run(network, frames).items():
        assert np.array_equal(golden.run(kept.design.network, frames)[name], array)
    assert kept.design.target.board is find_board("icebreaker")


@pytest.mark.parametrize(
    "plain",
    [
        {"new": ["subprocess:Popen", {"args": "true"}]},
        {"new": ["onnx_hw.flow:Path", {}]},
        {"new": ["onnx_hw.flow:read", {"path": "x"}]},
        {"enum": ["onnx_hw.messages.errors:UserError", "x"]},
        {"array": 3},
        {"unknown": 1},
        {},
        {"list": {"list": 1}},
    ],
)
def test_nothing_else_is_made(tmp_path: Path, plain: object) -> None:
    text = json.dumps(plain).encode()
    numbers = {"value": np.frombuffer(text, np.uint8), "sha256": np.frombuffer(value_file._digest(text, []), np.uint8)}
    np.savez(tmp_path / "x.npz", **numbers)
    with pytest.raises(value_file.DAMAGED):
        decode(tmp_path / "x.npz", KeptDesign, {})


def test_what_has_no_form_is_refused() -> None:
    for value in (object(), len, Path, 1j):
        with pytest.raises(TypeError, match="cannot be written"):
            encode(value, {})
