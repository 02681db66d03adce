"""RNN, GRU and LSTM as a loop over time of products, sums and functions.

Time becomes an axis of ordinary tensors, [steps, batch, channels]: the product of the data is one for all steps, and
the state of the step before is a ``PreviousStep``. A step that comes first reads the initial state instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, Need, composed
from onnx_hw.onnx.graph.loops import DELAY
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.recurrent import ActivationChoice, activations_of, direction_count

TIME = 0
"""Axis of time: a tensor is [steps, batch, channels]."""

SLICE_END = 1 << 31
"""An end beyond every axis."""


@dataclass(frozen=True)
class GateWeights:
    """GateWeights of one direction, by gate.

    Attributes:
        gates: letter of each gate, in the order of the operator.
        data, state: (features, hidden), (hidden, hidden), by gate: factors of the data and of the state.
        data_bias, state_bias: (hidden,), by gate.
    """

    gates: str
    data: dict[str, np.ndarray]
    state: dict[str, np.ndarray]
    data_bias: dict[str, np.ndarray]
    state_bias: dict[str, np.ndarray]


class CellBuilder:
    """Builder of the steps of one direction of a node.

    Attributes:
        steps: number of steps.
        batch: number of sequences.
        hidden: number of channels of a state.
    """

    def __init__(
        self,
        composer: Composer,
        weights: GateWeights,
        data: str,
        shape: tuple[int, int, int],
        suffix: str,
        functions: Sequence[ActivationChoice],
        clip: float | None,
    ) -> None:
        self.composer, self.weights, self.data, self.suffix, self.clip = composer, weights, data, suffix, clip
        self.steps, self.batch, self.hidden = shape
        self.functions = functions
        self._open: list[int] = []

    def before(self, initial: str | np.ndarray | None) -> str:
        """Add the state of the step before; return its name, empty for zeros of the only step.

        Args:
            initial: name of a value [1, batch, hidden], numbers of that shape, or None for zeros.
        """
        composer = self.composer
        if self.steps == 1:
            if isinstance(initial, np.ndarray):
                return composer.constant(initial) if initial.any() else ""
            return initial or ""
        start = initial if isinstance(initial, np.ndarray) else np.zeros((1, self.batch, self.hidden))
        result = composer.add(
            DELAY[1], composer.constant(start), domain=DELAY[0], version=1, of="", axis=TIME, steps=self.steps
        )
        self._open.append(len(composer.nodes) - 1)
        if not isinstance(initial, str):
            return result
        pads = composer.lengths((0, 0, 0, self.steps - 1, 0, 0))
        return composer.add("Add", result, composer.add("Pad", initial, pads))

    def close(self, *states: str) -> None:
        """Say which values the states are, in the order in which ``before`` was called."""
        if not self._open:
            return
        nodes = self.composer.nodes
        for place, state in zip(self._open, states, strict=True):
            nodes[place] = replace(nodes[place], attributes={**nodes[place].attributes, "of": state})

    def of_data(self, gate: str, *, all_biases: bool = True) -> str:
        """Add the data's share of a gate, in all steps, with the biases."""
        composer, weights = self.composer, self.weights
        bias = weights.data_bias[gate] + (weights.state_bias[gate] if all_biases else 0)
        product = self._product(self.data, weights.data[gate], f"data_{gate}")
        return composer.add("Add", product, composer.constant(bias)) if bias.any() else product

    def of_state(self, gate: str, state: str, *, biased: bool = False) -> str:
        """Add the state's share of a gate; return its name, empty for a state of zeros without a bias."""
        composer, bias = self.composer, self.weights.state_bias[gate] if biased else np.zeros(1)
        if not state:
            return composer.constant(bias.reshape(1, 1, -1)) if bias.any() else ""
        product = self._product(state, self.weights.state[gate], f"state_{gate}")
        return composer.add("Add", product, composer.constant(bias)) if bias.any() else product

    def _product(self, data: str, factors: np.ndarray, what: str) -> str:
        composer = self.composer
        result = composer.add("MatMul", data, composer.constant(factors))
        composer.nodes[-1] = replace(composer.nodes[-1], name=f"{composer.node.label}/{what}{self.suffix}")
        return result

    def sum(self, first: str, second: str) -> str:
        """Add the sum of two values, of which an empty name stands for zeros."""
        return self.composer.add("Add", first, second) if first and second else first or second

    def product(self, first: str, second: str) -> str:
        """Add the product of two values, of which an empty name stands for zeros."""
        return self.composer.add("Mul", first, second) if first and second else ""

    def function(self, k: int, argument: str, *, bounded: bool = True) -> str:
        """Add the activation number ``k`` of a value, which the clip of the node may bound."""
        composer = self.composer
        if self.clip is not None and bounded:
            argument = composer.add("Clip", argument, *(composer.constant(end) for end in (-self.clip, self.clip)))
        return _activation(composer, self.functions[k], argument)


