"""FIFO sizes: a token less than ``rate_depth`` costs exactly what the law predicts; the chosen depths cost nothing."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node
from onnx.numpy_helper import from_array

from onnx_hw import flow
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design, FifoSize
from onnx_hw.ir.network import Network
from onnx_hw.ops.add import Add
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.requantize import Requantize
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from onnx_hw.prove.circuit.stalls import Stall
from onnx_hw.quantization.ranges.assume import assume_ranges
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.min_fifo_depths import FRAMES, SETTLED, least, part_of
from onnx_hw.schedule.schedule_network import schedule_network
from onnx_hw.schedule.size_fifos import RateByParts, affordable, size_fifos
from onnx_hw.timing.prediction import Events, predict
from support.design_bench import Bench, assert_proven
from support.hand_built_designs import Sketch
from support.onnx_files import model, value, write
from support.targets import ecp5_at

i8 = Int(8)

SIMULATED = 5
"""Edges whose shallower FIFO is simulated."""


def small_network() -> Network:
    """Conv, requantize, pool, dense: every kind of edge a chain has."""
    generator = np.random.default_rng(4)
    sketch = Sketch()
    x = sketch.input("x", Tensor((6, 5, 2), i8))

    def add(name: str, operator: object) -> str:
        (output,) = sketch.add(name, operator, [names[-1]], (1, 1), 1)  # type: ignore[arg-type]
        names.append(output)
        return output

    names = [x]
    add("window", Window(sketch.tensors[x], (3, 3), pads=(1, 1, 1, 1), pad_value=3))
    add("conv", MatMul(sketch.tensors[names[-1]], generator.integers(-90, 90, (6, 18))))
    add("quantize", Requantize(sketch.tensors[names[-1]], (Fraction(1, 777),), (Fraction(5),), Grid.over(i8)))
    add("pool", Pool(sketch.tensors[names[-1]], "max", (2, 2), (2, 2), pad_value=-128))
    add("flatten", Window(sketch.tensors[names[-1]], (3, 2)))
    add("dense", MatMul(sketch.tensors[names[-1]], generator.integers(-90, 90, (4, 36))))
    return sketch.design().network


def convolutions() -> Network:
    """Each 3 × 3 and then 1 × 1: many cores that can be equally busy, so that frames must wait between them."""
    generator = np.random.default_rng(4)
    sketch = Sketch()
    x = sketch.input("x", Tensor((9, 7, 2), i8))

    def product(name: str, x: str, outputs: int) -> str:
        tensor = sketch.tensors[x]
        (x,) = sketch.add(name, MatMul(tensor, generator.integers(-9, 9, (outputs, tensor.channels))), [x], (1, 1), 1)
        operator = Requantize(sketch.tensors[x], (Fraction(1, 77),), (Fraction(5),), Grid.over(i8))
        return sketch.add(f"{name}/q", operator, [x], (1, 1), 1)[0]

    for k, channels in enumerate((5, 7, 5)):
        window = Window(sketch.tensors[x], (3, 3), (1 + k % 2, 1 + k % 2), pads=(1, 1, 1, 1))
        (columns,) = sketch.add(f"window{k}", window, [x], (1, 1), 1)
        x = product(f"pixel{k}", product(f"conv{k}", columns, channels), channels)
    return sketch.design().network


@pytest.fixture(scope="module")
def design() -> Design:
    made, _ = schedule_network(small_network(), Budget(mac_lanes=14), target=ecp5_at(80))
    return made


def paced(design: Design, frames: int, interval: int) -> Stall:
    """Each input's tokens spread over the interval."""
    offers = {e.tensor: np.arange(frames * e.beats) * interval // e.beats for e in design.edges() if e.producer is None}
    return Stall("paced", offers, {})


def interval_of(design: Design) -> int:
    return max(node.operator.cycles(design.folding(node)) for node in design.network.nodes)


def with_depth(design: Design, tensor: str, depth: int) -> Design:
    """One edge of a depth, all others ample."""
    sizes = {e.tensor: FifoSize(FRAMES * e.beats, 1, 1) for e in design.edges() if e.producer}
    return replace(design, fifos={**sizes, tensor: FifoSize(depth, 1, 1)})


def test_every_size_is_in_order(design: Design) -> None:
    assert {e.tensor for e in design.edges() if e.producer} == set(design.fifos)
    assert all(1 <= size.live_depth <= size.rate_depth <= size.depth for size in design.fifos.values())
    assert any(size.rate_depth > 2 for size in design.fifos.values())


def test_chosen_depths_keep_the_interval_in_the_circuit(design: Design) -> None:
    interval = interval_of(design)
    run = Bench(design).prove(paced(design, FRAMES, interval), frames=FRAMES)
    assert_proven(run)
    assert run.interval_cycles == interval
    assert all(run.max_fill[tensor] <= size.depth for tensor, size in design.fifos.items())


def test_one_token_less_costs_exactly_what_is_predicted(design: Design) -> None:
    """Every edge whose rate_depth is not the least there is: by the law, and some of them in the circuit."""
    interval = interval_of(design)
    tried = 0
    for tensor, size in design.fifos.items():
        for depth in (size.rate_depth, size.rate_depth - 1):
            if depth < 1:
                continue
            changed = with_depth(design, tensor, depth)
            stall = paced(changed, FRAMES, interval)
            prediction = predict(changed, FRAMES + 1, offers=stall.offers)
            predicted, mean = prediction.interval(FRAMES), prediction.elapsed(SETTLED, FRAMES) / (FRAMES - SETTLED)
            assert (mean > interval) == (depth < size.rate_depth), tensor
            if depth < size.rate_depth and tried < SIMULATED:
                run = Bench(changed).prove(stall, frames=FRAMES)
                assert_proven(run)
                assert run.interval_cycles == predicted
                tried += 1
    assert tried >= 4


def test_trying_many_edges_at_once_chooses_what_one_by_one_would() -> None:
    """The widest stream first, each the least depth that costs what it holds, at which the interval is kept."""
    more = 0
    for lanes in range(8, 40, 4):
        design, _ = schedule_network(convolutions(), Budget(mac_lanes=lanes), target=ecp5_at(80))
        events, interval = Events(design), interval_of(design)
        edges = sorted((e for e in design.edges() if e.producer), key=lambda e: -e.bits)
        depths = {e.tensor: FRAMES * e.beats + 33 for e in edges}
        offers = paced(design, FRAMES, interval).offers
        for edge in edges:
            rate = design.fifos[edge.tensor].rate_depth
            for depth in (1, 2, 3, 5, 9, 17, 33, *(1 << k for k in range(6, 20))):
                tried = {**depths, edge.tensor: depth}
                if depth >= rate and events.sustains(interval, SETTLED, FRAMES, offers=offers, depths=tried):
                    break
            more += depth > affordable(rate)
            depths[edge.tensor] = depth
        assert depths == {tensor: size.depth for tensor, size in design.fifos.items()}, lanes
    assert more > 5, "edges in which a frame waits"


def test_where_branches_join_the_whole_design_is_asked_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each layer reads all before it. The ways between a fork and a join tell what a frame waits for in between them;
    with the whole design one depth after the other would be asked for.
    """
    nodes, weights, features = [], [], ["x"]
    for k in range(5):
        x = f"join{k}" if k else "x"
        if k:
            nodes.append(make_node("Concat", features, [x], axis=1))
        values = np.random.default_rng(k).normal(size=(4, 4 * len(features), 3, 3)) / 6
        weights.append(from_array(values.astype(np.float32), f"weights{k}"))
        nodes.append(make_node("Conv", [x, f"weights{k}"], [f"conv{k}"], pads=[1, 1, 1, 1]))
        nodes.append(make_node("Relu", [f"conv{k}"], [f"relu{k}"]))
        features.append(f"relu{k}")
    nodes.append(make_node("Concat", features, ["y"], axis=1))
    sides = {"inputs": [value("x", (1, 4, 8, 8))], "outputs": [value("y", (1, 24, 8, 8))]}
    network = flow.quantized(
        flow.read(write(tmp_path, model(nodes, constants=weights, **sides))), assume_ranges
    ).network
    asked: list[bool] = []
    original = RateByParts.keeps

    def keeps(self: RateByParts, *some: Any) -> bool:
        asked.append(original(self, *some))
        return asked[-1]

    monkeypatch.setattr(RateByParts, "keeps", keeps)
    design = flow.schedule(network, "ecp5")
    waits = [size for size in design.fifos.values() if size.depth > affordable(size.rate_depth)]
    assert len(waits) >= 10, "edges in which a frame waits for others"
    assert len(asked) <= 20


def test_a_skipping_branch_is_sized_for_the_long_one() -> None:
    """The short branch of a residual holds what the long one keeps back: live and at full rate, never less."""
    sketch = Sketch()
    x = sketch.input("x", Tensor((5, 5, 2), i8))
    near, far = sketch.add("fork", Fork(sketch.tensors[x]), [x], (2, 2), 1, 1)
    (far,) = sketch.add("window", Window(sketch.tensors[far], (3, 3), pads=(1, 1, 1, 1)), [far], (2, 18), 1)
    weights = np.random.default_rng(0).integers(-9, 9, (2, 18))
    (far,) = sketch.add("conv", MatMul(sketch.tensors[far], weights), [far], (18, 2), 1)
    sketch.add("add", Add(sketch.tensors[near], sketch.tensors[far]), [near, far], (2, 2), 1)
    design = size_fifos(sketch.design())
    interval = interval_of(design)
    size = design.fifos[near]
    assert size.live_depth > 1
    run = Bench(design).prove(paced(design, FRAMES, interval), frames=FRAMES)
    assert_proven(run)
    assert run.interval_cycles == interval
    short = replace(design, fifos={**design.fifos, near: replace(size, depth=size.live_depth - 1)})
    stopped = Bench(short).prove(paced(short, FRAMES, interval), frames=FRAMES)
    assert_proven(stopped, live=False)
    assert any(near in line for line in stopped.deadlock), stopped.deadlock


def test_the_least_number_is_found_from_any_guess() -> None:
    for first, last in combinations_with_replacement(range(9), 2):
        for answer in range(first, last + 1):
            for guess in (None, *range(last + 3)):
                asked: list[int] = []

                def holds(step: int, answer: int = answer, asked: list[int] = asked) -> bool:
                    asked.append(step)
                    return step >= answer

                assert least(holds, first, last, guess) == answer
                assert last not in asked and len(asked) == len(set(asked))
                if guess == answer:
                    assert len(asked) <= 2


def test_a_part_of_a_large_network_takes_little_memory() -> None:
    """Hundreds of parts are kept while FIFOs are sized; the streams of a part may have millions of elements."""
    sketch = Sketch()
    x = sketch.input("x", Tensor((300, 300, 4), i8))
    sketch.add("dense", MatMul(sketch.tensors[x], np.ones((3, 4), dtype=np.int64)), [x], (1, 1), 1)
    network = sketch.design().network
    tracemalloc.start()
    part = part_of(network, network.nodes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [boundary.tensor for boundary in (*part.inputs, *part.outputs)] == ["x", "dense.o"]
    assert peak < 100_000
