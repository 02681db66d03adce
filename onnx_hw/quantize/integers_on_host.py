"""Numbers of a grid, which the host has made, become the integers that enter the hardware: ONNX nodes for that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from onnx_hw.onnx.element_types import BY_NAME, of_dtype
from onnx_hw.onnx.model import Graph, Node, Value
from onnx_hw.onnx.unused_name import unused_name
from onnx_hw.quantize.builder import Builder, Entry
from onnx_hw.quantize.values import Real

VERSION = 13
"""Opset of the nodes."""

DOUBLE = "double"


class IntegersOnHost:
    """Collects the nodes.

    Attributes:
        graph: the model's, with the constants and values that the nodes need.
        nodes: in order.
    """

    def __init__(self, graph: Graph, builder: Builder, entries: Iterable[Entry]) -> None:
        self.constants, self.values = dict(graph.constants), dict(graph.values)
        self.nodes: list[Node] = []
        for entry in entries:
            if entry.of:
                value = builder.values[entry.of]
                assert isinstance(value, Real)
                self._add(entry, value)
        self.graph = replace(graph, constants=self.constants, values=self.values)

    def _add(self, entry: Entry, value: Real) -> None:
        """Nodes for ``round((value − offset) / slope)`` in double precision, which makes no difference that counts."""
        name, shape = entry.of, entry.shape
        current = self._node("Cast", name, name, "double", shape, to=BY_NAME[DOUBLE].code)
        current = self._node("Sub", name, current, "from zero", shape, self._constant(name, "offset", value))
        current = self._node("Div", name, current, "in steps", shape, self._constant(name, "slope", value))
        current = self._node("Round", name, current, "rounded", shape)
        element = of_dtype(np.dtype(entry.dtype))
        self.values[entry.onnx_name] = Value(entry.onnx_name, element.name, shape)
        attributes = {"to": element.code}
        self.nodes.append(Node("", "Cast", "", VERSION, (current,), (entry.onnx_name,), attributes))

    def _constant(self, name: str, what: str, value: Real) -> str:
        """Slope or offset, one number or one per element of the value."""
        stored = self._unused(f"{name}/{what}")
        self.constants[stored] = value.spread(getattr(value, what))
        self.values[stored] = Value(stored, DOUBLE, self.constants[stored].shape)
        return stored

    def _node(
        self, operator: str, name: str, data: str, what: str, shape: tuple[int, ...], *constant: str, **attributes: int
    ) -> str:
        result = self._unused(f"{name}/{what}")
        self.values[result] = Value(result, DOUBLE, shape)
        self.nodes.append(Node("", operator, "", VERSION, (data, *constant), (result,), attributes))
        return result

    def _unused(self, name: str) -> str:
        return unused_name(name, self.values, self.constants)
