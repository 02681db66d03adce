"""Recurrent layers in integers: against onnxruntime's floats, over many steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from onnx_hw import flow
from onnx_hw.exact.integers import Int
from onnx_hw.ir import golden
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.loops import delayed_value, is_delay
from onnx_hw.onnx.graph.model import Model
from onnx_hw.prove.model.compare import compare
from onnx_hw.quantization.post_training import quantize_float_model, quantize_without_data
from onnx_hw.quantization.ranges.calibrate import SampleRanges
from onnx_hw.quantization.scheme import Scheme
from onnx_hw.samples.samples import one_frame
from support.onnx_oracle import assert_circuit_agrees, by_onnxruntime, random_frames, write
from support.qdq_models import Sketch
from support.recurrent_models import RecurrentNode

LEAST_DB = 30.0
"""Least SQNR over all steps."""

DRIFT_DB = 2.0
"""By how much the last eight steps may be worse than the first eight."""

KINDS = {
    "gru": RecurrentNode("GRU", 64, 6, 8, attributes={"linear_before_reset": 1}),
    "gru, reset before": RecurrentNode("GRU", 64, 6, 8, initial="constant"),
    "lstm": RecurrentNode("LSTM", 64, 6, 8),
    "rnn": RecurrentNode("RNN", 64, 6, 8),
}


def decibels(computed: np.ndarray, wanted: np.ndarray) -> float:
    return float(10 * np.log10(np.square(wanted).sum() / np.square(computed - wanted).sum()))


def random_sequences(node: RecurrentNode, count: int, seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {"x": generator.normal(size=(count, node.steps, node.batch, node.features)).astype(np.float32)}


@pytest.mark.parametrize("kind", KINDS)
def test_many_steps_in_integers_keep_their_accuracy(kind: str, tmp_path: Path):
    node = KINDS[kind]
    path = node.write(tmp_path)
    quantized = quantize_float_model(flow.read(path).frame.model, random_sequences(node, 8, 1))
    frames = random_sequences(node, 3, 2)
    wanted = by_onnxruntime(path, frames)["Y"]
    computed = np.stack([reference.run(quantized, one_frame(frames, k))["Y"] for k in range(3)])
    first, last = (decibels(computed[:, part], wanted[:, part]) for part in (slice(8), slice(-8, None)))
    assert decibels(computed, wanted) >= LEAST_DB
    assert last >= first - DRIFT_DB


def states_of(model: Model) -> dict[str, tuple[str, Int]]:
    """The type of the integers that each node delays, and the name of the delayed ones."""
    types = {"int8": Int(8), "int16": Int(16)}
    return {
        delayed_value(node): (node.outputs[0], types[model.graph.values[node.outputs[0]].element_type])
        for node in model.graph.nodes
        if is_delay(node)
    }


def test_a_state_has_8_bits_and_the_sum_of_an_lstm_16(tmp_path: Path):
    """With samples and with assumed ranges; the delayed integers are those of the state, with its scale."""
    node = RecurrentNode("LSTM", 5, 3, 4, initial="constant", outputs=("Y", "Y_c"))
    model = flow.read(node.write(tmp_path)).frame.model
    for quantized in (quantize_float_model(model, random_sequences(node, 4, 1)), quantize_without_data(model)):
        states = states_of(quantized)
        assert sorted(integer.bits for _, integer in states.values()) == [8, 16]
        readers = {n.inputs[0]: n for n in quantized.graph.nodes if n.op_type == "DequantizeLinear"}
        for state, (delayed, integer) in states.items():
            scales = [quantized.graph.constants[readers[name].inputs[1]] for name in (state, delayed)]
            assert scales[0] == scales[1]
            assert integer.bits == 16 or scales[0] == 1 / 128
        delays = [n for n in quantized.graph.nodes if is_delay(n)]
        assert all(quantized.graph.constants[n.inputs[0]].any() for n in delays)  # the initial state, rounded


def test_the_integers_of_a_loop_are_those_of_its_own_steps(tmp_path: Path):
    """What follows a loop must see its errors: the last product is chosen with the states that integers make."""
    node = RecurrentNode("GRU", 12, 4, 6)
    model = flow.read(node.write(tmp_path)).frame.model
    frames = random_sequences(node, 4, 3)
    floats, quantized = canonicalize(model), quantize_float_model(model, frames)
    exact = [reference.run(floats, one_frame(frames, k))["Y"] for k in range(4)]
    rounded = [reference.run(quantized, one_frame(frames, k))["Y"] for k in range(4)]
    assert 30 < decibels(np.stack(rounded), np.stack(exact)) < 60


@pytest.mark.parametrize("op_type", ["GRU", "LSTM", "RNN"])
def test_a_step_with_the_state_as_input_and_output(op_type: str, tmp_path: Path):
    """The host keeps the state between frames: 64 of them in integers, and in floats by onnxruntime."""
    node = RecurrentNode(
        op_type, 1, 6, 8, initial="input", outputs=("Y", "Y_h", "Y_c")[: 3 if op_type == "LSTM" else 2]
    )
    path = node.write(tmp_path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = ("h", "c")[: node.states]

    def run(count: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Inputs of all steps, and Y."""
        inputs, results = [], []
        states = [np.zeros(node.state_shape, np.float32)] * node.states
        for x in np.random.default_rng(seed).normal(size=(count, 1, 1, node.features)).astype(np.float32):
            inputs.append({"x": x, **dict(zip(names, states, strict=True))})
            y, *states = session.run(None, inputs[-1])
            results.append(y)
        return {name: np.stack([each[name] for each in inputs]) for name in inputs[0]}, np.stack(results)

    network = flow.quantize(flow.read(path), run(64, 1)[0])
    frames, wanted = run(64, 2)
    states, computed = {name: frames[name][:1] for name in names}, []
    for x in frames["x"]:
        outputs = golden.run(network, {"x": x[None], **states})
        states = {name: outputs[f"Y_{name}"] for name in names}
        computed.append(outputs["Y"][0])
    assert decibels(np.stack(computed), wanted) >= LEAST_DB
    assert decibels(np.stack(computed[-8:]), wanted[-8:]) >= LEAST_DB
    assert_circuit_agrees(network)


