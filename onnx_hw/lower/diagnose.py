"""Diagnosis of the nodes that stay out of hardware: only multiply-accumulates must be in hardware."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.obstacle import Obstacle, not_built, operator_name
from onnx_hw.lower.ops import lowering_of
from onnx_hw.messages.errors import Problem
from onnx_hw.onnx.evaluate.macs import macs_of
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.model import Node

QUANTIZE_ALL_HINT = "quantize all of the model, or none of it: a build chooses the scales of a float one"

CALIBRATE_HINT = "let a build choose a scale from samples (--calibration, --inputs), or quantize it in the model"


class Diagnosis:
    """Obstacles that the walk through the graph has met.

    Attributes:
        obstacles: obstacle of a node of the tail, by the key of the node.
        on_tail: names of the values that nodes of the tail make.
    """

    def __init__(self, builder: Builder, producers: Mapping[str, Node]) -> None:
        """Start without obstacles; ``producers`` are the nodes that make the values, by name."""
        self.builder, self.producers = builder, producers
        self.obstacles: dict[str, Obstacle] = {}
        self.on_tail: set[str] = set()

    def keep_out(self, node: Node, obstacle: Obstacle | None) -> None:
        """Record that a node belongs to the tail by its own ``obstacle``; None where only an input of it does."""
        self.on_tail.update(name for name in node.outputs if name)
        if obstacle is not None:
            self.obstacles[_key(node)] = obstacle

    def problems_of_products(self, nodes: Iterable[Node]) -> Iterator[Problem]:
        """Yield a problem for each cause that keeps multiply-accumulates of the host's ``nodes`` out of hardware."""
        reported: set[str] = set()
        for node in nodes:
            if macs_of(node, self.builder.graph) == 0:
                continue
            causes = self._causes(node)
            for cause in causes:
                if _key(cause) not in reported:
                    reported.add(_key(cause))
                    yield self._problem(cause, node)
            if not causes:
                obstacle = self._not_quantized(node) if lowering_of(node) else not_built(node)
                yield Problem(obstacle.code, obstacle.message, _where(node), obstacle.hint, "capability")

    def nothing_in_hardware(self, tail: Sequence[Node]) -> Problem:
        """Return the problem that the circuit would be empty."""
        if not self.builder.graph.inputs:
            message = "the model must have an input; without one all its values are constant, and no circuit computes"
            return Problem("nothing-in-hardware", f"{message} them", stage="capability")
        cause = next((node for node in tail if _key(node) in self.obstacles), None)
        message = "the model must have an operator that becomes hardware"
        if cause is not None:
            message += f": {self.obstacles[_key(cause)].message}"
        return Problem("nothing-in-hardware", message, _where(cause) if cause else "", QUANTIZE_ALL_HINT, "capability")

    def problems_of_states(self, obstacle: Obstacle, states: Iterable[str]) -> list[Problem]:
        """Return the problems that keep states of loops over time out of hardware: the causes, or the obstacle."""
        makers = [self.producers[name] for name in states if name in self.producers]
        causes = {_key(cause): (cause, maker) for maker in makers for cause in self._causes(maker)}
        if causes:
            return [self._problem(cause, maker) for cause, maker in causes.values()]
        where = _where(makers[0]) if makers else ""
        return [Problem(obstacle.code, obstacle.message, where, obstacle.hint, "capability")]

    def _problem(self, cause: Node, product: Node) -> Problem:
        """Return the problem that a node could not be lowered and that a product depends on it, or is that node."""
        obstacle = self.obstacles[_key(cause)]
        hint = obstacle.hint
        if obstacle.needs:
            hint += f"{', or ' if hint else ''}let a build choose a scale from samples (--calibration, --inputs)"
        elif cause is not product:
            hint = hint or f"`{product.label}` ({product.op_type}) follows it and must be in hardware"
        return Problem(obstacle.code, obstacle.message, _where(cause), hint, "capability")

    def _not_quantized(self, node: Node) -> Obstacle:
        """Return the obstacle of a product whose data is on the host, although no node was kept out of hardware."""
        for name in node.inputs[:2]:
            if (unknown := self.builder.unknown_shape(name)) is not None:
                return unknown
        message = f"the data of {operator_name(node)} must be quantized by QuantizeLinear and DequantizeLinear"
        return Obstacle("not-quantized", message, CALIBRATE_HINT)

    def _causes(self, node: Node) -> list[Node]:
        """Return the nodes that could not be lowered among a node of the tail and all that it depends on."""
        causes, queue, visited = [], [node], set()
        while queue:
            current = queue.pop()
            if _key(current) in visited:
                continue
            visited.add(_key(current))
            if _key(current) in self.obstacles:
                causes.append(current)
            queue += [
                self.producers[name] for name in names_read(current) if name in self.on_tail and name in self.producers
            ]
        return causes


def _key(node: Node) -> str:
    return node.where or node.label


def _where(node: Node) -> str:
    operator = operator_name(node)
    return f'{node.where}({operator} "{node.label}")' if node.where else f"{operator} `{node.label}`"
