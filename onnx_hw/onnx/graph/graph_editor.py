"""What a pass adds to a graph: values and constants, under names that are nobody else's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from onnx_hw.onnx.graph.fresh_name import unused_name
from onnx_hw.onnx.graph.model import Graph, Node, Value


class Additions:
    """A graph's values and constants with those that were added.

    Attributes:
        values, constants: of the graph and added, by name.
    """

    def __init__(self, graph: Graph) -> None:
        self.values, self.constants = dict(graph.values), dict(graph.constants)
        self._graph = graph
        self._taken = {*graph.values, *graph.constants, *(name for node in graph.nodes for name in node.outputs)}

    def name(self, wish: str) -> str:
        """A name that from now on is taken, the wish itself if it is free."""
        name = unused_name(wish, self._taken)
        self._taken.add(name)
        return name

    def value(self, wish: str, like: Value) -> str:
        """The name of a new value of some type."""
        name = self.name(wish)
        self.values[name] = replace(like, name=name)
        return name

    def constant(self, wish: str, array: np.ndarray, element_type: str) -> str:
        """The name of a new constant; its dtype is the one in which a model holds ``element_type``."""
        name = self.value(wish, Value(wish, element_type, array.shape))
        self.constants[name] = array
        return name

    def graph(self, nodes: Iterable[Node]) -> Graph:
        """The graph with these nodes and all that was added."""
        return replace(self._graph, nodes=tuple(nodes), constants=self.constants, values=self.values)