@pytest.mark.parametrize(("op_type", "direction"), [("GRU", "reverse"), ("RNN", "bidirectional")])
def test_golden_is_the_model_in_integers(op_type: str, direction: str, tmp_path: Path):
    """Every value that golden and the quantized model share, the delayed states among them."""
    node = RecurrentNode(op_type, 6, 3, 4, direction, initial="constant", outputs=("Y", "Y_h"))
    model = flow.read(node.write(tmp_path))
    frames = random_sequences(node, 4, 5)
    quantized = flow.quantized(model, SampleRanges(frames))
    assert sum(other.operator.feedback != () for other in quantized.network.nodes) == node.directions
    agreement = compare(quantized.model, quantized.network, frames, quantized.floats).agreement
    assert agreement.frames == 4 and agreement.worst <= 1 and agreement.values_compared - agreement.equal < 10


@pytest.mark.parametrize(("op_type", "direction"), [("GRU", "forward"), ("RNN", "bidirectional")])
def test_the_circuit_of_a_loop(op_type: str, direction: str, tmp_path: Path):
    """One cell computes all steps, several frames behind each other, under stalls."""
    node = RecurrentNode(op_type, 3, 2, 2, direction, initial="constant", outputs=("Y", "Y_h"))
    model = flow.read(node.write(tmp_path))
    network = flow.quantize(model, random_sequences(node, 4, 6), Scheme())
    assert len(network.loops) == node.directions
    assert_circuit_agrees(network)


@pytest.mark.parametrize(("op_type", "direction"), [("GRU", "forward"), ("LSTM", "forward"), ("RNN", "bidirectional")])
def test_several_sequences_take_turns(op_type: str, direction: str, tmp_path: Path):
    """Each is a column of the image whose rows are the steps."""
    node = RecurrentNode(op_type, 4, 3, 2, direction, initial="constant", outputs=("Y", "Y_h"), batch=3)
    path, frames = node.write(tmp_path), random_sequences(node, 16, 6)
    network = flow.quantize(flow.read(path), frames)
    assert len(network.loops) == node.directions
    computed = golden.run(network, frames)
    for name, wanted in by_onnxruntime(path, frames).items():
        assert decibels(computed[name], wanted) > LEAST_DB
    assert_circuit_agrees(network)


def test_a_convolution_in_front_of_a_loop(tmp_path: Path):
    """Its results lie in one row of an image; the steps of a loop are rows of their own."""
    s, generator = Sketch(opset=17), np.random.default_rng(7)
    filters, data, state, last = (
        s.constant(generator.normal(0, 0.4, shape).astype(np.float32))
        for shape in ((3, 2, 3), (1, 4, 3), (1, 4, 4), (4, 2))
    )
    signal = s.node("Relu", s.node("Conv", "x", filters, pads=[1, 1]))
    states = s.node("RNN", s.node("Transpose", signal, perm=[2, 0, 1]), data, state, hidden_size=4)
    output = s.node("MatMul", states, last)
    path = write(s, tmp_path / "m.onnx", {"x": [1, 2, 6]}, output)
    frames = random_frames(flow.read(path), 32)
    network = flow.quantize(flow.read(path), frames)
    assert len(network.loops) == 1
    assert decibels(golden.run(network, frames)[output], by_onnxruntime(path, frames)[output]) >= LEAST_DB
    assert_circuit_agrees(network)
