"""The critical path of a frame alone, in chains whose every cycle is known."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.insert_gearboxes import insert_gearboxes
from onnx_hw.timing.critical_path import busy_cycles
from onnx_hw.timing.prediction import Events
from support.hand_built_designs import Sketch


def spent(*lanes: int, rows: int = 1) -> tuple[dict[str, int], int]:
    """Return the critical cycles of products in a chain, by node, and the latency."""
    sketch = Sketch()
    x = sketch.input("x", Tensor((rows, 1, 8), Int(8)))
    for k, most in enumerate(lanes):
        operator = MatMul(sketch.tensors[x], np.ones((8, 8), dtype=np.int64))
        (x,) = sketch.add(f"core{k}", operator, [x], (most, 1), 64)
    sketched = sketch.design()
    design = Design(*insert_gearboxes(sketched.network, sketched.foldings), target=sketched.target)
    depths = {edge.tensor: 64 for edge in design.edges() if edge.producer}
    offers = {"x": np.zeros(design.edges()[0].beats, dtype=np.int64)}
    (times,) = deque(Events(design).solutions(1, offers=offers, depths=depths), maxlen=1)
    latency = max(int(time.cycles[-1]) for track, time in times.items() if track.name[0] == "sink") + 1
    return busy_cycles(times), latency


@pytest.mark.parametrize("lanes", [(1, 8), (8, 1), (2, 4, 1)])
def test_chain_of_vectors_is_spent_in_all_products(lanes: tuple[int, ...]) -> None:
    """Products that wait for their whole vector follow one another: their cycles add up, but for what travels."""
    busy, latency = spent(*lanes)
    for k, most in enumerate(lanes):
        assert 64 // most - 8 <= busy.get(f"core{k}", 0) <= 64 // most + 8
    assert latency - 24 * len(lanes) <= sum(busy.values()) <= latency


def test_slow_core_of_a_pipeline_has_the_path() -> None:
    """With many rows the slowest core is busy all the time, and the other one only once."""
    busy, latency = spent(1, 8, rows=16)
    assert busy["core0"] > latency * 9 // 10
    assert busy.get("core1", 0) < latency // 20
