"""Networks of real size, whole: MLPerf Tiny's, with drawn numbers, from the file to the circuit."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from support import mlperf_tiny

FRAMES = 2
AFTERWARDS = ["DequantizeLinear", "Softmax", "QuantizeLinear"]
SIMULATED = ("resnet8", "autoencoder")
"""The others, whose circuits are larger, and bitstreams: ``benchmarks/``."""


@cache
def network_of(name: str) -> Network:
    with TemporaryDirectory() as folder:
        return flow.quantize(flow.read(mlperf_tiny.write(name, Path(folder))))


def test_a_net_is_the_same_every_time() -> None:
    first, second = (mlperf_tiny.NETS["ds_cnn"].model().SerializeToString() for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", mlperf_tiny.NETS)
def test_all_but_softmax_is_hardware(name: str) -> None:
    network = network_of(name)
    assert sum(node.operator.macs for node in network.nodes) == mlperf_tiny.NETS[name].macs
    assert network.head is None
    tail = [node.op_type for node in network.tail.graph.nodes] if network.tail else []
    assert tail == ([] if name == "autoencoder" else AFTERWARDS)


@pytest.mark.parametrize("name", mlperf_tiny.NETS)
def test_data_neither_vanishes_nor_saturates(name: str) -> None:
    """At any depth frames differ, many values are not zero, and few lie at the ends of int8."""
    network = network_of(name)
    values = golden.trace(network, golden.integers_of(network, mlperf_tiny.NETS[name].frames(16)))
    for tensor, grid in network.grids.items():
        array, (zero,) = values[tensor], grid.zero_point
        assert ((array == 127) | ((array == -128) & (zero != -128))).mean() < 0.04, tensor
        assert (array != zero).mean() > 0.3, tensor
        assert array.std(axis=0).mean() > 1.5, tensor


@pytest.mark.slow(minutes=0.7)
@pytest.mark.parametrize("name", SIMULATED)
def test_every_value_and_every_firing_of_the_circuit(name: str) -> None:
    design = flow.schedule(network_of(name), multipliers=64)
    assert 40 <= design.resources().mac_lanes <= 64
    proof = flow.simulate(design, mlperf_tiny.NETS[name].frames(FRAMES))
    assert proof.agrees, [run.difference for run in proof.runs]
    assert proof.engine == "compiled" and proof.frames == FRAMES and len(proof.runs) == 3
    busiest = max(node.operator.cycles(design.folding(node)) for node in design.network.nodes)
    assert proof.runs[0].interval_cycles == busiest
