"""ONNX nodes that turn accumulators from the hardware into real numbers on the host: ``clip(slope · x + offset)``."""

from __future__ import annotations

import numpy as np

from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.model import Graph, Node, Value

VERSION = 13
"""Opset version of the nodes."""


class HostDequantizer:
    """Collection of the nodes that dequantize on the host.

    Attributes:
        added: the model's graph, with the constants and values that the nodes need.
        nodes: the nodes, in topological order.
    """

    def __init__(self, graph: Graph) -> None:
        self.added = Additions(graph)
        self.nodes: list[Node] = []

    def add(self, name: str, value: Real, leaving: tuple[int, ...]) -> str:
        """Add nodes that make a value from its int64 integers, in double precision; return the name of those integers.

        Args:
            leaving: shape of the integers that leave the hardware: that of the value, or flat where the value has only
                some of them.
        """
        integers = current = self.added.value(f"{name}/integers", Value(name, "int64", leaving))
        if value.partial:
            positions = self._store(f"{name}/places", value.where.reshape(value.shape), "int64")
            current = self._node("Gather", name, "placed", value.shape, [integers, positions], "int64", axis=0)
        current = self._node("Cast", name, "double", value.shape, [current], to=11)
        current = self._node("Mul", name, "scaled", value.shape, [current, self._constant(name, "slope", value)])
        current = self._node("Add", name, "shifted", value.shape, [current, self._constant(name, "offset", value)])
        for operator, bound in (("Max", value.low), ("Min", value.high)):
            if bound is not None:
                limit = self._store(f"{name}/{operator.lower()}", np.array(float(bound)))
                current = self._node(operator, name, f"{operator.lower()}ed", value.shape, [current, limit])
        known = self.added.values[name]
        to = {"float": 1, "float16": 10, "double": 11, "bfloat16": 16}[known.element_type]
        self.nodes.append(Node("", "Cast", "", VERSION, (current,), (name,), {"to": to}))
        return integers

    def _constant(self, name: str, what: str, value: Real) -> str:
        """Store the slope or offset, one number or one per element of the value; return the name of the constant."""
        return self._store(f"{name}/{what}", value.broadcast(getattr(value, what)))

    def _store(self, name: str, array: np.ndarray, element_type: str = "double") -> str:
        return self.added.constant(name, array, element_type)

    def _node(
        self,
        operator: str,
        name: str,
        result: str,
        shape: tuple[int, ...],
        inputs: list[str],
        element_type: str = "double",
        **attributes: int,
    ) -> str:
        output = self.added.value(f"{name}/{result}", Value(name, element_type, shape))
        self.nodes.append(Node("", operator, "", VERSION, tuple(inputs), (output,), attributes))
        return output
