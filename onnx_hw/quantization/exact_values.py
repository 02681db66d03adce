"""Exact values: values without integers of their own, whose readers take the sums and products of integers as they are.

Sixteen bits hold numbers that span 48 dB of power. The power of a spectrum spans more, and its logarithm asks for all
of it. Such a square, the sum of two of them, and the result of a product before a rising function need no rounding: the
hardware carries as many bits as they have. ``mixed_precision/widen.py`` chooses them where rounding costs too much, and
a precision file may name them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from onnx_hw.lower.ops.lookup import MONOTONIC_OPERATORS
from onnx_hw.messages.errors import user_error
from onnx_hw.onnx.graph.dependencies import readers_of
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import LINEAR_EFFECTS, Effect


@dataclass(frozen=True)
class ExactGroup:
    """Values that stay exact together.

    Attributes:
        names: names of the values.
        factors: names of the values whose squares they are; these share one grid.
    """

    names: frozenset[str]
    factors: frozenset[str] = frozenset()


def exact_groups(graph: Graph, points: Collection[str]) -> dict[str, ExactGroup]:
    """Return the values that can stay exact, each with the group that it is exact with.

    Args:
        graph: float32 graph.
        points: names of the values that would get integers.
    """
    return _Groups(graph, points).found


def check_exact_values(exact: Collection[str], groups: Mapping[str, ExactGroup]) -> None:
    """Check that exact values are ones that can be, each with all values of its group.

    Raises:
        UserError: one of them is not.
    """
    for name in exact:
        if name not in groups or not groups[name].names <= set(exact):
            others = sorted(groups[name].names) if name in groups else []
            only = "can only be exact together with " + " and ".join(f"`{other}`" for other in others)
            raise user_error(
                "scheme",
                f"`{name}` {only if others else 'cannot be exact'}",
                hint=f"values that can: {', '.join(f'`{other}`' for other in sorted(groups)) or 'none'}",
                stage="quantize",
            )


def exact_sources(graph: Graph, exact: Collection[str]) -> frozenset[str]:
    """Return exact values and those that have the same numbers at other places."""
    names = set(exact)
    for node in graph.nodes:
        if facts_of(node).effect is Effect.KEEPS and node.inputs[0] in names:
            names.update(node.outputs)
    return frozenset(names)


class _Groups:
    """Walk over the nodes that finds groups."""

    def __init__(self, graph: Graph, points: Collection[str]) -> None:
        self.graph, self.points = graph, points
        self.readers = readers_of(graph.nodes)
        self.outputs = {value.name for value in graph.outputs}
        self.point_of = {name: name for name in points}  # of values with the integers of a point
        self.found: dict[str, ExactGroup] = {}
        squares: dict[str, str] = {}  # square -> its factor
        for node in graph.nodes:
            result = node.outputs[0]
            if facts_of(node).effect is Effect.KEEPS and node.inputs[0] in self.point_of:
                self.point_of |= dict.fromkeys(node.outputs, self.point_of[node.inputs[0]])
            factor = self._factor(node) if result in points else None
            if factor is not None:
                squares[result] = factor
                if self._all_readers(result, self._is_matrix_product):
                    self.found[result] = ExactGroup(frozenset((result,)), frozenset((factor,)))
            elif result in points and self._adds(node) and set(node.inputs) <= squares.keys():
                self._sum(node, squares)
            elif facts_of(node).effect is Effect.SUMS and facts_of(node).weights is not None:
                self._before_function(result)

    def _factor(self, node: Node) -> str | None:
        """Return the point that a node squares; None for other nodes."""
        if len(node.inputs) != 2:
            return None
        data, other = node.inputs
        if node.op_type == "Pow" and other in self.graph.constants:
            squares = bool((self.graph.constants[other] == 2).all())
        else:
            squares = node.op_type == "Mul" and data == other
        return self.point_of.get(data) if squares and not node.domain else None

    def _adds(self, node: Node) -> bool:
        return node.op_type == "Add" and not node.domain and len(set(node.inputs)) == 2

    def _sum(self, node: Node, squares: Mapping[str, str]) -> None:
        """Add a sum of squares, whose only reader each square has in it, and the squares."""
        result, parts = node.outputs[0], list(node.inputs)
        if any(len(self.readers.get(part, ())) != 1 or part in self.outputs for part in parts):
            return
        factors = frozenset(squares[part] for part in parts)
        whole = self._all_readers(result, self._is_matrix_product)
        group = ExactGroup(frozenset((*parts, result) if whole else parts), factors)
        self.found |= dict.fromkeys(group.names, group)

    def _before_function(self, result: str) -> None:
        """Add the result of a product, or what constants make of it, if only a rising function reads it."""
        while result not in self.points:
            following = self.readers.get(result, ())
            if result in self.outputs or len(following) != 1 or not self._is_linear(following[0]):
                return
            result = following[0].outputs[0]
        if self._all_readers(result, self._rises):
            self.found[result] = ExactGroup(frozenset((result,)))

    def _all_readers(self, name: str, accepts: Callable[[Node, str], bool]) -> bool:
        """Say whether there are readers, behind data movement, and all are of a kind."""
        names, some = [name], False
        for name in names:
            if name in self.outputs:
                return False
            for node in self.readers.get(name, ()):
                if facts_of(node).effect is Effect.KEEPS:
                    names += node.outputs
                elif accepts(node, name):
                    some = True
                else:
                    return False
        return some

    def _is_matrix_product(self, node: Node, name: str) -> bool:
        place = facts_of(node).weights
        if place is None or facts_of(node).effect is not Effect.SUMS or node.inputs[0] != name:
            return False
        weights = self.graph.constants.get(node.inputs[place.at])
        return weights is not None and node.attributes.get("group", 1) == 1

    def _is_linear(self, node: Node, *, positive: bool = False) -> bool:
        constants = [self.graph.constants[name] for name in node.inputs if name in self.graph.constants]
        if len(constants) != len(node.inputs) - 1 or facts_of(node).effect not in LINEAR_EFFECTS | {Effect.BOUNDS}:
            return False
        if not positive:
            return True
        falls = facts_of(node).effect is not Effect.ADDS and any((array <= 0).any() for array in constants)
        return node.inputs[0] not in self.graph.constants and not falls

    def _rises(self, node: Node, name: str) -> bool:
        """Say whether a node computes a rising function, which constants may scale before it gets integers."""
        if node.op_type not in MONOTONIC_OPERATORS or node.domain or node.inputs[0] != name:
            return False
        result = node.outputs[0]
        while result not in self.points:
            following = self.readers.get(result, ())
            if result in self.outputs or len(following) != 1 or not self._is_linear(following[0], positive=True):
                return False
            result = following[0].outputs[0]
        return True
