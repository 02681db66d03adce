"""Models of one recurrent node, with every attribute and input that the three operators have."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import onnx
from onnx import TensorProto, helper

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}

PER_DIRECTION = {"RNN": 1, "GRU": 2, "LSTM": 3}
"""Activations of a direction."""

WITH_PARAMETERS = {"LeakyRelu": 1, "Affine": 2, "HardSigmoid": 2, "ScaledTanh": 2, "Elu": 1, "ThresholdedRelu": 1}
"""Number of parameters of an activation."""

ACTIVATIONS = ("Tanh", "Sigmoid", "Relu", "Softsign", "Softplus", *WITH_PARAMETERS)


@dataclass(frozen=True)
class RecurrentNode:
    """A node of random weights.

    Attributes:
        initial: whether the initial states are left out ("none"), constant or inputs.
        outputs: which of Y, Y_h and Y_c the graph returns.
        valid: the constant sequence_lens; None without it.
        batch: number of sequences.
    """

    op_type: str
    steps: int
    features: int
    hidden: int
    direction: str = "forward"
    layout: int = 0
    initial: str = "none"
    outputs: tuple[str, ...] = ("Y",)
    bias: bool = True
    valid: int | None = None
    peepholes: bool = False
    seed: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)
    batch: int = 1

    @property
    def directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    @property
    def states(self) -> int:
        return 2 if self.op_type == "LSTM" else 1

    @property
    def state_shape(self) -> tuple[int, ...]:
        return (self.batch, self.directions, self.hidden) if self.layout else (self.directions, self.batch, self.hidden)

    def model(self) -> onnx.ModelProto:
        generator = np.random.default_rng(self.seed)
        directions, gates, hidden = self.directions, GATES[self.op_type], self.hidden
        size = hidden**-0.5
        constants = {
            "W": generator.uniform(-size, size, (directions, gates * hidden, self.features)),
            "R": generator.uniform(-size, size, (directions, gates * hidden, hidden)),
        }
        names = ["x", "W", "R", *[""] * 5]
        if self.bias:
            names[3], constants["B"] = "B", generator.uniform(-size, size, (directions, 2 * gates * hidden))
        if self.peepholes and self.op_type == "LSTM":
            names[7], constants["P"] = "P", generator.uniform(-size, size, (directions, 3 * hidden))
        shape = (self.batch, self.steps, self.features) if self.layout else (self.steps, self.batch, self.features)
        inputs: dict[str, tuple[int, ...]] = {"x": shape}
        for k, name in enumerate(("h", "c")[: self.states]):
            if self.initial == "constant":
                constants[name] = generator.uniform(-0.9, 0.9, self.state_shape)
            elif self.initial == "input":
                inputs[name] = self.state_shape
            names[5 + k] = name if self.initial != "none" else ""
        stored = [helper.make_tensor(name, TensorProto.FLOAT, a.shape, a.ravel()) for name, a in constants.items()]
        if self.valid is not None:
            names[4] = "valid"
            stored.append(helper.make_tensor("valid", TensorProto.INT32, [self.batch], [self.valid] * self.batch))
        while not names[-1]:
            names.pop()
        results = ["Y", "Y_h", "Y_c"][: 1 + self.states]
        many = self.batch
        whole = (many, self.steps, directions, hidden) if self.layout else (self.steps, directions, many, hidden)
        layout = {"layout": 1} if self.layout else {}
        node = helper.make_node(
            self.op_type, names, [name if name in self.outputs else "" for name in results], name="cell",
            hidden_size=hidden, direction=self.direction, **layout, **self.attributes,
        )  # fmt: skip
        graph = helper.make_graph(
            [node],
            "recurrent",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, whole if name == "Y" else self.state_shape)
                for name in results
                if name in self.outputs
            ],
            stored,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)

    def write(self, folder: Path) -> Path:
        path = folder / "recurrent.onnx"
        onnx.save(self.model(), path)
        return path


@st.composite
def recurrent_nodes(draw: st.DrawFn, *, activations: bool = True) -> RecurrentNode:
    op_type = draw(st.sampled_from(sorted(GATES)))
    steps = draw(st.integers(1, 6))
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    names = ["Y", "Y_h", "Y_c"][: 3 if op_type == "LSTM" else 2]
    attributes: dict[str, Any] = {}
    if op_type == "GRU":
        attributes["linear_before_reset"] = draw(st.integers(0, 1))
    if op_type == "LSTM":
        attributes["input_forget"] = draw(st.integers(0, 1))
    if draw(st.booleans()):
        attributes["clip"] = draw(st.sampled_from([0.25, 1.0]))
    if activations and draw(st.booleans()):
        count = PER_DIRECTION[op_type] * (2 if direction == "bidirectional" else 1)
        chosen = [draw(st.sampled_from(ACTIVATIONS)) for _ in range(count)]
        attributes["activations"] = chosen
        attributes["activation_alpha"] = [0.25 + 0.125 * k for k, name in enumerate(chosen) if name in WITH_PARAMETERS]
        attributes["activation_beta"] = [
            0.5 + 0.125 * k for k, name in enumerate(chosen) if WITH_PARAMETERS.get(name) == 2
        ]
        attributes = {name: value for name, value in attributes.items() if value != []}
    layout = draw(st.integers(0, 1))
    return RecurrentNode(
        op_type, steps, draw(st.integers(1, 4)), draw(st.integers(1, 4)), direction, layout,
        draw(st.sampled_from(["none", "constant", "input"])),
        tuple(sorted(draw(st.sets(st.sampled_from(names), min_size=1)))), draw(st.booleans()),
        draw(st.none() | st.integers(1, steps)), draw(st.booleans()), draw(st.integers(0, 999)), attributes,
        1 if layout else draw(st.integers(1, 3)),
    )  # fmt: skip
