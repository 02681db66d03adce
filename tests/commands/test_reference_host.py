"""Hosts of two streams: what ``model.json`` holds as data, and what only the compiler computes, are golden's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx.helper import make_node

from onnx import TensorProto
from onnx_hw import flow
from onnx_hw.assemble.host_link import link_of
from onnx_hw.assemble.host_model_file import host_model
from onnx_hw.commands.reference_host import HostByReference
from onnx_hw.ir import golden
from onnx_hw_link.errors import LinkError
from onnx_hw_link.host_model import HostModel, in_turns
from support.onnx_files import model, tensor, value, write


@pytest.mark.parametrize("tail", ["Identity", "LogSoftmax"])
def test_frames_enter_and_leave_as_golden_has_them(tail: str, tmp_path: Path) -> None:
    """A float model's outputs are sums with scales of their own: a Cast, a Mul and an Add make them."""
    draw = np.random.default_rng(1)
    weights = [draw.normal(size=(6, 4)).astype(np.float32) for _ in range(2)]
    constants = [tensor(name, TensorProto.FLOAT, (6, 4), w.reshape(-1)) for name, w in zip("vw", weights, strict=True)]
    nodes = [
        make_node("MatMul", ["a", "v"], ["p"]),
        make_node("MatMul", ["b", "w"], ["q"]),
        make_node("Concat", ["p", "q"], ["s"], axis=1),
        make_node(tail, ["s"], ["y"]),
    ]
    sides = {"inputs": [value("a", (1, 6)), value("b", (1, 6))], "outputs": [value("y", (1, 8))]}
    frames = {name: draw.normal(size=(5, 1, 6)).astype(np.float32) for name in "ab"}
    path = write(tmp_path, model(nodes, constants=constants, **sides))
    network = flow.quantize(flow.read(path), frames)
    design = flow.schedule(network)
    link = link_of(design, 24)
    described = HostModel.of(json.loads(host_model(design, link, 10**6)))
    assert bool(described.elsewhere) == (tail == "LogSoftmax")
    host = HostByReference.with_(described, network)
    hosts = [host] if described.elsewhere else [host, described]
    if described.elsewhere:
        with pytest.raises(LinkError, match="the host must compute LogSoftmax `y`, for which onnx_hw has to be"):
            described.entering({name: array[0] for name, array in frames.items()})
    wanted, values = golden.run(network, frames), golden.trace(network, golden.integers_of(network, frames))
    edges = {edge.tensor: edge for edge in design.edges()}

    def beats(side: str, k: int) -> list[np.ndarray]:
        tensors = dict.fromkeys(boundary.tensor for boundary in getattr(network, side))
        return [edges[name].order.to_beats(values[name][k : k + 1]) for name in tensors]

    for k in range(5):
        for one in hosts:
            sent, known = one.entering({name: array[k] for name, array in frames.items()})
            assert sent == in_turns(link.inputs, link.input_turns, beats("inputs", k))
            found = one.leaving(in_turns(link.outputs, link.output_turns, beats("outputs", k)), known)
            assert np.array_equal(found["y"], wanted["y"][k])
