"""Values and constants that a pass adds to a graph, under names that nothing else has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from onnx_hw.onnx.graph.fresh_name import unused_name
from onnx_hw.onnx.graph.model import Graph, Node, Value


class Additions:
    """Values and constants of a graph, by name, together with those that were added."""

    def __init__(self, graph: Graph) -> None:
        self.values, self.constants = dict(graph.values), dict(graph.constants)
        self._graph = graph
        self._taken = {*graph.values, *graph.constants, *(name for node in graph.nodes for name in node.outputs)}

    def name(self, wish: str) -> str:
        """Return a name that is taken from now on: the wish itself if it is free."""
        name = unused_name(wish, self._taken)
        self._taken.add(name)
        return name

    def value(self, wish: str, like: Value) -> str:
        """Add a value of the type of another one; return its name."""
        name = self.name(wish)
        self.values[name] = replace(like, name=name)
        return name

    def constant(self, wish: str, array: np.ndarray, element_type: str) -> str:
        """Add a constant; return its name. Its dtype is the one in which a model holds ``element_type``."""
        name = self.value(wish, Value(wish, element_type, array.shape))
        self.constants[name] = array
        return name

    def graph(self, nodes: Iterable[Node]) -> Graph:
        """Return the graph with these nodes and everything that was added."""
        return replace(self._graph, nodes=tuple(nodes), constants=self.constants, values=self.values)
