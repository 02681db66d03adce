"""Step functions on loops: the integers stay, with fewer cores, and the circuit computes them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.lower import lower_model
from onnx_hw.lower.join_steps import with_joined_steps
from onnx_hw.ops.requantize import Monotone, Requantize
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.schedule_network import schedule_network
from support.design_bench import assert_proven, prove
from support.random_loops import summed_cell
from support.recurrent_models import RecurrentNode
from support.targets import ecp5_at


def functions_on_loops(network: Network) -> list[NetworkNode]:
    return [node for loop in network.loops for node in loop if isinstance(node.operator, Monotone)]


@pytest.mark.parametrize(("op_type", "fewer"), [("GRU", 4), ("LSTM", 4)])
def test_a_cell_has_fewer_cores_and_the_same_integers(
    op_type: str, fewer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = RecurrentNode(op_type, 4, 2, 4, attributes={"linear_before_reset": 1} if op_type == "GRU" else {}).write(
        tmp_path
    )
    frames = {"x": np.random.default_rng(0).normal(0, 1, (8, 4, 1, 2)).astype(np.float32)}
    joined = flow.quantize(flow.read(path), frames)
    with monkeypatch.context() as patch:
        patch.setattr(lower_model, "with_joined_steps", lambda network: network)
        plain = flow.quantize(flow.read(path), frames)
    assert len(functions_on_loops(plain)) == len(functions_on_loops(joined)) + fewer
    inputs = {
        boundary.tensor: np.random.default_rng(1).integers(-128, 128, (5, *plain.tensors[boundary.tensor].shape))
        for boundary in plain.inputs
    }
    expected, values = golden.trace(plain, inputs), golden.trace(joined, inputs)
    assert {b.onnx_name for b in joined.outputs} == {b.onnx_name for b in plain.outputs}
    for tensor in values.keys() & expected.keys():
        assert (values[tensor] == expected[tensor]).all(), tensor
    assert set(joined.grids) <= set(joined.tensors) and {b.tensor for b in joined.held} <= set(joined.tensors)
    design, _ = schedule_network(joined, Budget(mac_lanes=12), target=ecp5_at(50))
    assert_proven(prove(design, frames=3, stalls=True))


def with_steps(network: Network, *after: Requantize) -> Network:
    """Return a network whose last node is followed by more step functions, which its loop passes, too."""
    *nodes, last = network.nodes
    (tensor,) = last.outputs
    names = [*(f"step{k}" for k in range(len(after))), tensor]
    nodes.append(replace(last, outputs=(names[0],)))
    for k, operator in enumerate(after):
        nodes.append(NetworkNode(f"step {k}", operator, (names[k],), (names[k + 1],)))
    return verify_network(replace(network, nodes=tuple(nodes)))


def cell() -> tuple[Network, Tensor]:
    weights = np.random.default_rng(0).integers(-3, 4, (4, 6))
    network = summed_cell(Tensor((3, 1, 2), Int(4)), np.zeros((1, 4), np.int64), weights, 3)
    assert isinstance(network.nodes[-1].operator, Monotone)
    return network, network.tensors[network.nodes[-1].outputs[0]]


def step(operand: Tensor, slope: Fraction, grid: Grid) -> Requantize:
    return Requantize(operand, (slope,), (Fraction(0),), grid)


def test_a_function_that_other_cores_read_too_stays() -> None:
    network, tensor = cell()
    same = step(tensor, Fraction(1), Grid.over(tensor.dtype))
    longer = with_steps(network, same)
    assert len(with_joined_steps(longer).nodes) < len(longer.nodes)
    tensors = {node.outputs[0] for node in with_joined_steps(longer).nodes}
    assert longer.nodes[-1].outputs[0] in tensors
    outputs = (*longer.outputs, replace(longer.outputs[0], tensor="step0", onnx_name="other"))
    leaving = replace(longer, outputs=outputs, results=())
    assert "step0" in {name for node in with_joined_steps(leaving).nodes for name in node.outputs}


def test_a_function_of_another_type_is_not_taken_for_the_same() -> None:
    network, tensor = cell()
    halved = step(tensor, Fraction(1, 2), Grid.over(tensor.dtype))
    longer = with_steps(network, halved)
    joined = with_joined_steps(longer)
    inputs = {
        b.tensor: np.random.default_rng(2).integers(-8, 8, (3, *longer.tensors[b.tensor].shape)) for b in longer.inputs
    }
    expected, values = golden.trace(longer, inputs), golden.trace(joined, inputs)
    for tensor_name in values.keys() & expected.keys():
        assert (values[tensor_name] == expected[tensor_name]).all(), tensor_name


def test_functions_beside_loops_stay() -> None:
    network, _ = cell()
    (entry,) = network.entries.values()
    same = step(entry, Fraction(1), Grid.over(entry.dtype))
    (boundary,) = network.inputs
    first = NetworkNode("same", same, (boundary.tensor,), ("same",))
    nodes = (
        replace(node, inputs=tuple("same" if name == boundary.tensor else name for name in node.inputs))
        for node in network.nodes
    )
    longer = verify_network(replace(network, nodes=(first, *nodes)))
    assert "same" in {node.name for node in with_joined_steps(longer).nodes}
