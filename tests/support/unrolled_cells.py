"""Models of recurrent cells that are written once per step, as exporters write loops, or as the body of a Scan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import onnx
from onnx import TensorProto, helper
from support.onnx_oracle import write
from support.qdq_models import Sketch

FEATURES, HIDDEN = 4, 6


@dataclass
class Cell:
    """Writer of steps.

    Attributes:
        shared: whether all steps read the same constants, or equal ones.
    """

    sketch: Sketch
    shared: bool = True
    seed: int = 0
    _names: dict[str, str] = field(default_factory=dict)

    def weights(self, name: str, *shape: int, of_step: int = 0) -> str:
        if name not in self._names or not self.shared:
            key = [self.seed, of_step, *name.encode()]
            array = np.random.default_rng(key).uniform(-1, 1, shape) * shape[-1] ** -0.5
            self._names[name] = self.sketch.constant(array.astype(np.float32))
        return self._names[name]

    def linear(self, name: str, value: str, inputs: int, outputs: int, bias: bool = True) -> str:
        extra = [self.weights(f"{name}/bias", outputs)] if bias else []
        return self.sketch.node("Gemm", value, self.weights(name, outputs, inputs), *extra, transB=1)

    def split(self, value: str, count: int) -> list[str]:
        """Torch's way to take the gates apart."""
        names = [f"{value}/{k}" for k in range(count)]
        self.sketch.nodes.append(
            helper.make_node("Split", [value, self.sketch.constant([HIDDEN] * count)], names, axis=1)
        )
        return names


Step = Callable[[Cell, str, list[str]], list[str]]
"""Function (cell, data [1, features], states [1, hidden]) -> new states."""


def rnn(cell: Cell, x: str, states: list[str]) -> list[str]:
    s = cell.sketch
    parts = cell.linear("data", x, FEATURES, HIDDEN), cell.linear("state", states[0], HIDDEN, HIDDEN)
    return [s.node("Tanh", s.node("Add", *parts))]


def gru(cell: Cell, x: str, states: list[str]) -> list[str]:
    s, (h,) = cell.sketch, states
    data = cell.split(cell.linear("data", x, FEATURES, 3 * HIDDEN), 3)
    pulled = cell.split(cell.linear("state", h, HIDDEN, 3 * HIDDEN), 3)
    r, z = (s.node("Sigmoid", s.node("Add", a, b)) for a, b in zip(data[:2], pulled[:2], strict=True))
    n = s.node("Tanh", s.node("Add", data[2], s.node("Mul", r, pulled[2])))
    return [s.node("Add", n, s.node("Mul", s.node("Sub", h, n), z))]


def lstm(cell: Cell, x: str, states: list[str]) -> list[str]:
    s, (h, c) = cell.sketch, states
    parts = cell.linear("data", x, FEATURES, 4 * HIDDEN), cell.linear("state", h, HIDDEN, 4 * HIDDEN)
    i, f, g, o = cell.split(s.node("Add", *parts), 4)
    kept = s.node("Mul", s.node("Sigmoid", f), c)
    new = s.node("Add", kept, s.node("Mul", s.node("Sigmoid", i), s.node("Tanh", g)))
    return [s.node("Mul", s.node("Sigmoid", o), s.node("Tanh", new)), new]


def gated(cell: Cell, x: str, states: list[str]) -> list[str]:
    """A minimal gated unit, with products of what is joined."""
    s, (h,) = cell.sketch, states
    f = s.node("Sigmoid", cell.linear("f", s.node("Concat", x, h, axis=1), FEATURES + HIDDEN, HIDDEN))
    joined = s.node("Concat", s.node("Mul", f, h), x, axis=1)
    n = s.node("Tanh", cell.linear("n", joined, FEATURES + HIDDEN, HIDDEN))
    rest = s.node("Sub", s.constant(np.float32(1)), f)
    return [s.node("Add", s.node("Mul", rest, h), s.node("Mul", f, n))]


def leaky(cell: Cell, x: str, states: list[str]) -> list[str]:
    """What is kept of the state stands before the first product of the step."""
    s, (h,) = cell.sketch, states
    kept = s.node("Mul", h, s.constant(np.float32(0.75)))
    (new,) = rnn(cell, x, states)
    return [s.node("Add", kept, s.node("Mul", new, s.constant(np.full(HIDDEN, 0.25, np.float32))))]


def deep(cell: Cell, x: str, states: list[str]) -> list[str]:
    """A GRU, and an RNN of what it gives."""
    s = cell.sketch
    (h,) = gru(cell, x, states[:1])
    parts = cell.linear("second", h, HIDDEN, HIDDEN), cell.linear("second state", states[1], HIDDEN, HIDDEN)
    return [h, s.node("Tanh", s.node("Add", *parts))]


def kalman(cell: Cell, x: str, states: list[str]) -> list[str]:
    """A step of a Kalman filter of constant gain: p + K·(x − H·p) with p = A·h."""
    s = cell.sketch
    p = cell.linear("A", states[0], HIDDEN, HIDDEN, bias=False)
    error = s.node("Sub", x, cell.linear("H", p, HIDDEN, FEATURES, bias=False))
    return [s.node("Add", p, cell.linear("K", error, FEATURES, HIDDEN, bias=False))]


