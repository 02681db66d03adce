"""Next to an input or an output no frame is rearranged: the host sends and takes in an order that needs none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drawn_border_models import drawn_border
from onnx_hw import flow
from onnx_hw.network import Network, Node
from onnx_hw.ops.add import Add
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.rearrange import Rearrange
from onnx_hw.ops.requantize import Monotone
from onnx_hw.proof.compare import compare
from onnx_witness import assert_circuit_agrees, random_frames, write

ELEMENT_BY_ELEMENT = (Add, Lookup, Monotone, Multiply, Rearrange)


def next_to_the_border(network: Network) -> list[Node]:
    """Rearrangements between which and an input, or an output, no operator has an order of its own."""
    found: dict[str, Node] = {}
    reached = {boundary.tensor for boundary in network.inputs}
    for node in network.nodes:
        if isinstance(node.operator, ELEMENT_BY_ELEMENT) and reached.issuperset(node.inputs):
            reached.update(node.outputs)
            found[node.name] = node
    reached = {boundary.tensor for boundary in network.outputs}
    for node in reversed(network.nodes):
        if isinstance(node.operator, ELEMENT_BY_ELEMENT) and reached.issuperset(node.outputs):
            reached.update(tensor for tensor in node.inputs if len(network.consumers(tensor)) == 1)
            found[node.name] = node
    return [node for node in found.values() if isinstance(node.operator, Rearrange)]


def is_read_in_order(operator: Rearrange) -> bool:
    """Whether elements are read, for the first time, in the order in which they come."""
    read = operator.source[operator.source >= 0]
    first = np.unique(read, return_index=True)[1]
    return bool((np.diff(first) > 0).all())


def network_of(seed: int, folder: Path) -> Network:
    """Compared with the model, tensor by tensor."""
    drawn = drawn_border(seed)
    model = flow.read(write(drawn.sketch, folder / f"m{seed}.onnx", drawn.shapes, *drawn.outputs))
    network = flow.quantize(model)
    assert compare(model, network, random_frames(model, 2)).agreement.frames, drawn.told
    return network


@pytest.mark.parametrize("seeds", [range(k, k + 10) for k in range(0, 60, 10)])
def test_no_frame_is_rearranged_next_to_the_border(tmp_path: Path, seeds: range) -> None:
    for seed in seeds:
        network = network_of(seed, tmp_path)
        wrong = [node for node in next_to_the_border(network) if not is_read_in_order(node.operator)]
        assert not wrong, (seed, drawn_border(seed).told, wrong)


@pytest.mark.parametrize("seed", [1])
def test_in_the_circuit(tmp_path: Path, seed: int) -> None:
    assert_circuit_agrees(network_of(seed, tmp_path))