def _activation(composer: Composer, choice: ActivationChoice, argument: str) -> str:
    """Add an activation; return the name of its result."""
    alpha, beta = choice.alpha, choice.beta
    plain = {"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "softsign": "Softsign", "softplus": "Softplus"}
    with_alpha = {"leakyrelu": "LeakyRelu", "thresholdedrelu": "ThresholdedRelu", "elu": "Elu"}
    if choice.name in plain:
        return composer.add(plain[choice.name], argument)
    if choice.name in with_alpha:
        return composer.add(with_alpha[choice.name], argument, alpha=alpha)
    if choice.name == "hardsigmoid":
        return composer.add("HardSigmoid", argument, alpha=alpha, beta=beta)
    if choice.name == "scaledtanh":
        inner = composer.add("Tanh", composer.add("Mul", argument, composer.constant(beta)))
        return composer.add("Mul", inner, composer.constant(alpha))
    scaled = composer.add("Mul", argument, composer.constant(alpha))  # affine
    return composer.add("Add", scaled, composer.constant(beta))


Cell = Callable[[CellBuilder, Sequence["str | np.ndarray | None"], Any], tuple[str, ...]]
"""Function (builder, initial states, peepholes) -> names of the states of all steps."""


def _rnn(cell: CellBuilder, initial: Sequence[str | np.ndarray | None], _: Any) -> tuple[str, ...]:
    before = cell.before(initial[0])
    h = cell.function(0, cell.sum(cell.of_data("h"), cell.of_state("h", before)))
    cell.close(h)
    return (h,)


def _gru(cell: CellBuilder, initial: Sequence[str | np.ndarray | None], linear: Any) -> tuple[str, ...]:
    """Add a GRU: (1 − z)·n + z·h is n + z·(h − n)."""
    before = cell.before(initial[0])
    z = cell.function(0, cell.sum(cell.of_data("z"), cell.of_state("z", before)))
    share = cell.of_data("n", all_biases=not linear)
    pulled = cell.of_state("n", before, biased=True) if linear else before
    if pulled:
        r = cell.function(0, cell.sum(cell.of_data("r"), cell.of_state("r", before)))
        pulled = cell.product(r, pulled)
        share = cell.sum(share, pulled if linear else cell.of_state("n", pulled))
    n = cell.function(1, share)
    if before:
        h = cell.sum(n, cell.product(z, cell.composer.add("Sub", before, n)))
    else:
        h = cell.composer.add("Sub", n, cell.product(z, n))
    cell.close(h)
    return (h,)


@dataclass(frozen=True)
class LstmChoices:
    """Choices of an LSTM: ``peepholes`` (3, hidden) of the gates i, o, f or None, and whether f is 1 − i."""

    peepholes: np.ndarray | None
    coupled: bool


def _lstm(cell: CellBuilder, initial: Sequence[str | np.ndarray | None], choices: Any) -> tuple[str, ...]:
    """Add an LSTM; where f is 1 − i, the next c is c + i·(g − c)."""
    assert isinstance(choices, LstmChoices)
    composer = cell.composer
    before, c = cell.before(initial[0]), cell.before(initial[1])

    def gate(letter: str, peephole: int | None, of: str) -> str:
        total = cell.sum(cell.of_data(letter), cell.of_state(letter, before))
        if peephole is not None and choices.peepholes is not None and choices.peepholes[peephole].any() and of:
            total = cell.sum(total, composer.add("Mul", of, composer.constant(choices.peepholes[peephole])))
        return cell.function(1 if letter == "g" else 0, total)

    i, g = gate("i", 0, c), gate("g", None, "")
    if choices.coupled:
        new = cell.sum(c, cell.product(i, composer.add("Sub", g, c))) if c else cell.product(i, g)
    else:
        new = cell.sum(cell.product(gate("f", 2, c), c) if c else "", cell.product(i, g))
    h = cell.product(gate("o", 1, new), cell.function(2, new, bounded=False))
    cell.close(h, new)
    return h, new


def _recurrent(composer: Composer, node: Node, gates: str, cell: Cell, states: int, choices: Any) -> tuple[str, ...]:
    """Add all directions of a node, and put their results together as the operator does.

    Args:
        gates: letter of each gate, in the order of the weights.
        states: number of states of a step.
        choices: function (number of a direction) -> what else the cell must know.
    """
    names = [*node.inputs, *[""] * 8]
    x, layout = composer.real(node), int(node.attributes.get("layout", 0))
    shape = composer.shape(x)
    steps, batch, features = (shape[1], shape[0], shape[2]) if layout else shape
    w, r = (composer.constant_input(k).astype(np.float64) for k in (1, 2))
    directions, hidden = direction_count(node), r.shape[-1]
    composer.require(batch > 0 and steps > 0)
    bias = (
        composer.constant_input(3).astype(np.float64) if names[3] else np.zeros((directions, 2 * len(gates) * hidden))
    )
    lengths = np.unique(composer.constant_input(4)) if names[4] else np.array([steps])
    valid = int(lengths[0])
    composer.require(len(lengths) == 1 and 1 <= valid <= steps)
    starts = [names[5], names[6]][:states]
    functions = activations_of(node)
    data = composer.transposed(x, (1, 0, 2)) if layout and batch > 1 else composer.reshaped(x, (steps, batch, features))
    if valid < steps:
        data = _part(composer, data, 0, valid)
    results: list[tuple[str, ...]] = []
    last: list[tuple[str, ...]] = []
    for number in range(directions):
        backward = number == 1 or node.attributes.get("direction", "forward") == "reverse"
        suffix = ("", "_reverse")[number] if directions == 2 else ""
        split = [np.split(array[number], len(gates)) for array in (w, r)]
        biases = np.split(bias[number], 2 * len(gates))
        weights = GateWeights(
            gates,
            {gate: part.T for gate, part in zip(gates, split[0], strict=True)},
            {gate: part.T for gate, part in zip(gates, split[1], strict=True)},
            dict(zip(gates, biases[: len(gates)], strict=True)),
            dict(zip(gates, biases[len(gates) :], strict=True)),
        )
        initial = [_initial(composer, name, number, (directions, batch, hidden), layout) for name in starts]
        arriving = _reversed(composer, data) if backward and valid > 1 else data
        builder = CellBuilder(
            composer, weights, arriving, (valid, batch, hidden), suffix, functions[number], node.attributes.get("clip")
        )
        made = cell(builder, initial, choices(number))
        last.append(tuple(_part(composer, name, valid - 1, valid) if valid > 1 else name for name in made))
        whole = _reversed(composer, made[0]) if backward and valid > 1 else made[0]
        if valid < steps:
            whole = composer.add("Pad", whole, composer.lengths((0, 0, 0, steps - valid, 0, 0)))
        results.append((whole,))
    y = _joined(composer, [whole for (whole,) in results])
    ends = [_joined(composer, [of_direction[k] for of_direction in last]) for k in range(states)]
    wanted = [bool(name) for name in node.outputs]
    made_names = [
        _as_results(composer, name, (length, batch, directions, hidden), layout, kept) if is_wanted else ""
        for (name, length, kept), is_wanted in zip(
            ((y, steps, True), *((end, 1, False) for end in ends)), wanted, strict=False
        )
    ]
    return tuple(made_names)


def _as_results(composer: Composer, name: str, shape: tuple[int, int, int, int], layout: int, with_steps: bool) -> str:
    """Add a value [steps, batch, directions · hidden] in the order of the node's results.

    Args:
        shape: (steps, batch, directions, hidden).
        with_steps: whether the result has an axis of steps, or is the state of one step.
    """
    _, batch, directions, _ = shape
    order = (1, 0, 2, 3) if layout else (0, 2, 1, 3)
    if batch > 1 and (layout or directions > 1) and sorted(shape[axis] for axis in order[:3]) != [1, 1, batch]:
        name = composer.transposed(composer.add("Reshape", name, composer.lengths(shape)), order)
    lengths = [shape[axis] for axis in order]
    if not with_steps:
        lengths.pop(order.index(0))
    return composer.add("Reshape", name, composer.lengths(lengths))


def _initial(
    composer: Composer, name: str, number: int, shape: tuple[int, int, int], layout: int
) -> str | np.ndarray | None:
    """Return the initial state of a direction: numbers, or the name of a value [1, batch, hidden]; None for zeros.

    Args:
        shape: (directions, batch, hidden).
    """
    directions, batch, hidden = shape
    if not name:
        return None
    numbers = composer.numbers(name)
    if numbers is not None:
        of_direction = numbers[:, number] if layout else numbers[number]
        return of_direction.reshape(1, batch, hidden).astype(np.float64)
    if directions > 1 and batch > 1 and not layout:
        return _part(composer, name, number, number + 1)
    flat = composer.reshaped(name, (1, batch, directions * hidden))
    return flat if directions == 1 else _part(composer, flat, number * hidden, (number + 1) * hidden, axis=2)


def _part(composer: Composer, name: str, first: int, end: int, axis: int = TIME) -> str:
    return composer.add("Slice", name, *(composer.lengths((k,)) for k in (first, end, axis)))


def _reversed(composer: Composer, name: str) -> str:
    return composer.add("Slice", name, *(composer.lengths((k,)) for k in (-1, -SLICE_END, TIME, -1)))


def _joined(composer: Composer, parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else composer.add("Concat", *parts, axis=2)


@composed("RNN", meaning="as a loop of MatMul, Add and a function", need=Need.ALWAYS, several=True)
def rnn(composer: Composer, node: Node) -> tuple[str, ...]:
    return _recurrent(composer, node, "h", _rnn, 1, lambda number: None)


@composed("GRU", meaning="as a loop of MatMul, Add, Mul and functions", need=Need.ALWAYS, several=True)
def gru(composer: Composer, node: Node) -> tuple[str, ...]:
    linear = bool(node.attributes.get("linear_before_reset", 0))
    return _recurrent(composer, node, "zrn", _gru, 1, lambda number: linear)


@composed("LSTM", meaning="as a loop of MatMul, Add, Mul and functions", need=Need.ALWAYS, several=True)
def lstm(composer: Composer, node: Node) -> tuple[str, ...]:
    peepholes = composer.constant_input(7) if len(node.inputs) > 7 and node.inputs[7] else None
    coupled = bool(node.attributes.get("input_forget", 0))

    def choices(number: int) -> LstmChoices:
        return LstmChoices(None if peepholes is None else peepholes[number].reshape(3, -1), coupled)

    return _recurrent(composer, node, "iofg", _lstm, 2, choices)
