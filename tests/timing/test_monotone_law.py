"""The law is monotone: who offers later, or is ready less often, never makes anything happen earlier.

So one solution with the latest offers that a memory may make bounds every frame.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Delays, Design
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.tensor import Tensor
from onnx_hw.timing.prediction import predict
from support.design_bench import random_stall
from support.hand_built_designs import Sketch
from support.outer_sum_operator import BITS, OuterSum
from support.random_designs import chains, residuals
from support.recurrence import Recurrence

FRAMES = 3


@st.composite
def joined(draw: st.DrawFn) -> Design:
    """A core with two shared buffers and one that needs its own results, on two copies of an input, some far away."""
    pixels, depths = draw(st.integers(1, 6)), st.integers(1, 12)
    x = Tensor((1, pixels, 1), Int(BITS))
    sketch = Sketch()
    copies = sketch.add("fork", Fork(x), [sketch.input("x", x)], (1, 1), draw(depths), draw(depths))
    once = draw(st.integers(0, 5))
    sketch.add("recurrence", Recurrence(x.shape, draw(st.integers(2, 9)), once), copies[:1], (1, 1), draw(depths))
    outer = OuterSum(pixels, 3, (draw(st.integers(1, 9)), draw(st.integers(2, 9))))  # two columns are too few
    sketch.add("outer", outer, [copies[1], sketch.input("y", outer.operands()[1])], (1, 1), draw(depths))
    far = Delays(draw(st.integers(3, 30)), draw(st.integers(1, 30)))
    return replace(sketch.design(), delays={"recurrence.o": far, copies[1]: far})


@settings(max_examples=60, deadline=None)
@given(st.one_of(chains(5, 300), residuals(5, 300), joined()), st.integers(0, 999), st.sampled_from([1, 5, 100]))
def test_nothing_happens_earlier(design: Design, seed: int, most: int) -> None:
    generator = np.random.default_rng(seed)
    stall = random_stall(design, FRAMES, seed)
    offers, ready = {}, {}
    for tensor, cycles in stall.offers.items():
        hesitates = generator.random(len(cycles)) < generator.random()
        offers[tensor] = np.maximum.accumulate(cycles + hesitates * generator.integers(0, most + 1, len(cycles)))
    for tensor, trace in stall.ready.items():
        ready[tensor] = trace & (generator.random(len(trace)) < generator.choice([1, 0.8, 0.3]))
    before = predict(design, FRAMES + 1, offers=stall.offers, ready=stall.ready)
    after = predict(design, FRAMES + 1, offers=offers, ready=ready)
    kinds: list[tuple[Any, Any]] = [(before.fires, after.fires), (before.sinks, after.sinks)]
    for early, late in kinds:
        for name in early:
            assert len(early[name]) == len(late[name]), "whether it comes to a stop does not depend on time"
            assert (early[name] <= late[name]).all(), name
    assert before.waits == after.waits
