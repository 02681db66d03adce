"""Encoder layers and a vision transformer at the defaults: against onnxruntime, and a small one in the circuit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from support.onnx_oracle import assert_circuit_agrees, by_onnxruntime
from support.transformers import SPELLINGS, encoder_layer, vision_transformer


def sqnr_db(path: Path, frames: np.ndarray, learned: int) -> tuple[float, Network]:
    """Golden against onnxruntime's floats, on the frames that nothing was learned from, in dB."""
    network = flow.quantize(flow.read(path), {"x": frames[:learned]})
    others = {"x": frames[learned:]}
    (found,), (wanted,) = golden.run(network, others).values(), by_onnxruntime(path, others).values()
    return float(10 * np.log10((wanted**2).sum() / ((found - wanted) ** 2).sum())), network


def tokens(count: int, *shape: int) -> np.ndarray:
    """Tokens whose sizes differ by factors of e^±1.2."""
    random = np.random.default_rng(0)
    sizes = np.exp(random.uniform(-1.2, 1.2, (count, *shape[:-1], 1)))
    return (random.normal(size=(count, *shape)) * sizes).astype(np.float32)


@pytest.mark.parametrize("first", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_encoder_layers_keep_30_db(spelling: str, first: bool, tmp_path: Path) -> None:
    path = encoder_layer(tmp_path / "m.onnx", spelling=spelling, first=first)
    found, network = sqnr_db(path, tokens(40, 1, 12, 16), 24)
    kinds = Counter(type(node.operator).__name__ for node in network.nodes)
    assert found >= 30 and kinds["Softmax"] == 1
    assert kinds["Normalize"] == 2 - first, "the host normalizes the input"


def test_a_vision_transformer_keeps_28_db(tmp_path: Path) -> None:
    """With a class token and a position embedding."""
    path = vision_transformer(tmp_path / "m.onnx", side=8, layers=1)
    images = np.random.default_rng(0).normal(size=(32, 1, 3, 8, 8)).astype(np.float32)
    found, network = sqnr_db(path, images, 20)
    kinds = Counter(type(node.operator).__name__ for node in network.nodes)
    assert found >= 28 and kinds["Softmax"] == 1 and kinds["Normalize"] == 3


@pytest.mark.parametrize(("spelling", "first"), [("torchscript", True), ("dynamo", False)])
def test_the_circuit_of_an_encoder_layer(spelling: str, first: bool, tmp_path: Path) -> None:
    """Under stalls."""
    form = {"tokens": 2, "width": 4, "hidden": 2, "spelling": spelling, "first": first}
    network = flow.quantize(flow.read(encoder_layer(tmp_path / "m.onnx", **form)), {"x": tokens(16, 1, 2, 4)})
    assert_circuit_agrees(network, multipliers=16)