def normalized(cell: Cell, name: str, value: str, width: int, spelled_out: bool) -> str:
    """Normalize a value, with one node or as exporters without the operator do."""
    s = cell.sketch
    scale, bias = (cell.weights(f"{name}/{what}", width) for what in ("scale", "bias"))
    if not spelled_out:
        return s.node("LayerNormalization", value, scale, bias, axis=-1, epsilon=1e-5)
    less = s.node("Sub", value, s.node("ReduceMean", value, axes=[-1]))
    variance = s.node("ReduceMean", s.node("Pow", less, s.constant(np.float32(2))), axes=[-1])
    root = s.node("Sqrt", s.node("Add", variance, s.constant(np.float32(1e-5))))
    return s.node("Add", s.node("Mul", s.node("Div", less, root), scale), bias)


def normalized_gru(cell: Cell, x: str, states: list[str], *, spelled_out: bool = False) -> list[str]:
    """A GRU whose products are normalized, all gates together."""
    s, (h,) = cell.sketch, states
    parts = cell.linear("data", x, FEATURES, 3 * HIDDEN), cell.linear("state", h, HIDDEN, 3 * HIDDEN, bias=False)
    data, pulled = (
        cell.split(normalized(cell, name, part, 3 * HIDDEN, spelled_out), 3)
        for name, part in zip(("of data", "of state"), parts, strict=True)
    )
    r, z = (s.node("Sigmoid", s.node("Add", a, b)) for a, b in zip(data[:2], pulled[:2], strict=True))
    n = s.node("Tanh", s.node("Add", data[2], s.node("Mul", r, pulled[2])))
    return [s.node("Add", n, s.node("Mul", s.node("Sub", h, n), z))]


def normalized_lstm(cell: Cell, x: str, states: list[str], *, spelled_out: bool = False) -> list[str]:
    """An LSTM whose gates and whose state behind them are normalized."""
    s, (h, c) = cell.sketch, states
    joined = cell.linear("both", s.node("Concat", x, h, axis=1), FEATURES + HIDDEN, 4 * HIDDEN)
    i, f, g, o = cell.split(normalized(cell, "of gates", joined, 4 * HIDDEN, spelled_out), 4)
    kept = s.node("Mul", s.node("Sigmoid", f), c)
    new = s.node("Add", kept, s.node("Mul", s.node("Sigmoid", i), s.node("Tanh", g)))
    inner = normalized(cell, "of state", new, HIDDEN, spelled_out)
    return [s.node("Mul", s.node("Sigmoid", o), s.node("Tanh", inner)), new]


NORMALIZED_CELLS: dict[str, tuple[Callable[..., list[str]], int]] = {
    "gru": (normalized_gru, 1),
    "lstm": (normalized_lstm, 2),
}
"""Cells with normalizations, and the numbers of their states."""

CELLS: dict[str, tuple[Step, int]] = {
    "rnn": (rnn, 1),
    "gru": (gru, 1),
    "lstm": (lstm, 2),
    "gated": (gated, 1),
    "leaky": (leaky, 1),
    "deep": (deep, 2),
    "kalman": (kalman, 1),
}
"""Cells, and the numbers of their states."""


def unrolled(
    path: Path,
    step: Step,
    states: int,
    steps: int,
    *,
    start: float = 0.0,
    shared: bool = True,
    backward: bool = False,
    sequence: bool = True,
    batch: int = 1,
) -> Path:
    """Write a model [batch, steps, features] -> [batch, steps, hidden], or the last state; then a product."""
    s = Sketch()
    cell = Cell(s, shared)
    values = [s.constant(np.full((batch, HIDDEN), start, np.float32)) for _ in range(states)]
    rows = []
    for k in reversed(range(steps)) if backward else range(steps):
        values = step(cell, s.node("Gather", "x", s.constant(np.int64(k)), axis=1), values)
        rows.append(s.node("Unsqueeze", values[-1 if states == 1 or step is deep else 0], s.constant([1])))
    whole = s.node("Concat", *(rows[::-1] if backward else rows), axis=1)
    last = s.node("MatMul", whole if sequence else values[0], cell.weights("last", HIDDEN, 3))
    return write(s, path, {"x": [batch, steps, FEATURES]}, last)


def scanned(path: Path, step: Step, states: int, steps: int, *, backward: bool = False) -> Path:
    """Write a model of one Scan, with its states and their sequence as outputs."""
    s = Sketch()
    names = [f"state{k}" for k in range(states)]
    results = step(Cell(s), "slice", names)
    results = [s.node("Identity", name) for name in [*results, results[0]]]
    row, item = [1, HIDDEN], [1, FEATURES]
    body = helper.make_graph(
        s.nodes,
        "body",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, item if n == "slice" else row) for n in [*names, "slice"]],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, row) for n in results],
        s.constants,
    )
    outputs = [*(f"last{k}" for k in range(states)), "all"]
    turned = {"scan_input_directions": [1], "scan_output_directions": [1]} if backward else {}
    axes = {"scan_input_axes": [1], "scan_output_axes": [1]}
    node = helper.make_node("Scan", [*(f"first{k}" for k in range(states)), "x"], outputs, body=body, name="scan",
                            num_scan_inputs=1, **axes, **turned)  # fmt: skip
    shapes = {**dict.fromkeys(outputs, row), "all": [1, steps, HIDDEN]}
    graph = helper.make_graph(
        [node],
        "scanned",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, steps, FEATURES])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in shapes.items()],
        [helper.make_tensor(f"first{k}", TensorProto.FLOAT, row, [0.0] * HIDDEN) for k in range(states)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
