"""Decomposition of channels-last Conv, MaxPool and BatchNormalization into those of ONNX between Transposes."""

from __future__ import annotations

from dataclasses import replace

from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators.qonnx import CHANNELS_LAST

VERSION = 13
"""Opset of the nodes."""


def is_channels_last(node: Node) -> bool:
    return node.domain == CHANNELS_LAST


def decompose_channels_last(model: Model) -> Model:
    """Return the same typed model with operators of the default domain alone."""
    return replace(model, graph=_ChannelsLastRewriter(model.graph).graph)


class _ChannelsLastRewriter:
    """Rewriter that visits node after node."""

    def __init__(self, graph: Graph) -> None:
        self.added, self.nodes = Additions(graph), list[Node]()
        for node in graph.nodes:
            of = self.added.values.get(node.inputs[0]) if node.inputs else None
            rank = 0 if of is None else len(of.shape or ())
            if is_channels_last(node) and rank > 2:
                self._turn(node, rank)
            else:
                self.nodes.append(node)
        self.graph = self.added.graph(self.nodes)

    def _turn(self, node: Node, rank: int) -> None:
        first = (0, rank - 1, *range(1, rank - 1))
        last = (0, *range(2, rank), 1)
        inputs = [self._transposed(node, node.inputs[0], "data", first), *node.inputs[1:]]
        if node.op_type == "Conv":  # its weights lie like the data
            inputs[1] = self._transposed(node, inputs[1], "weights", first)
        result = self._value(f"{node.outputs[0]}/channels_first", node.outputs[0], first)
        self.nodes.append(replace(node, domain="", version=VERSION, inputs=tuple(inputs), outputs=(result,)))
        self.nodes.append(Node("", "Transpose", "", VERSION, (result,), node.outputs, {"perm": last}))

    def _transposed(self, node: Node, name: str, what: str, order: tuple[int, ...]) -> str:
        result = self._value(f"{node.outputs[0]}/{what}", name, order)
        self.nodes.append(Node("", "Transpose", "", VERSION, (name,), (result,), {"perm": order}))
        return result

    def _value(self, name: str, like: str, order: tuple[int, ...]) -> str:
        """Add a value with the axes of another one in this order; return its name."""
        known = self.added.values[like]
        shape = None if known.shape is None else tuple(known.shape[axis] for axis in order)
        return self.added.value(name, replace(known, shape=shape))
