"""Residual networks, scheduled as users' models are: live and at full rate at the computed depths, under every stall.

Below ``live_depth`` they stop, and the deadlock is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.quantized_add import separate
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Boundary, Network
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.add import Add
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.requantize import Requantize, Staircase
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from onnx_hw.prove.circuit.prove import difference_error
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.schedule_network import schedule_network
from onnx_hw.schedule.size_fifos import size_fifos
from onnx_hw.timing.prediction import BlockedEngine, predict
from support import qdq_models
from support.design_bench import Bench, assert_proven, no_stall, random_stall
from support.hand_built_designs import Sketch
from support.targets import ecp5_at

IMAGE = Tensor((4, 3, 2), Int(4))


class Residuals(Sketch):
    """Blocks on images of four-bit integers."""

    def step(self, x: str) -> str:
        """A window slides over the image: two rows are held back."""
        pool = Pool(self.tensors[x], "max", (3, 3), pads=(1, 1, 1, 1))
        return self.add(f"pool{len(self.nodes)}", pool, [x], (1, 1), 1)[0]

    def conv(self, x: str) -> str:
        """A convolution and its requantization, whose circuit uses its multipliers over and over."""
        name, tensor = f"conv{len(self.nodes)}", self.tensors[x]
        window = Window(tensor, (3, 3), pads=(1, 1, 1, 1))
        (columns,) = self.add(f"{name}/window", window, [x], (1, 1), 1)
        weights = np.random.default_rng(0).integers(-3, 4, (tensor.channels, window.elements))
        (sums,) = self.add(name, MatMul(window.results()[0], weights), [columns], (1, 1), 1)
        requantize = Requantize(self.tensors[sums], (Fraction(1, 9),), (Fraction(0),), Grid.over(Int(4)))
        return self.add(f"{name}/q", requantize, [sums], (1, 1), 1)[0]

    def chain(self, x: str, steps: int) -> str:
        for _ in range(steps):
            x = self.step(x)
        return x

    def sum(self, a: str, b: str, sign: int = 1) -> str:
        """``0.3·a ± 0.5·b``, quantized."""
        one, other = self.tensors[a], self.tensors[b]
        slopes = (Fraction(3, 10), sign * Fraction(1, 2))
        weighted = separate(slopes, Fraction(0), (one.range, other.range), Grid.over(Int(4), zero_point=1))
        name = f"sum{len(self.nodes)}"
        (total,) = self.add(name, Add(one, other, weighted.factors), [a, b], (1, 1), 1)
        return self.add(f"{name}/q", Staircase(self.tensors[total], weighted.exact, Int(4)), [total], (1, 1), 1)[0]

    def scheduled(self, *outputs: str, lanes: int | None = None) -> Design:
        """The design: forks, foldings, gearboxes and FIFO depths by the passes."""

        def boundary(name: str) -> Boundary:
            tensor = self.tensors[name]
            return Boundary(name, name, (1, *tensor.shape), np.dtype(np.int64), np.arange(tensor.size))

        network = Network(
            "residual",
            tuple(self.nodes),
            {name: self.tensors[name] for name in self.inputs},
            tuple(map(boundary, self.inputs)),
            tuple(map(boundary, outputs)),
        )
        return schedule_network(network, Budget(mac_lanes=lanes), target=ecp5_at(100))[0]


def one_long_branch() -> Design:
    """A skip around six windows."""
    net = Residuals()
    x = net.input("x", IMAGE)
    return net.scheduled(net.sum(x, net.chain(x, 6)))


def nested_branches() -> Design:
    """Blocks inside the branch of a block, and a subtraction."""
    net = Residuals()
    x = net.input("x", IMAGE)
    first = net.conv(x)
    inner = net.sum(first, net.chain(first, 2))
    innermost = net.sum(net.step(inner), inner, sign=-1)
    return net.scheduled(net.sum(innermost, x), lanes=4)


def a_branch_to_an_output() -> Design:
    """A tensor inside the branch is an output, and so is the sum, which is read on."""
    net = Residuals()
    x = net.input("x", IMAGE)
    inside = net.step(x)
    total = net.sum(inside, net.step(net.conv(inside)))
    return net.scheduled(net.step(total), inside, total, lanes=6)


DESIGNS = [one_long_branch, nested_branches, a_branch_to_an_output]


@pytest.mark.parametrize("build", DESIGNS)
def test_live_and_at_full_rate_at_the_computed_depths(build: Callable[[], Design]) -> None:
    design = build()
    bench = Bench(design)
    run = bench.prove(no_stall(design, 5), frames=5)
    assert_proven(run)
    assert run.interval_cycles == max(node.operator.cycles(design.folding(node)) for node in design.network.nodes)
    assert_proven(bench.prove(random_stall(design, 2, seed=1), frames=2, seed=1))


@pytest.mark.parametrize("build", DESIGNS)
def test_below_the_live_depth_the_deadlock_is_told(build: Callable[[], Design]) -> None:
    """With ample room everywhere else, the skip that must hold most lives at its live depth and not below."""
    design = build()
    tensor, size = max(design.fifos.items(), key=lambda item: item[1].live_depth)
    assert size.live_depth > 4
    ample = {name: replace(size, depth=200) for name, size in design.fifos.items()}
    for depth in (size.live_depth, size.live_depth - 1):
        tight = replace(design, fifos={**ample, tensor: replace(size, depth=depth)})
        run = Bench(tight).prove(no_stall(tight, 2), frames=2)
        assert_proven(run, live=False)
        assert bool(run.deadlock) == (depth < size.live_depth)
    assert run.cycles < 5000
    assert any(f"for room on {tensor}" in line for line in run.deadlock)


@pytest.mark.parametrize("build", DESIGNS)
def test_a_cut_below_the_live_depth_is_refused_and_diagnosed_when_forced(build: Callable[[], Design]) -> None:
    """Each edge that must hold something, cut by one: the needed depth is told; forced, the circle that closes."""
    design = build()
    unsized = replace(design, fifos={})
    edges = {edge.tensor: edge for edge in design.edges()}
    held = [(tensor, size) for tensor, size in design.fifos.items() if size.live_depth > 1]
    assert held
    for tensor, size in held:
        cut = {tensor: size.live_depth - 1}
        with pytest.raises(UserError) as refused:
            size_fifos(unsized, cut)
        (problem,) = refused.value.problems
        told = f"`{tensor}` must hold at least {size.live_depth} tokens, not {size.live_depth - 1}:"
        assert problem.code == "fifo-too-shallow" and told in problem.message
        producer, consumer = (end and end[0] for end in (edges[tensor].producer, edges[tensor].consumer))
        assert f"`{producer}`" in problem.where and f"`{consumer}`" in problem.where
        size_fifos(unsized, {tensor: size.live_depth})
        forced = size_fifos(unsized, cut, force=True)
        assert forced.fifos[tensor].depth == size.live_depth - 1
        waits = predict(forced, 3, offers=no_stall(forced, 2).offers)
        assert any(f"for room on {tensor}" in str(wait) for wait in waits.circle())
        if tensor not in (held[0][0], held[-1][0]):
            continue  # two of them in the circuit
        run = Bench(forced).prove(no_stall(forced, 2), frames=2)
        assert_proven(run, live=False)
        assert run.deadlock == tuple(map(str, waits.circle()))
        assert all(after.name in wait.whom for wait, after in zip(waits.circle(), rotated(waits.circle()), strict=True))
        last_firing = max(int(fires[-1]) for fires in waits.fires.values() if len(fires))
        assert run.cycles <= last_firing + 5000


def rotated(circle: tuple[BlockedEngine, ...]) -> tuple[BlockedEngine, ...]:
    """Whom each member waits for: the next one, and the last for the first."""
    assert circle
    return (*circle[1:], circle[0])


def test_a_forced_deadlock_is_told_by_the_compiled_simulation() -> None:
    """As a user of the library sees it."""
    design = one_long_branch()
    tensor, size = max(design.fifos.items(), key=lambda item: item[1].live_depth)
    proof = flow.simulate(size_fifos(replace(design, fifos={}), {tensor: size.live_depth - 1}, force=True))
    assert not proof.agrees
    assert all(any(f"for room on {tensor}" in line for line in run.deadlock) for run in proof.runs)
    (problem, *_) = difference_error(proof).problems
    assert problem.code == "deadlock" and f"for room on {tensor}" in problem.message


def test_a_quantized_model_as_a_circuit(tmp_path: Path) -> None:
    """Eight bits and odd scales: weighted sums and a search of thresholds; the input is read twice."""
    model = qdq_models.Sketch()
    x = model.through_integers("x", 0.0213, 3)
    weights = np.random.default_rng(0).integers(-127, 128, (2, 2, 3, 3)).astype(np.int8)
    y = model.node("Conv", x, model.dequantized(weights, [0.01]), pads=[1, 1, 1, 1])
    y = model.node("Sub", model.through_integers(y, 0.0317, -4), x)
    y = model.through_integers(model.node("Relu", y), 0.0291, -128)
    network = flow.quantize(flow.read(model.write(tmp_path / "m.onnx", [1, 2, 4, 3], y)))
    design = flow.schedule(network, multipliers=6)
    (staircase,) = (node.operator for node in design.network.nodes if isinstance(node.operator, Staircase))
    assert isinstance(staircase.circuit, MultiplyAddShift)  # a line: no search among thresholds
    bench = Bench(design)
    for seed in range(2):
        assert_proven(bench.prove(random_stall(design, 3, seed), frames=3, seed=seed))
