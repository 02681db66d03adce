"""Drawn QONNX networks: golden against the reference in double precision, quantizer by quantizer; and the circuits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir.network import Network
from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.operators.evaluate import evaluate
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of
from onnx_hw.prove.model.compare import compare
from onnx_hw.prove.model.known_values import known_values
from support.onnx_oracle import assert_circuit_agrees
from support.random_qonnx_models import NETWORKS, Qonnx

FRAMES = 6


def in_double(model: Model, frame: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every value of a model whose floats are float32, as the reference computes it in double precision."""
    wide = {name: a.astype(np.float64) if a.dtype == np.float32 else a for name, a in model.graph.constants.items()}
    types = {name: value for name, value in model.graph.values.items() if name not in wide}
    found: dict[str, np.ndarray] = {}
    feeds = {name: array.astype(np.float64) for name, array in frame.items()}
    outputs = [value.name for value in model.graph.outputs]
    evaluate(replace(model.graph, constants=wide, values=types), feeds, outputs, observe=found.__setitem__)
    return found


def assert_golden_is_the_reference(model: Model, network: Network, frames: np.ndarray) -> int:
    """On every quantizer of data and every output; returns how many quantizers that were."""
    constant = set(model.graph.constants)
    quantizers: list[Any] = []
    for node in model.graph.nodes:
        if set(node.inputs) <= constant:
            constant.update(node.outputs)
        elif facts_of(node).effect is Effect.SNAPS:
            quantizers += node.outputs
    for frame in frames:
        wanted, known = in_double(model, {"x": frame}), known_values(network, {"x": frame})
        assert set(quantizers) <= known.held.keys()
        for name in quantizers:
            np.testing.assert_allclose(known.held[name], wanted[name], rtol=1e-6, atol=1e-9, err_msg=name)
        for name, output in known.outputs.items():
            np.testing.assert_allclose(output, wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)
    return len(quantizers)


@pytest.mark.parametrize("dyadic", [False, True])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("draw", NETWORKS)
def test_golden_is_the_reference(
    tmp_path: Path, draw: Callable[[Qonnx], tuple[list[int], str]], seed: int, dyadic: bool
) -> None:
    s = Qonnx(seed + 100 * dyadic, dyadic)
    shape, output = draw(s)
    model = flow.read(s.written(tmp_path / "m.onnx", shape, output))
    network = flow.quantize(model)
    frames = s.draw.normal(0, 1.5, (FRAMES, *shape)).astype(np.float32)
    frames[0] = np.rint(frames[0])
    assert assert_golden_is_the_reference(model, network, frames) >= 2
    compared = compare(model, network, {"x": frames})
    assert compared.agreement.tensors_compared >= 3 and compared.agreement.worst <= 1


@pytest.mark.parametrize("draw", NETWORKS)
def test_the_circuit_does_what_golden_says(tmp_path: Path, draw: Callable[[Qonnx], tuple[list[int], str]]) -> None:
    s = Qonnx(50)
    shape, output = draw(s)
    assert_circuit_agrees(flow.quantize(flow.read(s.written(tmp_path / "m.onnx", shape, output))))
