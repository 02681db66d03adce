"""Small networks of hardware operators, built without ONNX, each with its foldings and FIFO depths."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design, FifoSize
from onnx_hw.ir.network import Boundary, Network, NetworkNode
from onnx_hw.ops.add import Add
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.gearbox import Gearbox
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.tensor import Tensor


@dataclass
class Sketch:
    """A network under construction: ``add`` appends a node and returns its output tensors' names."""

    inputs: list[str] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    nodes: list[NetworkNode] = field(default_factory=list)
    foldings: dict[str, Folding] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)

    def input(self, name: str, tensor: Tensor) -> str:
        self.inputs.append(name)
        self.tensors[name] = tensor
        return name

    def add(
        self, name: str, operator: Operator, inputs: list[str], folding: Folding | tuple[int, ...], *depths: int
    ) -> list[str]:
        """``folding`` may be the lanes in and out, and what else there is in the operator's own."""
        outputs = [f"{name}.{port}" for port in operator.outputs]
        self.nodes.append(NetworkNode(name, operator, tuple(inputs), tuple(outputs)))
        self.foldings[name] = folded(operator, folding)
        self.tensors |= dict(zip(outputs, operator.results(), strict=True))
        self.depths |= dict(zip(outputs, depths, strict=True))
        return outputs

    def design(self) -> Design:
        read = {name for node in self.nodes for name in node.inputs}
        outputs = [name for name in self.tensors if name not in read]
        network = Network(
            "sketch",
            tuple(self.nodes),
            {name: self.tensors[name] for name in self.inputs},
            tuple(self._boundary(name) for name in self.inputs),
            tuple(self._boundary(name) for name in outputs),
        )
        return Design(network, self.foldings, {n: FifoSize(d, 1, 1) for n, d in self.depths.items()})

    def _boundary(self, name: str) -> Boundary:
        tensor = self.tensors[name]
        return Boundary(name, name, (1, *tensor.shape), np.dtype(np.int64), np.arange(tensor.size))


def folded(operator: Operator, folding: Folding | tuple[int, ...]) -> Folding:
    """The operator's folding with these lanes in and out; streams that are equally wide have one number for both."""
    if isinstance(folding, Folding):
        return folding
    kind = operator.folding_type
    one_number = "out_lanes" not in kind.names()
    return kind(folding[0], *folding[2:]) if one_number else kind(*folding)  # type: ignore[call-arg]


def alone(operator: Operator, folding: Folding | tuple[int, ...], depth: int) -> Design:
    """A network of one node, called ``node``, with every output FIFO of one depth."""
    sketch = Sketch()
    inputs = [sketch.input(port, tensor) for port, tensor in zip(operator.inputs, operator.operands(), strict=True)]
    sketch.add("node", operator, inputs, folding, *[depth] * len(operator.outputs))
    return sketch.design()


def unequal_branches(depth: int) -> Design:
    """``x + x``, one copy by way of a beat of four channels: the other copy's FIFO must hold four tokens."""
    x = Tensor((1, 3, 4), Int(8))
    sketch = Sketch()
    copies = sketch.add("fork", Fork(x), [sketch.input("x", x)], (1, 1), 8, depth)
    (wide,) = sketch.add("widen", Gearbox(x), [copies[0]], (1, 4), 8)
    (narrow,) = sketch.add("narrow", Gearbox(x), [wide], (4, 1), 8)
    sketch.add("sum", Add(x, x), [narrow, copies[1]], (1, 1), 8)
    return sketch.design()
