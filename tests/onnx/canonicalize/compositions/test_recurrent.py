"""RNN, GRU and LSTM as loops of ordinary operators: against the operators themselves, and onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import onnx
from onnx_hw import flow
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.loops import delayed_values, is_delay, loops_of
from onnx_hw.onnx.graph.model import Model
from onnx_hw.samples.samples import one_frame
from support.onnx_oracle import by_onnxruntime, random_frames
from support.recurrent_models import RecurrentNode, recurrent_nodes


def both(path: Path) -> tuple[Model, Model]:
    model = flow.read(path)
    return model, canonicalize(model.frame.model)


@settings(max_examples=25)
@given(recurrent_nodes())
def test_the_loop_computes_what_the_operator_does(tmp_path_factory: pytest.TempPathFactory, node: RecurrentNode):
    model, canonical = both(node.write(tmp_path_factory.mktemp("recurrent")))
    assert all(other.op_type not in ("RNN", "GRU", "LSTM") for other in canonical.graph.nodes)
    assert (node.steps if node.valid is None else node.valid) == 1 or any(map(is_delay, canonical.graph.nodes))
    frames = random_frames(model, 2)
    for k in range(2):
        wanted, computed = (reference.run(m, one_frame(frames, k)) for m in (model, canonical))
        for name, array in wanted.items():
            np.testing.assert_allclose(computed[name], array, atol=2e-6, rtol=2e-5)


@settings(max_examples=12)
@given(recurrent_nodes(activations=False))
def test_the_loop_computes_what_onnxruntime_does(tmp_path_factory: pytest.TempPathFactory, node: RecurrentNode):
    if node.layout or (node.valid is not None and node.direction != "forward"):
        return  # onnxruntime has no layout 1, and leaves the rest of a shorter reverse sequence undefined
    path = node.write(tmp_path_factory.mktemp("recurrent"))
    model, canonical = both(path)
    frames = random_frames(model, 2)
    for name, arrays in by_onnxruntime(path, frames).items():
        for k in range(2):
            computed = reference.run(canonical, one_frame(frames, k))[name]
            np.testing.assert_allclose(computed, arrays[k], atol=2e-6, rtol=2e-5)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("initial", ["none", "constant", "input"])
@pytest.mark.parametrize("op_type", ["GRU", "LSTM"])
def test_several_sequences_in_front_of_time(op_type: str, direction: str, initial: str, tmp_path: Path):
    """A model of one frame has one of them; here all of them are one frame."""
    names = ("Y", "Y_h", "Y_c")[: 3 if op_type == "LSTM" else 2]
    node = RecurrentNode(op_type, 4, 3, 2, direction, layout=1, initial=initial, outputs=names, batch=3)
    model = flow.read(node.write(tmp_path))
    canonical, frame = canonicalize(model), one_frame(random_frames(model, 1), 0)
    assert any(map(is_delay, canonical.graph.nodes))
    computed = reference.run(canonical, frame)
    for name, array in reference.run(model, frame).items():
        np.testing.assert_allclose(computed[name], array, atol=2e-6, rtol=2e-5)


def test_two_states_are_one_loop_and_two_directions_are_two(tmp_path: Path):
    node = RecurrentNode("LSTM", 5, 3, 2, "bidirectional", initial="input")
    nodes = both(node.write(tmp_path))[1].graph.nodes
    loops = {id(loop): loop for loop in loops_of(nodes).values()}.values()
    assert [len(loop.delays) for loop in loops] == [2, 2]
    for loop in loops:
        assert delayed_values(loop.delays) <= set(loop.results)
        places = [nodes.index(other) for other in (*loop.delays, *loop.nodes)]
        assert places == list(range(places[0], places[0] + len(places)))  # a loop stands together


def test_a_replaced_state_is_what_the_next_step_gets(tmp_path: Path):
    """As the comparison of golden with the model replaces values: the loop then needs no run."""
    canonical = both(RecurrentNode("RNN", 4, 3, 2).write(tmp_path))[1]
    (delay,) = filter(is_delay, canonical.graph.nodes)
    state, frame = delay.attributes["of"], one_frame(random_frames(canonical, 1), 0)
    instead = {state: np.full((4, 1, 2), 0.5, np.float32)}
    seen: dict[str, np.ndarray] = {}
    reference.run(canonical, frame, observe=seen.__setitem__, instead=instead)
    np.testing.assert_array_equal(seen[delay.outputs[0]], [[[0.0, 0.0]], *[[[0.5, 0.5]]] * 3])
    free = reference.run(canonical, frame, outputs=[state])[state]
    assert not np.allclose(seen[state], free)  # computed of the replaced states


@pytest.mark.parametrize("node", [RecurrentNode("GRU", 3, 2, 2), RecurrentNode("LSTM", 3, 2, 2, layout=1)])
def test_weights_that_are_not_constant_stay(node: RecurrentNode, tmp_path: Path):
    proto = node.model()
    weights = next(tensor for tensor in proto.graph.initializer if tensor.name == "R")
    proto.graph.initializer.remove(weights)
    proto.graph.input.append(onnx.helper.make_tensor_value_info("R", onnx.TensorProto.FLOAT, weights.dims))
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    assert [other.op_type for other in both(path)[1].graph.nodes] == [node.op_type]
