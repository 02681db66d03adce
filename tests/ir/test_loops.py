"""Loops of a network: what they mean row by row, in which order, and which of them are refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ir.golden import trace
from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.previous_step import PreviousStep
from onnx_hw.ops.sliding import Sliding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.insert_forks import insert_forks
from support.random_cases import many
from support.random_loops import STATE, plain_cell, recurrent_networks, summed_cell

X = Tensor((5, 1, 2), Int(4))
WEIGHTS = np.array([[1, -2, 3, 1, 0], [2, 1, -1, 0, -3], [-1, 1, 0, 2, 2]])
INITIAL = np.array([[3, -2, 1]])


def cell() -> Network:
    return plain_cell(X, INITIAL, WEIGHTS, 3)


@pytest.mark.parametrize("make", [plain_cell, summed_cell])
def test_golden_is_the_recurrence(make: object) -> None:
    """Step by step in fractions, each frame from the initial state on."""
    network = make(X, INITIAL, WEIGHTS, 3)  # type: ignore[operator]
    x = np.random.default_rng(0).integers(-8, 8, (3, *X.shape))
    states = trace(verify_network(network), {"x": x})["h"]
    for frame in range(3):
        h = INITIAL[0]
        for step in range(5):
            sums = WEIGHTS @ np.concatenate([x[frame, step, 0], h])
            exact = [round(Fraction(int(total), 3) + Fraction(1, 3)) for total in sums]
            h = np.clip(exact, STATE.min, STATE.max)
            assert states[frame, step, 0].tolist() == h.tolist()


def test_every_frame_begins_with_its_own_state() -> None:
    network = plain_cell(X, Tensor((1, 1, 3), STATE), WEIGHTS, 3)
    x, first = np.zeros((2, *X.shape), np.int64), np.array([INITIAL, -INITIAL]).reshape(2, 1, 1, 3)
    values = trace(verify_network(network), {"x": x, "first": first})
    for frame, initial in enumerate((INITIAL, -INITIAL)):
        alone = trace(plain_cell(X, initial, WEIGHTS, 3), {"x": x[:1]})
        np.testing.assert_array_equal(values["h"][frame], alone["h"][0])


@many
@given(recurrent_networks(), st.integers(0, 99))
def test_forks_keep_the_meaning(network: Network, seed: int) -> None:
    """Every tensor of a drawn cell lies in its range, and is the operator's own of its operands."""
    generator, entries = np.random.default_rng(seed), network.entries.items()
    ends = {name: generator.integers(*tensor.range, (2, *tensor.shape), endpoint=True) for name, tensor in entries}
    values, forked = trace(network, ends), trace(insert_forks(network), ends)
    for name, array in values.items():
        low, high = network.tensors[name].range
        assert low <= array.min() <= array.max() <= high
        np.testing.assert_array_equal(array, forked[name])
    for node in network.nodes:
        results = node.operator.golden(*(values[name] for name in node.inputs))
        np.testing.assert_array_equal(results[0], values[node.outputs[0]])


def test_what_lies_on_a_loop_is_known() -> None:
    one, other = cell().loops[0], summed_cell(X, INITIAL, WEIGHTS, 3).loops[0]
    assert [node.name for node in one] == ["previous", "joined", "product", "h"]
    assert [node.name for node in other] == ["previous", "of_h", "sum", "h"], "the product of x is not on it"


def test_a_loop_is_computed_when_all_that_it_reads_is_there() -> None:
    """``of_x`` stands between the nodes of the loop, and so does a reader of the loop before its last node."""
    network = summed_cell(X, INITIAL, WEIGHTS, 3)
    table = Lookup(network.tensors["sum"], np.zeros((1, np.ptp(network.tensors["sum"].range) + 1), np.int64), Int(2))
    reader = NetworkNode("reader", table, ("sum",), ("zeros",))
    nodes = (*network.nodes[:-1], reader, network.nodes[-1])
    leaves = replace(network.outputs[0], tensor="zeros", onnx_name="zeros")
    network = verify_network(replace(network, nodes=nodes, outputs=(*network.outputs, leaves)))
    assert [group[0].name for group in network.groups] == ["of_x", "previous", "reader"]
    assert not trace(network, {"x": np.zeros((1, *X.shape), np.int64)})["zeros"].any()


def test_a_node_on_a_loop_must_work_row_by_row() -> None:
    state = Tensor((4, 1, 1), Int(4))
    pool = Pool(state, "max", (3, 1), (1, 1), (1, 0, 1, 0))
    assert isinstance(pool.sliding, Sliding)
    nodes = (
        NetworkNode("before", PreviousStep(state, np.array([[0]])), ("h",), ("p",)),
        NetworkNode("pool", pool, ("p",), ("h",)),
    )
    broken = replace(
        cell(), nodes=nodes, entries={}, inputs=(), outputs=(replace(cell().outputs[0], order=np.arange(4)),)
    )
    with pytest.raises(UserError, match=r"must give each row before it takes the next one; .* wait for itself"):
        verify_network(replace(broken, outputs=(replace(broken.outputs[0], onnx_shape=(1, 4, 1, 1)),)))


def test_only_a_feedback_input_leads_back() -> None:
    network = cell()
    first, *others = network.nodes
    with pytest.raises(UserError, match="`previous`, which makes it, stands later"):
        verify_network(replace(network, nodes=(*others, first)))
    renamed = replace(first, inputs=("nowhere",))
    with pytest.raises(UserError, match="nothing makes it"):
        verify_network(replace(network, nodes=(renamed, *others)))
