"""Recurrent layers (RNN, GRU, LSTM): one step of time after the other.

The input's share of all steps is a single matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.activation import sigmoid
from onnx_hw.onnx.operators.allowance import spend
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Facts
from onnx_hw.onnx.operators.macs import known_type
from onnx_hw.onnx.operators.registry import Floats, Strings, earlier, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, Types, must_have_axes

Activation = Callable[[Array], Array]


DEFAULT_ALPHAS = {
    "affine": 1.0, "leakyrelu": 0.01, "thresholdedrelu": 1.0, "scaledtanh": 1.0, "hardsigmoid": 0.2, "elu": 1.0,
}  # fmt: skip
"""Default of alpha by the activation that has it, in lower case."""

DEFAULT_BETAS = {"affine": 0.0, "scaledtanh": 1.0, "hardsigmoid": 0.5}
"""Default of beta by the activation that has it, in lower case."""


@dataclass(frozen=True)
class ActivationChoice:
    """Activation with its parameters; ``name`` is in lower case."""

    name: str
    alpha: float
    beta: float

    @property
    def function(self) -> Activation | None:
        """Function of an array; None for a name that the specification does not have."""
        alpha, beta = self.alpha, self.beta
        functions: dict[str, Activation] = {
            "relu": lambda x: np.maximum(x, 0),
            "tanh": np.tanh,
            "sigmoid": sigmoid,
            "affine": lambda x: alpha * x + beta,
            "leakyrelu": lambda x: np.where(x < 0, alpha * x, x),
            "thresholdedrelu": lambda x: np.where(x > alpha, x, 0),
            "scaledtanh": lambda x: alpha * np.tanh(beta * x),
            "hardsigmoid": lambda x: np.clip(alpha * x + beta, 0, 1),
            "elu": lambda x: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x),
            "softsign": lambda x: x / (1 + np.abs(x)),
            "softplus": lambda x: np.logaddexp(x, 0),
        }
        return functions.get(self.name)


def chosen_activations(
    names: Sequence[str], alphas: Sequence[float] | None, betas: Sequence[float] | None
) -> list[ActivationChoice]:
    """Return the activations of these names; those that have parameters take one after the other from the lists.

    Raises:
        ValueError: the specification has no such activation.
    """
    left_alphas, left_betas = list(alphas or ()), list(betas or ())
    choices = []
    for name in (name.lower() for name in names):
        alpha = left_alphas.pop(0) if name in DEFAULT_ALPHAS and left_alphas else DEFAULT_ALPHAS.get(name, 0.0)
        beta = left_betas.pop(0) if name in DEFAULT_BETAS and left_betas else DEFAULT_BETAS.get(name, 0.0)
        choices.append(ActivationChoice(name, alpha, beta))
        if choices[-1].function is None:
            raise ValueError(f"an activation must be one that ONNX names, such as Tanh or Sigmoid, not {name}")
    return choices


DEFAULT_ACTIVATIONS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
"""Names of the activations of a direction where a node names none, by operator."""


def direction_count(node: Node) -> int:
    """Return the number of directions of a node."""
    return 2 if node.attributes.get("direction", "forward") == "bidirectional" else 1


def activations_of(node: Node) -> list[list[ActivationChoice]]:
    """Return the activations of a node, for each direction."""
    defaults, directions = DEFAULT_ACTIVATIONS[node.op_type], direction_count(node)
    names = list(node.attributes.get("activations") or defaults * directions)[: len(defaults) * directions]
    choices = chosen_activations(names, node.attributes.get("activation_alpha"), node.attributes.get("activation_beta"))
    return [choices[k * len(defaults) : (k + 1) * len(defaults)] for k in range(directions)]


@dataclass(frozen=True)
class Recurrence:
    """Common part of the three operators; the fields are attributes.

    Attributes:
        functions: one activation for each gate kind, for each direction.
        layout: 0: (time, batch, features), 1: (batch, time, features).
    """

    direction: str
    functions: tuple[tuple[Activation, ...], ...]
    clip: float | None
    layout: int

    @classmethod
    def of(
        cls,
        defaults: Sequence[str],
        hidden: int,
        /,
        *,
        activation_alpha: Floats | None = None,
        activation_beta: Floats | None = None,
        activations: Strings | None = None,
        clip: float | None = None,
        direction: str = "forward",
        hidden_size: int | None = None,
        layout: int = 0,
    ) -> Recurrence:
        """Return what the attributes that the three operators share say.

        Args:
            defaults: names of the activations of a direction.
            hidden: number of hidden units, as the recurrent weights have it.

        Raises:
            ValueError: an attribute has no meaning, or does not fit.
        """
        if hidden_size is not None and hidden_size != hidden:
            raise ValueError(f"hidden_size must be that of R, {hidden}, not {hidden_size}")
        if direction not in ("forward", "reverse", "bidirectional"):
            raise ValueError(f"direction must be forward, reverse or bidirectional, not {direction}")
        directions = 2 if direction == "bidirectional" else 1
        names = list(activations or list(defaults) * directions)[: directions * len(defaults)]
        if len(names) != directions * len(defaults):
            raise ValueError(f"activations must name {directions * len(defaults)} functions, not {len(names)}")
        choices = chosen_activations(names, activation_alpha, activation_beta)
        functions = [choice.function for choice in choices if choice.function is not None]
        each = len(defaults)
        return cls(
            direction, tuple(tuple(functions[k * each : (k + 1) * each]) for k in range(directions)), clip, layout
        )

    def bounded(self, x: Array) -> Array:
        """Return the input of an activation, clipped where the model says so."""
        return x if self.clip is None else np.clip(x, -self.clip, self.clip)


Product = Callable[[Array, int], Array]
"""Product of data and the weights of a direction, whose number follows."""

Step = Callable[[Array, tuple[Array, ...], int], tuple[Array, ...]]


def run_through(
    how: Recurrence,
    x: Array,
    shares: Callable[[Array, int], Array],
    step: Step,
    starts: Sequence[Array | None],
    hidden: int,
    lengths: Array | None,
) -> tuple[Array, ...]:
    """Compute all hidden states, and the last of every state, in the operator's layout.

    Args:
        shares: the input's contribution to the gates for all times of a direction.
        step: function (contribution at one time, states, direction) -> new states.
        starts: initial states, None for zeros.
        lengths: (batch,) valid time steps of each sample; later outputs are zero.
    """
    if how.layout:
        x = x.swapaxes(0, 1)
        starts = [None if start is None else start.swapaxes(0, 1) for start in starts]
    times, batch = x.shape[:2]
    directions = len(how.functions)
    y = np.zeros((times, directions, batch, hidden), x.dtype)
    last = [np.zeros((directions, batch, hidden), x.dtype) for _ in starts]
    valid = np.full(batch, times) if lengths is None else lengths
    for number in range(directions):
        backward = how.direction == "reverse" or number == 1
        states = tuple(np.zeros((batch, hidden), x.dtype) if tensor is None else tensor[number] for tensor in starts)
        contribution = shares(x, number)
        spend(0, calls=16 * times)
        for k in range(times):
            # a reversed direction begins at each sample's own last valid step
            time = np.where(k < valid, valid - 1 - k, k) if backward else np.full(batch, k)
            new = step(contribution[time, np.arange(batch)], states, number)
            running = (k < valid)[:, None]
            states = tuple(np.where(running, fresh, old) for fresh, old in zip(new, states, strict=True))
            y[time, number, np.arange(batch)] = np.where(running, states[0], 0)
        for tensor, state in zip(last, states, strict=True):
            tensor[number] = state
    if how.layout:
        return y.transpose(2, 0, 1, 3), *(tensor.swapaxes(0, 1) for tensor in last)
    return y, *last


def recurrent_type(
    x: TensorType, w: TensorType, r: TensorType, *_: Any, direction: str = "forward", layout: int = 0, **__: Any
) -> tuple[TensorType, ...]:
    for tensor in (x, w, r):
        must_have_axes(tensor, 3, 3)
    directions, hidden = w.shape[0], r.shape[-1]
    if directions != 1 + (direction == "bidirectional"):
        raise ValueError(f"W must have weights for every direction of `{direction}`, not the shape {list(w.shape)}")
    times, batch = (x.shape[1], x.shape[0]) if layout else (x.shape[0], x.shape[1])
    y = (batch, times, directions, hidden) if layout else (times, directions, batch, hidden)
    state = x.with_shape((batch, directions, hidden) if layout else (directions, batch, hidden))
    return x.with_shape(y), state, state


def recurrent_macs(_: Node, inputs: Types, __: Types) -> int:
    """Count those of RNN, GRU and LSTM: at every time, data and state meet the weights of all gates and directions."""
    x, w, r = (known_type(inputs, k) for k in range(3))
    return prod(x.shape[:2]) * (w.size + r.size)


@operator(since=(14, 22), types=recurrent_type, attributes_of=Recurrence.of, facts=Facts(macs=recurrent_macs))
def RNN(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    *,
    activations: Strings = ("Tanh", "Tanh"),
    **attributes: Any,
) -> tuple[Array, ...]:
    """Compute ``h = f(x W + h R + b)``."""
    hidden = r.shape[-1]
    how = Recurrence.of(DEFAULT_ACTIVATIONS["RNN"], hidden, activations=activations, **attributes)

    def step(share: Array, states: tuple[Array, ...], number: int) -> tuple[Array, ...]:
        (f,) = how.functions[number]
        return (f(how.bounded(share + states[0] @ r[number].T)),)

    return run_through(how, x, input_shares(_product(w), b), step, [initial_h], hidden, sequence_lens)


earlier(RNN, since=7, without=("layout",))


@operator(since=(14, 22), types=recurrent_type, attributes_of=Recurrence.of, facts=Facts(macs=recurrent_macs))
def GRU(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    *,
    linear_before_reset: int = 0,
    **attributes: Any,
) -> tuple[Array, ...]:
    """Compute gates in the order z, r, h; with ``linear_before_reset`` r is applied after the matrix product."""
    n = r.shape[-1]
    how = Recurrence.of(DEFAULT_ACTIVATIONS["GRU"], n, **attributes)
    zeros = np.zeros((w.shape[0], 6 * n), x.dtype)
    bias = zeros if b is None else b
    inner = bias.copy()  # the recurrent bias of h goes with the product, not with the input's share
    inner[:, 5 * n :] = 0

    def step(share: Array, states: tuple[Array, ...], number: int) -> tuple[Array, ...]:
        (h,), (f, g) = states, how.functions[number]
        update, reset, new = np.split(r[number], 3)
        z = f(how.bounded(share[:, :n] + h @ update.T))
        s = f(how.bounded(share[:, n : 2 * n] + h @ reset.T))
        extra = bias[number, 5 * n :]
        pulled = s * (h @ new.T + extra) if linear_before_reset else (s * h) @ new.T + extra
        fresh = g(how.bounded(share[:, 2 * n :] + pulled))
        return ((1 - z) * fresh + z * h,)

    return run_through(how, x, input_shares(_product(w), inner), step, [initial_h], n, sequence_lens)


earlier(GRU, since=7, without=("layout",))


@operator(since=(14, 22), types=recurrent_type, attributes_of=Recurrence.of, facts=Facts(macs=recurrent_macs))
def LSTM(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    initial_c: Array | None = None,
    p: Array | None = None,
    *,
    input_forget: int = 0,
    **attributes: Any,
) -> tuple[Array, ...]:
    """Compute gates in the order i, o, f, c; ``p`` are peephole weights of i, o, f; ``input_forget``: f is 1 - i."""
    return run_lstm(
        x,
        input_shares(_product(w), b),
        _product(r),
        r.shape[-1],
        p,
        (initial_h, initial_c),
        sequence_lens,
        input_forget,
        attributes,
    )


earlier(LSTM, since=7, without=("layout",))


def run_lstm(
    x: Array,
    shares: Callable[[Array, int], Array],
    of_state: Product,
    hidden: int,
    p: Array | None,
    starts: tuple[Array | None, Array | None],
    lengths: Array | None,
    input_forget: int,
    attributes: Mapping[str, Any],
) -> tuple[Array, ...]:
    """Compute all steps of an LSTM.

    Args:
        shares: the input's contribution to the gates for all times of a direction.
        of_state: product of a state and the weights of a direction.
        p: peephole weights.
        starts: initial h and c.
        lengths: (batch,) valid time steps of each sample.
        attributes: attributes that RNN, GRU and LSTM share.
    """
    how = Recurrence.of(DEFAULT_ACTIVATIONS["LSTM"], hidden, **attributes)
    peepholes = np.zeros((len(how.functions), 3 * hidden), x.dtype) if p is None else p

    def step(share: Array, states: tuple[Array, ...], number: int) -> tuple[Array, ...]:
        (h, c), (f, g, last) = states, how.functions[number]
        gates = share + of_state(h, number)
        enter, leave, keep, new = np.split(gates, 4, axis=1)
        peek_in, peek_out, peek_keep = np.split(peepholes[number], 3)
        entering = f(how.bounded(enter + peek_in * c))
        keeping = 1 - entering if input_forget else f(how.bounded(keep + peek_keep * c))
        cell = keeping * c + entering * g(how.bounded(new))
        leaving = f(how.bounded(leave + peek_out * cell))
        return leaving * last(cell), cell

    return run_through(how, x, shares, step, starts, hidden, lengths)


def _product(weights: Array) -> Product:
    return lambda x, number: x @ weights[number].T


def input_shares(product: Product, b: Array | None) -> Callable[[Array, int], Array]:
    """Compute the input's share in the gates, with both biases: (time, batch, features) -> (time, batch, gates)."""

    def shares(x: Array, number: int) -> Array:
        share = product(x, number)
        return share if b is None else share + sum(np.split(b[number], 2))

    return shares
