"""A quantized ONNX model becomes an integer network, with a head and a tail that stay on the host.

One walk over the nodes in topological order. Before the first hardware tensor a node belongs to the head; a node whose
data is in hardware is lowered; one that cannot be lowered, and all that depends on it, belongs to the tail. A node
that multiplies must not be in head or tail: that, and everything else that stands in the way, is reported at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from onnx_hw.exact.rationals import NotFinite
from onnx_hw.ir.network import Boundary, Network
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.lower.builder import INTEGER_TYPES, Builder
from onnx_hw.lower.diagnose import Diagnosis, not_built
from onnx_hw.lower.dry_run import Rehearsal
from onnx_hw.lower.host_dequantize import ScaleOnHost
from onnx_hw.lower.host_partition import hardware_nodes, head_nodes, host_parts
from onnx_hw.lower.host_prefix import left_in_floats, values_of_head
from onnx_hw.lower.host_quantize import IntegersOnHost
from onnx_hw.lower.layout.hoist_rearrangements import move_rearrangements_to_the_border
from onnx_hw.lower.layout.stream_layout import MAX_ELEMENTS, elements_of
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops import lowering_of
from onnx_hw.lower.ops.materialize_pending import lower
from onnx_hw.lower.ops.qdq import made_on_host
from onnx_hw.lower.ops.qonnx import enter_snapped
from onnx_hw.lower.provenance import held_values
from onnx_hw.lower.values.real import Real
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.onnx.evaluate.macs import macs_by_label
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.fresh_name import unused_name
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import SCALE_EFFECTS, Effect


def import_model(model: Model) -> Network:
    """The network of a model that brings its integers.

    Raises:
        UserError: every obstacle, with the nodes' own names.
    """
    return import_prepared(canonicalize(model))


def import_prepared(model: Model) -> Network:
    """The network of a ``canonicalize`` model whose tensors are quantized by QuantizeLinear and DequantizeLinear.

    Raises:
        UserError: every obstacle, with the nodes' own names.
    """
    walk = LoweringState(model.graph)
    for node in model.graph.nodes:
        walk.visit(node)
    return walk.finish(model)


class LoweringState:
    """State of the walk.

    Attributes:
        head: nodes that depend on graph inputs alone, so far.
        stored: nodes that only make quantized constants.
        restated: real numbers that integers of the model stand for: the host can make them from those.
        tail: nodes that cannot be lowered, and those that depend on them.
        why_not: what kept nodes of the tail out of hardware.
        of_host: values that lead to hardware by way of a node that stays on the host.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = Builder(graph)
        self.rehearsal = Rehearsal(self.builder)
        self.made = {name: node for node in graph.nodes for name in node.outputs if name}
        self.head: list[Node] = []
        self.stored: list[Node] = []
        self.restated: set[str] = set()
        self.tail: list[Node] = []
        self.why_not = Diagnosis(self.builder, self.made)
        left = left_in_floats(graph)
        self.of_host = values_of_head(graph, lambda node: not left.isdisjoint(node.outputs))
        for value in graph.inputs:
            if value.element_type in INTEGER_TYPES and value.shape is not None and elements_of(value) <= MAX_ELEMENTS:
                self._enter(value.name)

    def _enter(self, name: str) -> None:
        shape, element_type = self.builder.shape(name), self.graph.values[name].element_type
        dtype = np.dtype(BY_NAME[element_type].dtype)
        integer, node = INTEGER_TYPES[element_type], self.made.get(name)
        if node is not None:
            integer = made_on_host(self.builder, node, self.made.get(node.inputs[0]))
        self.builder.values[name] = self.builder.add_input(name, shape, integer, dtype)

    def visit(self, node: Node) -> None:
        inputs = names_read(node)
        large = self._too_large(node)
        if not self.of_host.isdisjoint(node.outputs):
            self.head.append(node)
            if large is None:
                self._perhaps_also_in_hardware(node)
        elif large is not None and self._is_streamed(node):
            self._to_tail(node, large)
        elif any(name in self.why_not.on_tail for name in inputs):
            lowering = lowering_of(node)
            self._to_tail(node, self.rehearsal.obstacle(node, lowering) if lowering else not_built(node))
        elif self._reads_stream(node) or self._is_constant(node):
            self._lower(node)
        elif self._can_enter(node):
            unknown = self.builder.unknown_shape(node.outputs[0])
            if unknown is None:
                self._enter_or_leave_out(node)
            else:
                self._to_tail(node, unknown)
        else:
            self.head.append(node)

    def _enter_or_leave_out(self, node: Node) -> None:
        try:
            self._enter_result(node)
        except Obstacle as obstacle:
            self._to_tail(node, obstacle)
        except NotFinite as error:
            self._to_tail(node, Obstacle("not-finite", str(error)))
        else:
            self.head.append(node)

    def _enter_result(self, node: Node) -> None:
        """Hand in the integers of a node that quantizes on the host.

        Raises:
            Obstacle, NotFinite: there are none for hardware.
        """
        if facts_of(node).effect is Effect.SNAPS:
            taken = (self.graph.values, self.graph.constants, self.builder.entries)
            enter_snapped(self.builder, node, unused_name(f"{node.outputs[0]}/integers", *taken))
        else:
            self._enter(node.outputs[0])

    def _perhaps_also_in_hardware(self, node: Node) -> None:
        """Other nodes may read there what the host computes for its own."""
        if self._can_enter(node) and node.inputs[0] not in self.builder.values:
            if self.builder.unknown_shape(node.outputs[0]) is None:
                with suppress(Obstacle, NotFinite):
                    self._enter_result(node)
        elif (lowering := lowering_of(node)) and any(name in self.builder.values for name in names_read(node)):
            with suppress(Obstacle, NotFinite):
                lowering(self.builder, node)

    def _reads_stream(self, node: Node) -> bool:
        return any(name in self.builder.values or name in self.builder.pending for name in names_read(node))

    def _is_streamed(self, node: Node) -> bool:
        """Whether hardware would have to do with what a node reads or makes."""
        entered = {value.name for value in self.graph.inputs if value.element_type in INTEGER_TYPES}
        return (
            self._reads_stream(node)
            or any(name in self.why_not.on_tail or name in entered for name in node.inputs)
            or self._can_enter(node)
        )

    def _too_large(self, node: Node) -> Obstacle | None:
        """Of what a node reads and makes, constants apart, the first tensor that is too large for a stream."""
        for name in (*node.inputs, *node.outputs):
            value = self.graph.values.get(name)
            if value is None or name in self.graph.constants or name in self.builder.constants:
                continue
            if elements_of(value) > MAX_ELEMENTS:
                return Obstacle(
                    "too-many-elements",
                    f"a tensor in hardware must have at most {MAX_ELEMENTS:,} elements; `{name}` has"
                    f" {elements_of(value):,}, {list(value.shape or ())}",
                )
        return None

    def _is_constant(self, node: Node) -> bool:
        """A node that only makes quantized constants."""
        known = (self.builder.constants, self.graph.constants)
        return all(any(name in table for table in known) for name in names_read(node))

    def _can_enter(self, node: Node) -> bool:
        """Whether the host can hand in what a node quantizes, if its shape is known."""
        if facts_of(node).effect is not Effect.QUANTIZES:
            return facts_of(node).effect is Effect.SNAPS
        scale = self.builder.constant(node.inputs[1])
        element_type = self.graph.values[node.outputs[0]].element_type
        return scale is not None and scale.size == 1 and element_type in INTEGER_TYPES

    def _lower(self, node: Node) -> None:
        lowering = lowering_of(node)
        try:
            if lowering is None:
                raise not_built(node)
            lower(lowering, self.builder, node)
        except Obstacle as obstacle:
            if lowering is None and all(self._is_on_host(name) for name in names_read(node)):
                self.head.append(node)
            else:
                self._to_tail(node, obstacle)
        except NotFinite as error:
            self._to_tail(node, Obstacle("not-finite", str(error)))
        else:
            if all(name in self.builder.constants for name in node.outputs if name):
                self.stored.append(node)
            self.restated.update(name for name in node.outputs if self._restates(node, name))

    def _restates(self, node: Node, result: str) -> bool:
        """Whether a result is on the stream of integers that the model has, or of what restates them."""
        values = self.builder.values
        value = values.get(result)
        if value is None or value.is_integers:
            return False
        return any(
            values[name].tensor == value.tensor and (values[name].is_integers or name in self.restated)
            for name in node.inputs
            if name in values
        )

    def _is_on_host(self, name: str) -> bool:
        """Constants, values of the head, inputs of the graph."""
        streamed = name in self.builder.values or name in self.builder.pending
        return not streamed or name in {value.name for value in self.graph.inputs}

    def _to_tail(self, node: Node, obstacle: Obstacle | None) -> None:
        self.tail.append(node)
        self.why_not.keep_out(node, obstacle)
        self.rehearsal.stand_in(node)

    # ---- the end of the walk ------------------------------------------------------------------------------------

    def finish(self, model: Model) -> Network:
        builder, graph = self.builder, self.graph
        outputs = [value.name for value in graph.outputs]
        if not builder.nodes:
            self._carry_through(outputs)
        tail, boundary_values, accumulators = self._tail(outputs)
        used = hardware_nodes(
            builder.nodes, [builder.values[name].tensor for name in (*boundary_values, *accumulators)]
        )
        entries = {
            name: entry
            for name, entry in builder.entries.items()
            if entry.order is not None and any(name in node.inputs for node in used)
        }
        entering = [entry.of or entry.onnx_name for entry in entries.values()]
        before = [node for node in graph.nodes if id(node) in {id(other) for other in (*self.head, *self.stored)}]
        head = head_nodes(graph, before, entering, tail)
        builder.problems += self.why_not.problems_of_products((*(head if used else self.head), *tail))
        if not used and not builder.problems:
            builder.problems.append(self.why_not.nothing_in_hardware(self.tail))
        if builder.problems:
            raise UserError(*builder.problems)
        boundaries = []
        for name in boundary_values:
            value = builder.values[name]
            element_type = graph.values[name].element_type
            boundaries.append(builder.boundary(value, name, np.dtype(BY_NAME[element_type].dtype)))
        counting = IntegersOnHost(graph, builder, entries.values())
        scaling, approximate = ScaleOnHost(counting.added.graph(graph.nodes)), dict[str, float]()
        head, entering = [*head, *counting.nodes], [entry.onnx_name for entry in entries.values()]
        for name in accumulators:
            real = Real.cast(builder.values[name])
            assert real is not None
            if real.error:
                approximate[name] = float(real.error)
            leaving = real.whole(builder.tensors[real.tensor].size) if real.partial else real
            boundaries.append(builder.boundary(leaving, scaling.add(name, real, leaving.shape), np.dtype(np.int64)))
        order = {id(node): k for k, node in enumerate(graph.nodes)}
        tail = [*scaling.nodes, *sorted(tail, key=lambda node: order[id(node)])]
        parts = host_parts(replace(model, graph=scaling.added.graph(graph.nodes)), head, tail, entering)
        read = {name for node in used for name in node.inputs}
        kept = read | {name for node in used for name in node.outputs}
        network = verify_network(
            Network(
                model.name,
                tuple(used),
                {name: builder.tensors[name] for name in entries},
                tuple(
                    Boundary(name, entry.onnx_name, entry.shape, entry.dtype, entry.order)  # type: ignore[arg-type]
                    for name, entry in entries.items()
                ),
                tuple(boundaries),
                {name: grid for name, grid in builder.grids.items() if name in kept},
                parts.head,
                parts.tail,
                tuple(outputs),
                parts.handed,
                graph.inputs,
                held_values(builder, kept),
                macs_by_label(graph, {name for node in used for name in node.origin}),
                approximate,
            ),
            "import_model",
        )
        return move_rearrangements_to_the_border(network)

    def _carry_through(self, outputs: Sequence[str]) -> None:
        """Let a model that does nothing but exchange places do that in hardware."""
        for name in outputs:
            value, node = self.builder.values.get(name), self.made.get(name)
            if node is None or not self._moves(name):
                continue  # as the host has it
            if value is not None and value.is_linear and value.tensor in self.builder.entries:
                places = np.arange(value.where.size)
                self.builder.values[name] = self.builder.moved(value, places, value.shape, node)
                self.restated.discard(name)

    def _moves(self, name: str) -> bool:
        """Whether a value is more than integers that were handed in, or what those stand for."""
        while name not in self.builder.entries and name in self.made:
            if facts_of(self.made[name]).effect not in SCALE_EFFECTS:
                return True
            name = self.made[name].inputs[0]
        return False

    def _tail(self, outputs: Sequence[str]) -> tuple[list[Node], list[str], list[str]]:
        """Nodes of the tail that the outputs need; ONNX values of integers that leave the hardware, and of real numbers
        for which accumulators leave.
        """
        builder = self.builder
        on_head = {name for node in self.head for name in node.outputs}
        nodes: list[Node] = []
        leaving: list[str] = []
        accumulators: list[str] = []
        queue = list(outputs)
        seen = set()
        while queue:
            name = queue.pop(0)
            if name in seen:
                continue
            seen.add(name)
            value = builder.values.get(name)
            if value is not None and value.is_integers:
                if value.tensor in builder.tensors and value.tensor not in builder.entries:
                    leaving.append(name)
                    continue
                if name in builder.entries:
                    continue  # untouched by the hardware: the host has it
            node = self.made.get(name)
            if node is None or (name in on_head and self.graph.values[name].element_type):
                continue  # what the head makes is handed over, if its type can be said
            if value is not None and not value.is_integers and value.is_linear and name not in self.restated:
                accumulators.append(name)
                continue
            if not any(node is other for other in nodes):
                nodes.append(node)
            queue += sorted(names_read(node))
        return nodes, leaving, accumulators
