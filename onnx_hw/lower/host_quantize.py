"""ONNX nodes that turn numbers of a grid, made by the host, into the integers that enter the hardware."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.layout.stream_layout import StreamInput
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.element_types import BY_NAME, element_type_of
from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.model import Graph, Node, Value

VERSION = 13
"""Opset version of the nodes."""

DOUBLE = "double"


class HostQuantizer:
    """Collection of the nodes that make integers on the host.

    Attributes:
        added: the model's graph, with the constants and values that the nodes need.
        nodes: the nodes, in topological order.
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
        """Add nodes for ``round((value − offset) / slope)`` in double precision.

        The value is a number of the grid, so the rounding errors of float64 cannot change the integer.
        """
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

    def _node(self, operator: str, preferred_name: str, shape: tuple[int, ...], *inputs: str, **attributes: int) -> str:
        result = self.added.value(preferred_name, Value(preferred_name, DOUBLE, shape))
        self.nodes.append(Node("", operator, "", VERSION, inputs, (result,), attributes))
        return result
