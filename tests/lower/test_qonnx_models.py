"""Real models of QONNX, Brevitas and FINN: golden against what qonnx made of the same inputs, and the reference."""

from __future__ import annotations

import numpy as np
import pytest

from lower.test_qonnx_networks import in_double
from onnx_hw import flow
from onnx_hw.commands.check import check_hardware
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of
from onnx_hw.prove.model.known_values import known_values
from onnx_hw.runtime.options import BuildOptions
from support import fixture_paths

NAMES = (
    "finn_tfc_w1a1_multithreshold",
    "qonnx_bnn_fc_1layer",
    "qonnx_espcn_subpixel_16",
    "qonnx_jettagging_w6a6",
    "qonnx_separable_chlast_32",
    "qonnx_tfc_w1a1",
    "qonnx_tfc_w2a2",
)
FRAMES = 4


def frames_of(model: Model, given: np.ndarray) -> np.ndarray:
    """``FRAMES`` inputs: those that come with a model, and more with the same numbers in other places."""
    generator = np.random.default_rng(0)
    more = [generator.permutation(given[0].reshape(-1)).reshape(given[0].shape) for _ in range(FRAMES - len(given))]
    return np.concatenate([given, np.stack(more)]) if more else given[:FRAMES]


@pytest.mark.parametrize("name", NAMES)
def test_golden_is_what_qonnx_computes(name: str) -> None:
    """The outputs, and in double precision every integer behind a quantizer."""
    folder = fixture_paths.model(name)
    model = flow.read(folder / "model.onnx")
    with np.load(folder / "inputs.npz") as inputs, np.load(folder / "outputs.npz") as outputs:
        given, wanted = dict(inputs), dict(outputs)
    network = flow.quantize(model, given)
    for output, array in golden.run(network, given).items():
        apart = np.abs(array - wanted[output]) > 1e-5 * np.maximum(1, np.abs(wanted[output]))
        assert apart.sum() <= apart.size * 1e-4, output  # float32 falls to the other side of a tie
    ((source, array),) = given.items()
    assert_integers_are_those_of_the_reference(model, network, source, frames_of(model, array))
    assert check_hardware(BuildOptions(model=folder / "model.onnx")) is None


def assert_integers_are_those_of_the_reference(model: Model, network: Network, source: str, frames: np.ndarray) -> None:
    quantizers = {name for node in model.graph.nodes if facts_of(node).effect is Effect.SNAPS for name in node.outputs}
    lines = {held.onnx_name: held.line for held in network.held if held.line is not None}
    assert lines and lines.keys() <= quantizers
    for frame in frames:
        computed, known = in_double(model, {source: frame}), known_values(network, {source: frame})
        for name, (slope, offset) in lines.items():
            exact = np.rint((computed[name] - offset) / slope)
            assert np.array_equal(exact, np.rint((known.held[name] - offset) / slope)), name
