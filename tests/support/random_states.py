"""Random networks that keep state from frame to frame, without ONNX, folded at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.ops.add import Add
from onnx_hw.ops.concat import Concat
from onnx_hw.ops.kept_state import KeptState
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.previous_step import PreviousStep
from onnx_hw.ops.rearrange import Rearrange
from onnx_hw.ops.tensor import Tensor
from support.random_loops import STATE, StateSketch, folded_at_random, sized_at_random


class Keeper(StateSketch):
    """A network that keeps ``h`` from frame to frame, as ``kept``."""

    def __init__(self, x: Tensor, state: Tensor, initial: int) -> None:
        super().__init__({"x": x}, state)
        self.add("kept", KeptState(state, initial), "h")


def cell_of_rows(x: Tensor, initial: int, weights: np.ndarray, divisor: int) -> Network:
    """Every row has a state of its own: ``h = requantize(weights · concat(x, h of the frame before))``."""
    state = Tensor((*x.shape[:2], len(weights)), STATE)
    keeper = Keeper(x, state, initial)
    joined = keeper.add("joined", Concat((x, keeper.tensors["kept"]), 2), "x", "kept")
    keeper.onto_state("h", keeper.add("product", MatMul(keeper.tensors[joined], weights), joined), divisor)
    return keeper.network("h")


def buffer_of_rows(x: Tensor, initial: int, weights: np.ndarray, divisor: int) -> Network:
    """The greatest of the last rows, some of which came with frames before, and of the frame's own.

    The buffer is a shift register: it becomes the last rows of itself and of the frame.
    """
    rows = 1 + divisor % 3
    x = replace(x, dtype=STATE)
    state = Tensor((rows, *x.shape[1:]), STATE)
    keeper = Keeper(x, state, initial)
    whole = keeper.add("whole", Concat((keeper.tensors["kept"], x), 0), "kept", "x")
    keeper.add("h", _last_rows(keeper.tensors[whole], rows), whole)
    keeper.add("greatest", Pool(keeper.tensors[whole], "max", (rows + 1, 1), (1, 1), (0, 0, 0, 0)), whole)
    return keeper.network("greatest")


def _last_rows(whole: Tensor, rows: int) -> Operator:
    height, width, channels = whole.shape
    first = (height - rows) * width * channels
    return Rearrange(whole, (rows, width, channels), np.arange(first, whole.size))


def loop_within_frames(x: Tensor, initial: int, weights: np.ndarray, divisor: int) -> Network:
    """A recurrence over the rows whose last state begins the next frame: a way back inside of another one."""
    units = len(weights)
    step, row = Tensor((x.shape[0], 1, units), STATE), Tensor((1, 1, units), STATE)
    x = replace(x, shape=(x.shape[0], 1, x.channels))
    keeper = Keeper(x, row, initial)
    keeper.tensors["states"] = step
    before = keeper.add("before", PreviousStep(step, keeper.tensors["kept"]), "states", "kept")
    of_x = keeper.add("of_x", MatMul(x, weights[:, : x.channels]), "x")
    of_h = keeper.add("of_h", MatMul(keeper.tensors[before], weights[:, x.channels :]), before)
    total = keeper.add("sum", Add(keeper.tensors[of_x], keeper.tensors[of_h]), of_x, of_h)
    keeper.onto_state("states", total, divisor)
    keeper.add("h", _last_rows(step, 1), "states")
    return keeper.network("states")


KEEPERS = (cell_of_rows, buffer_of_rows, loop_within_frames)


@st.composite
def keeping_networks(draw: st.DrawFn, most_rows: int = 4) -> Network:
    """Draw a network of one to four channels."""
    rows, inputs, units = draw(st.integers(1, most_rows)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    x = Tensor((rows, draw(st.integers(1, 2)), inputs), Int(draw(st.integers(1, 4)), draw(st.booleans())))
    weights = np.random.default_rng(draw(st.integers(0, 999))).integers(-3, 4, (units, inputs + units))
    initial = draw(st.sampled_from([0, STATE.min, 5]))
    return draw(st.sampled_from(KEEPERS))(x, initial, weights, draw(st.integers(1, 5)))


@st.composite
def unsized_keepers(draw: st.DrawFn, most_rows: int = 4) -> Design:
    return folded_at_random(draw, draw(keeping_networks(most_rows)))


@st.composite
def keeping_designs(draw: st.DrawFn, most_rows: int = 4) -> Design:
    return sized_at_random(draw, draw(unsized_keepers(most_rows)))
