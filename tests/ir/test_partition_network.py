"""A network cut in two: both parts are networks, and one after the other means what the whole does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.ir.partition_network import cut_network
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.lower.lower_model import import_model
from onnx_hw.messages.errors import UserError
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.schedule_network import schedule_network
from support.design_bench import Bench, assert_proven, every_tensor, random_frames, random_stall
from support.products import of_two_inputs, of_what_it_makes
from support.random_designs import chains, likenesses, residuals
from support.random_partitioned_models import Cut
from support.targets import ecp5_at


def edges(network: Network) -> list[str]:
    return [name for name in network.tensors if network.producer(name) and network.consumers(name)]


def one_after_the_other(network: Network, tensor: str, integers: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every tensor of both parts; the second one is given what the first one makes and the host sends."""
    first, second = (verify_network(part) for part in cut_network(network, tensor))
    assert sorted(node.name for node in (*first.nodes, *second.nodes)) == sorted(node.name for node in network.nodes)
    assert first.producer(tensor) is not None and second.producer(tensor) is None
    values = golden.trace(first, {b.tensor: integers[b.tensor] for b in first.inputs})
    return values | golden.trace(second, {b.tensor: (integers | values)[b.tensor] for b in second.inputs})


@settings(max_examples=25)
@given(st.one_of(chains(6, 200), residuals(5, 200), likenesses(5, 200)), st.integers(0, 99))
def test_any_network_at_every_edge(design: Design, seed: int) -> None:
    network, integers = design.network, random_frames(design, 2, seed)
    whole = every_tensor(network, integers)
    for tensor in edges(network):
        parts = one_after_the_other(network, tensor, integers)
        assert parts.keys() == whole.keys()
        for name, array in whole.items():
            np.testing.assert_array_equal(parts[name], array, err_msg=f"{name}, cut at {tensor}")


def test_any_model_at_every_edge_by_the_model_s_names(tmp_path: Path) -> None:
    """Head, handed values and tail included: frames go into the first part, its results into the second."""
    cuts = hosts = 0
    for seed in range(30):
        cut = Cut(seed)
        onnx.save(cut.model(), tmp_path / "m.onnx")
        network, frames = import_model(flow.read(tmp_path / "m.onnx")), cut.frames(2)
        whole = golden.run(network, frames)
        for tensor in edges(network):
            parts = cut_network(network, tensor)
            _assert_same(whole, parts, frames)
            for further in edges(parts[1])[:2]:
                _assert_same(whole, (parts[0], *cut_network(parts[1], further)), frames)
            cuts += 1
            hosts += bool(parts[0].handed and parts[0].head and parts[1].tail)
    assert cuts > 60 and hosts > 5, (cuts, hosts)


def _assert_same(whole: dict[str, np.ndarray], parts: tuple[Network, ...], frames: dict[str, np.ndarray]) -> None:
    for part in parts:
        frames = golden.run(part, {value.name: frames[value.name] for value in verify_network(part).arguments})
    assert list(frames) == list(whole)
    for name, array in whole.items():
        assert frames[name].dtype == array.dtype
        np.testing.assert_array_equal(frames[name], array, err_msg=name)


@pytest.mark.parametrize("network", [of_two_inputs(2), of_what_it_makes()])
def test_parts_are_circuits(network: Network) -> None:
    """Before the product of two tensors and behind it; what crosses is streamed out and in."""
    product = next(node for node in network.nodes if len(node.inputs) == 2)
    for part in cut_network(network, product.inputs[0]):
        design, _ = schedule_network(part, Budget(mac_lanes=12), target=ecp5_at(100))
        assert_proven(Bench(design).prove(random_stall(design, 2, 5), frames=2, seed=5))


@pytest.mark.parametrize("tensor", ["x", "nothing", "product4.o/q.o"])
def test_refuses_what_is_no_edge(tensor: str) -> None:
    network = of_what_it_makes()
    assert tensor not in edges(network)
    with pytest.raises(UserError, match=f"that one of its nodes makes and another one reads, not at `{tensor}`"):
        cut_network(network, tensor)
