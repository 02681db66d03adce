"""Numbers of a grid, which the host has made, become the integers that enter the hardware: ONNX nodes for that."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.network_builder import StreamInput
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.element_types import BY_NAME, element_type_of
from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.model import Graph, Node, Value

VERSION = 13
"""Opset of the nodes."""

DOUBLE = "double"


class IntegersOnHost:
    """Collects the nodes.

    Attributes:
        added: the model's graph, with the constants and values that the nodes need.
        nodes: in order.
    """

    def __init__(self, graph: Graph, builder: Builder, entries: Iterable[StreamInput]) -> None:
        self.added = Additions(graph)
        self.nodes: list[Node] = []
        for entry in entries:
            if entry.of:
                value = Real.cast(builder.values[entry.of])
                assert value is not None
                self._add(entry, value)

    def _add(self, entry: StreamInput, value: Real) -> None:
        """Nodes for ``round((value − offset) / slope)`` in double precision, which makes no difference that counts."""
        name, shape = entry.of, entry.shape
        current = self._node("Cast", f"{name}/double", shape, name, to=BY_NAME[DOUBLE].code)
        offset, slope = (
            self.added.constant(f"{name}/{what}", value.broadcast(getattr(value, what)), DOUBLE)
            for what in ("offset", "slope")
        )
        current = self._node("Sub", f"{name}/moved", shape, current, offset)
        current = self._node("Div", f"{name}/counted", shape, current, slope)
        current = self._node("Round", f"{name}/round", shape, current)
        element = element_type_of(np.dtype(entry.dtype))
        self.added.values[entry.onnx_name] = Value(entry.onnx_name, element.name, shape)
        attributes = {"to": element.code}
        self.nodes.append(Node("", "Cast", "", VERSION, (current,), (entry.onnx_name,), attributes))

    def _node(self, operator: str, wish: str, shape: tuple[int, ...], *inputs: str, **attributes: int) -> str:
        result = self.added.value(wish, Value(wish, DOUBLE, shape))
        self.nodes.append(Node("", operator, "", VERSION, inputs, (result,), attributes))
        return result
