"""What keeps nodes out of hardware, and which problems that makes: multiply-accumulates belong there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops import lowering_of
from onnx_hw.messages.errors import Problem
from onnx_hw.onnx.evaluate.macs import macs_of
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.model import Node

ALL_OR_NONE = "quantize all of the model, or none of it: a build chooses the scales of a float one"

FROM_SAMPLES = "let a build choose a scale from samples (--calibration, --inputs), or quantize it in the model"


class Diagnosis:
    """The reasons, as a walk through the graph finds them.

    Attributes:
        why: what kept a node of the tail out of hardware.
        on_tail: values that nodes of the tail make.
    """

    def __init__(self, builder: Builder, made: Mapping[str, Node]) -> None:
        """``made``: the node that makes each value."""
        self.builder, self.made = builder, made
        self.why: dict[str, Obstacle] = {}
        self.on_tail: set[str] = set()

    def keep_out(self, node: Node, obstacle: Obstacle | None) -> None:
        """A node belongs to the tail; without an obstacle of its own where what it reads is on it."""
        self.on_tail.update(name for name in node.outputs if name)
        if obstacle is not None:
            self.why[_key(node)] = obstacle

    def problems_of_products(self, nodes: Iterable[Node]) -> Iterator[Problem]:
        """Of nodes of the host those that multiply and accumulate, and what kept their data out of hardware."""
        told: set[str] = set()
        for node in nodes:
            if macs_of(node, self.builder.graph) == 0:
                continue
            causes = self._causes(node)
            for cause in causes:
                if _key(cause) not in told:
                    told.add(_key(cause))
                    yield self._problem(cause, node)
            if not causes:
                obstacle = self._not_quantized(node) if lowering_of(node) else not_built(node)
                yield Problem(obstacle.code, obstacle.message, _where(node), obstacle.hint, "capability")

    def nothing_in_hardware(self, tail: Sequence[Node]) -> Problem:
        """That the circuit would be empty."""
        if not self.builder.graph.inputs:
            message = "the model must have an input; without one all its values are constant, and no circuit computes"
            return Problem("nothing-in-hardware", f"{message} them", stage="capability")
        cause = next((node for node in tail if _key(node) in self.why), None)
        message = "the model must have an operator that becomes hardware"
        if cause is not None:
            message += f": {self.why[_key(cause)].message}"
        return Problem("nothing-in-hardware", message, _where(cause) if cause else "", ALL_OR_NONE, "capability")

    def _problem(self, cause: Node, product: Node) -> Problem:
        """What kept a node out of hardware that a product depends on, or the product itself."""
        obstacle = self.why[_key(cause)]
        hint = obstacle.hint
        if obstacle.needs:
            hint += f"{', ' if hint else ''}or let a build choose a scale from samples (--calibration, --inputs)"
        elif cause is not product:
            hint = hint or f"`{product.label}` ({product.op_type}) follows it and must be in hardware"
        return Problem(obstacle.code, obstacle.message, _where(cause), hint, "capability")

    def _not_quantized(self, node: Node) -> Obstacle:
        """Why the data of a product is on the host though nothing kept it out of hardware."""
        for name in node.inputs[:2]:
            if (unknown := self.builder.unknown_shape(name)) is not None:
                return unknown
        message = f"the data of {_operator(node)} must be quantized by QuantizeLinear and DequantizeLinear"
        return Obstacle("not-quantized", message, FROM_SAMPLES)

    def _causes(self, node: Node) -> list[Node]:
        """The nodes that could not be lowered, at or before a node of the tail."""
        found, queue, seen = [], [node], set()
        while queue:
            current = queue.pop()
            if _key(current) in seen:
                continue
            seen.add(_key(current))
            if _key(current) in self.why:
                found.append(current)
            queue += [self.made[name] for name in names_read(current) if name in self.on_tail and name in self.made]
        return found


def not_built(node: Node) -> Obstacle:
    return Obstacle("unsupported", f"{_operator(node)} is not built in hardware")


def _key(node: Node) -> str:
    return node.where or node.label


def _operator(node: Node) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def _where(node: Node) -> str:
    return f'{node.where}({_operator(node)} "{node.label}")' if node.where else f"{_operator(node)} `{node.label}`"
