"""Random networks that keep state from frame to frame, without ONNX, folded at random."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design, FifoSize
from onnx_hw.ir.network import Boundary, Network, NetworkNode
from onnx_hw.ops.add import Add
from onnx_hw.ops.concat import Concat
from onnx_hw.ops.kept_state import KeptState
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.previous_step import PreviousStep
from onnx_hw.ops.rearrange import Rearrange
from onnx_hw.ops.requantize import Requantize
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.insert_gearboxes import insert_gearboxes
from support.random_cases import depths

STATE = Int(4)


class Keeper:
    """A network under construction that keeps ``h``; ``add`` appends a node and returns its output's name."""

    def __init__(self, x: Tensor, state: Tensor, initial: int) -> None:
        self.x, self.nodes, self.tensors = x, list[NetworkNode](), {"x": x, "h": state}
        self.add("kept", KeptState(state, initial), "h")

    def add(self, name: str, operator: Operator, *inputs: str) -> str:
        self.nodes.append(NetworkNode(name, operator, inputs, (name,)))
        (self.tensors[name],) = operator.results()
        return name

    def onto_state(self, name: str, operand: str, divisor: int) -> str:
        """Add a requantizer onto the type of the state."""
        factors, offsets = (Fraction(1, divisor),), (Fraction(1, 3),)
        grid = Grid.over(STATE, zero_point=0)
        return self.add(name, Requantize(self.tensors[operand], factors, offsets, grid), operand)

    def network(self, *outputs: str) -> Network:
        leaving = tuple(map(self._end, outputs))
        return Network("keeper", tuple(self.nodes), {"x": self.x}, (self._end("x"),), leaving)

    def _end(self, name: str) -> Boundary:
        tensor = self.tensors[name]
        return Boundary(name, name, (1, *tensor.shape), np.dtype(np.int64), np.arange(tensor.size))


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
    """Draw a design without FIFOs: every node has a folding of its own, with gearboxes, or all have one lane."""
    network = insert_forks(draw(keeping_networks(most_rows)))
    foldings, narrow = {}, draw(st.booleans())
    for node in network.nodes:
        slowest = node.operator.cycles(node.operator.narrowest)
        offered = [] if narrow else list(node.operator.foldings(draw(st.integers(1, slowest))))
        foldings[node.name] = draw(st.sampled_from(offered or [node.operator.narrowest]))
    return Design(*insert_gearboxes(network, foldings), {})


@st.composite
def keeping_designs(draw: st.DrawFn, most_rows: int = 4) -> Design:
    """Draw the same with FIFOs of any depth, so that some come to a stop."""
    design, most = draw(unsized_keepers(most_rows)), draw(st.sampled_from([1, 2, 40]))
    sizes = {edge.tensor: FifoSize(min(most, draw(depths)), 1, 1) for edge in design.edges() if edge.producer}
    return replace(design, fifos=sizes)
