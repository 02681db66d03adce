"""Random recurrent cells without ONNX: a state that returns by way of ``PreviousStep``, folded at random."""

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
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.previous_step import PreviousStep
from onnx_hw.ops.requantize import Requantize
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.insert_gearboxes import insert_gearboxes
from support.random_cases import depths

STATE = Int(4)


class StateSketch:
    """A network with a state under construction; ``add`` appends a node and returns its output's name.

    Args:
        entries: tensors of the network's inputs, by name.
        state: tensor of the state ``h``, whose maker comes later.
    """

    def __init__(self, entries: dict[str, Tensor], state: Tensor) -> None:
        self.entries, self.nodes, self.tensors = entries, list[NetworkNode](), {**entries, "h": state}

    def add(self, name: str, operator: Operator, *inputs: str) -> str:
        self.nodes.append(NetworkNode(name, operator, inputs, (name,)))
        (self.tensors[name],) = operator.results()
        return name

    def onto_state(self, name: str, operand: str, divisor: int) -> str:
        grid = Grid.over(STATE, zero_point=0)
        return self.add(
            name, Requantize(self.tensors[operand], (Fraction(1, divisor),), (Fraction(1, 3),), grid), operand
        )

    def network(self, *outputs: str) -> Network:
        """The network with the state or other tensors as outputs."""
        leaving = tuple(map(self._end, outputs or ("h",)))
        return Network("cell", tuple(self.nodes), self.entries, tuple(map(self._end, self.entries)), leaving)

    def _end(self, name: str) -> Boundary:
        tensor = self.tensors[name]
        return Boundary(name, name, (1, *tensor.shape), np.dtype(np.int64), np.arange(tensor.size))


class Cell(StateSketch):
    """A recurrent cell: ``previous`` is the state a step before."""

    def __init__(self, x: Tensor, initial: np.ndarray | Tensor) -> None:
        _, width, units = (1, *initial.shape)[-3:]
        entries = {"x": x} | ({"first": initial} if isinstance(initial, Tensor) else {})
        state = Tensor((x.shape[0], width, units), STATE)
        super().__init__(entries, state)
        self.previous = self.add("previous", PreviousStep(state, initial), "h", *list(entries)[1:])

    def product(self, name: str, operand: str, weights: np.ndarray) -> str:
        return self.add(name, MatMul(self.tensors[operand], weights), operand)


def plain_cell(x: Tensor, initial: np.ndarray | Tensor, weights: np.ndarray, divisor: int) -> Network:
    """``h[t] = requantize(weights · concat(x[t], h[t − 1]))``."""
    cell = Cell(x, initial)
    joined = cell.add("joined", Concat((x, cell.tensors[cell.previous]), 2), "x", cell.previous)
    cell.onto_state("h", cell.product("product", joined, weights), divisor)
    return cell.network()


def summed_cell(x: Tensor, initial: np.ndarray | Tensor, weights: np.ndarray, divisor: int) -> Network:
    """The same function with two products: that of x is no part of the loop."""
    cell = Cell(x, initial)
    of_x = cell.product("of_x", "x", weights[:, : x.channels])
    of_h = cell.product("of_h", cell.previous, weights[:, x.channels :])
    cell.onto_state("h", cell.add("sum", Add(cell.tensors[of_x], cell.tensors[of_h]), of_x, of_h), divisor)
    return cell.network()


def gated_cell(x: Tensor, initial: np.ndarray | Tensor, weights: np.ndarray, divisor: int) -> Network:
    """``h[t] = requantize(gate · h[t − 1] + (16 − gate) · new)``, with a gate that is a table."""
    cell = Cell(x, initial)
    before = cell.tensors[cell.previous]
    joined = cell.add("joined", Concat((x, before), 2), "x", cell.previous)
    sum_of_gate, sum_of_new = cell.product("a", joined, weights), cell.product("b", joined, weights[::-1, ::-1].copy())
    low, high = cell.tensors[sum_of_gate].range
    table = (np.abs(np.arange(low, high + 1)) // divisor % 17)[None]
    gate = cell.add("gate", Lookup(cell.tensors[sum_of_gate], table, Int(5, False)), sum_of_gate)
    least, most = cell.tensors[gate].range
    new = cell.onto_state("new", sum_of_new, divisor)
    kept = cell.add("kept", Multiply(cell.tensors[gate], before), gate, cell.previous)
    rest = cell.add("rest", Lookup(cell.tensors[gate], 16 - np.arange(least, most + 1)[None], Int(5, False)), gate)
    added = cell.add("added", Multiply(cell.tensors[rest], cell.tensors[new]), rest, new)
    cell.onto_state("h", cell.add("sum", Add(cell.tensors[kept], cell.tensors[added]), kept, added), 16)
    return cell.network("h", "gate")


CELLS = (plain_cell, summed_cell, gated_cell)


@st.composite
def recurrent_networks(draw: st.DrawFn, most_steps: int = 20) -> Network:
    """A cell of one to four channels over one step or more, whose initial state is 0, another one or an input."""
    steps, inputs, units = draw(st.integers(1, most_steps)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    x = Tensor((steps, 1, inputs), Int(draw(st.integers(1, 4)), draw(st.booleans())))
    generator = np.random.default_rng(draw(st.integers(0, 999)))
    initial = generator.integers(STATE.min, STATE.max + 1, (1, units)) * draw(st.integers(0, 1))
    weights = generator.integers(-3, 4, (units, inputs + units))
    first = Tensor((1, 1, units), STATE) if draw(st.booleans()) else initial
    return draw(st.sampled_from(CELLS))(x, first, weights, draw(st.integers(1, 5)))


def folded_at_random(draw: st.DrawFn, whole: Network) -> Design:
    """A design without FIFOs: every node has a folding of its own, with gearboxes, or all have one lane."""
    network = insert_forks(whole)
    foldings, narrow = {}, draw(st.booleans())
    for node in network.nodes:
        slowest = node.operator.cycles(node.operator.narrowest)
        offered = [] if narrow else list(node.operator.foldings(draw(st.integers(1, slowest))))
        foldings[node.name] = draw(st.sampled_from(offered or [node.operator.narrowest]))
    return Design(*insert_gearboxes(network, foldings), {})


def sized_at_random(draw: st.DrawFn, design: Design) -> Design:
    """The design with FIFOs of any depth, so that some come to a stop."""
    most = draw(st.sampled_from([1, 2, 40]))
    sizes = {edge.tensor: FifoSize(min(most, draw(depths)), 1, 1) for edge in design.edges() if edge.producer}
    return replace(design, fifos=sizes)


@st.composite
def unsized_designs(draw: st.DrawFn, most_steps: int = 20) -> Design:
    return folded_at_random(draw, draw(recurrent_networks(most_steps)))


@st.composite
def recurrent_designs(draw: st.DrawFn, most_steps: int = 20) -> Design:
    return sized_at_random(draw, draw(unsized_designs(most_steps)))
