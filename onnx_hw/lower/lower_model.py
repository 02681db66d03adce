"""Lowering of a quantized ONNX model to an integer network, with a head and a tail that stay on the host.

It is one walk over the nodes in topological order. Before the first hardware tensor a node belongs to the head. A node
whose data is in hardware is lowered. A node that cannot be lowered, and every node that depends on it, belongs to the
tail. A product must not be in head or tail: that, and every other obstacle, is reported in one run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from onnx_hw.exact.rationals import NotFinite
from onnx_hw.ir.network import Boundary, Network
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.lower.builder import INTEGER_TYPES, Builder
from onnx_hw.lower.diagnose import Diagnosis
from onnx_hw.lower.dry_run import DryRun
from onnx_hw.lower.host_dequantize import HostDequantizer
from onnx_hw.lower.host_partition import hardware_nodes, head_nodes, host_parts
from onnx_hw.lower.host_prefix import values_left_in_floats, values_of_head
from onnx_hw.lower.host_quantize import HostQuantizer
from onnx_hw.lower.join_steps import with_joined_steps
from onnx_hw.lower.layout.hoist_rearrangements import move_rearrangements_to_the_border
from onnx_hw.lower.layout.stream_layout import elements_of
from onnx_hw.lower.obstacle import TOO_MANY_WEIGHTS, Obstacle, not_built
from onnx_hw.lower.operators_on_loops import with_operators_on_loops
from onnx_hw.lower.ops import lowering_of
from onnx_hw.lower.ops.materialize_pending import lower
from onnx_hw.lower.ops.previous_step import close_loops
from onnx_hw.lower.ops.qdq import made_on_host
from onnx_hw.lower.ops.qonnx import enter_snapped
from onnx_hw.lower.provenance import provenance_of
from onnx_hw.lower.values.real import Real
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.onnx.canonicalize.check_tensor_sizes import MAX_ELEMENTS
from onnx_hw.onnx.evaluate.macs import macs_by_label
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.fresh_name import unused_name
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import SCALE_EFFECTS, Effect
from onnx_hw.ops.tensor import Tensor

MAX_WALKS = 70
"""Greatest number of walks: the bounds of a state that a loop delays follow from those that the walk before found."""


def import_model(model: Model) -> Network:
    """Return the network of a model that states its integers.

    Raises:
        UserError: some nodes cannot be lowered; it lists every obstacle, with the names of the nodes.
    """
    return lower_prepared(canonicalize(model))


def lower_prepared(
    model: Model, exact: Collection[str] = (), *, split_functions: bool = False, loadable: bool = False
) -> Network:
    """Return the network of a model whose tensors are quantized by QuantizeLinear and DequantizeLinear.

    Args:
        model: result of ``canonicalize``.
        exact: names of values that their readers take without a quantizer, as sums and products of any width.
        split_functions: whether a function that is too large for a table becomes the difference of two rising ones.
        loadable: as in ``NetworkBuilder``.

    Raises:
        UserError: some nodes cannot be lowered; it lists every obstacle, with the names of the nodes.
    """
    states: Mapping[str, Tensor] = {}
    for _ in range(MAX_WALKS):
        walk = LoweringState(model.graph, exact)
        walk.builder.splits_functions, walk.builder.loadable = split_functions, loadable
        walk.builder.states = states
        for node in model.graph.nodes:
            walk.visit(node)
        states = walk.close_loops()
        if states == walk.builder.states:
            return walk.finish(model)
    raise AssertionError("the bounds of a state only become narrower, and soon stay")


class LoweringState:
    """State of the walk over the nodes of a graph.

    Attributes:
        dry_run: dry run of the nodes behind an obstacle.
        producers: the node that makes each value, by the name of the value.
        head: nodes met so far that depend on graph inputs alone.
        stored: nodes that only make quantized constants.
        restated: names of real values that integers of the model stand for: the host can make them from those.
        tail: nodes that cannot be lowered, and those that depend on them.
        diagnosis: obstacles of the nodes of the tail.
        head_values: names of values that products depend on by way of a node that stays on the host.
    """

    def __init__(self, graph: Graph, exact: Collection[str] = ()) -> None:
        self.graph = graph
        self.builder = Builder(graph, exact=frozenset(exact))
        self.dry_run = DryRun(self.builder)
        self.producers = {name: node for node in graph.nodes for name in node.outputs if name}
        self.head: list[Node] = []
        self.stored: list[Node] = []
        self.restated: set[str] = set()
        self.tail: list[Node] = []
        self.diagnosis = Diagnosis(self.builder, self.producers)
        float_values = values_left_in_floats(graph)
        self.head_values = values_of_head(graph, lambda node: not float_values.isdisjoint(node.outputs))
        for value in graph.inputs:
            if value.element_type in INTEGER_TYPES and value.shape is not None and elements_of(value) <= MAX_ELEMENTS:
                self._enter(value.name)

    def _enter(self, name: str) -> None:
        shape, element_type = self.builder.shape(name), self.graph.values[name].element_type
        dtype = np.dtype(BY_NAME[element_type].dtype)
        integer, node = INTEGER_TYPES[element_type], self.producers.get(name)
        if node is not None:
            integer = made_on_host(self.builder, node, self.producers.get(node.inputs[0]))
        self.builder.values[name] = self.builder.add_input(name, shape, integer, dtype)

    def visit(self, node: Node) -> None:
        """Lower a node, or assign it to the head or the tail."""
        inputs = names_read(node)
        large = self._too_large(node)
        if not self.head_values.isdisjoint(node.outputs):
            self.head.append(node)
            if large is None:
                self._try_in_hardware_too(node)
        elif large is not None and self._is_streamed(node):
            self._to_tail(node, large)
        elif any(name in self.diagnosis.on_tail for name in inputs):
            lowering = lowering_of(node)
            self._to_tail(node, self.dry_run.obstacle(node, lowering) if lowering else not_built(node))
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
            Obstacle, NotFinite: hardware has no such integers.
        """
        if facts_of(node).effect is Effect.SNAPS:
            used_names = (self.graph.values, self.graph.constants, self.builder.entries)
            enter_snapped(self.builder, node, unused_name(f"{node.outputs[0]}/integers", *used_names))
        else:
            self._enter(node.outputs[0])

    def _try_in_hardware_too(self, node: Node) -> None:
        """Lower a node of the host, too, if possible: other nodes may read its result in hardware."""
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
        """Return whether an input or a result of a node would be in hardware."""
        entered = {value.name for value in self.graph.inputs if value.element_type in INTEGER_TYPES}
        return (
            self._reads_stream(node)
            or any(name in self.diagnosis.on_tail or name in entered for name in node.inputs)
            or self._can_enter(node)
        )

    def _too_large(self, node: Node) -> Obstacle | None:
        """Return an obstacle if an input or output of a node, other than a constant, is too large for a stream."""
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
        """Return whether a node reads nothing but constants, plain or quantized."""
        known = (self.builder.constants, self.graph.constants)
        return all(any(name in table for table in known) for name in names_read(node))

    def _can_enter(self, node: Node) -> bool:
        """Return whether the host can stream in the integers that a node makes, if their shape is known."""
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
        """Return whether a result is on the stream of integers of the model, or of numbers that restate such."""
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
        """Return whether a value is a constant, a value of the head or an input of the graph."""
        streamed = name in self.builder.values or name in self.builder.pending
        return not streamed or name in {value.name for value in self.graph.inputs}

    def _to_tail(self, node: Node, obstacle: Obstacle | None) -> None:
        self.tail.append(node)
        self.diagnosis.keep_out(node, obstacle)
        self.dry_run.add_stand_ins(node)

    def close_loops(self) -> dict[str, Tensor]:
        """Connect the loops over time; return the types of their states, by name, empty where there are problems."""
        try:
            return close_loops(self.builder)
        except Obstacle as obstacle:
            self.builder.problems += self.diagnosis.problems_of_states(obstacle, self.builder.open_loops.values())
            return dict(self.builder.states)

    # ---- end of the walk ------------------------------------------------------------------------------------

    def finish(self, model: Model) -> Network:
        """Return the network of the nodes that were lowered, with head and tail.

        Args:
            model: the model of the graph.

        Raises:
            UserError: the model has problems; it lists them all.
        """
        builder, graph = self.builder, self.graph
        outputs = [value.name for value in graph.outputs]
        if not builder.nodes:
            self._rearrange_outputs(outputs)
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
        builder.problems += self.diagnosis.problems_of_products((*(head if used else self.head), *tail))
        if not used and not builder.problems:
            builder.problems.append(self.diagnosis.nothing_in_hardware(self.tail))
        if builder.problems:
            too_large = all(problem.code == TOO_MANY_WEIGHTS for problem in builder.problems)
            raise UserError(*builder.problems, exit_code=ExitCode.DOES_NOT_FIT if too_large else ExitCode.USAGE)
        boundaries = []
        for name in boundary_values:
            value = builder.values[name]
            element_type = graph.values[name].element_type
            boundaries.append(builder.boundary(value, name, np.dtype(BY_NAME[element_type].dtype)))
        quantizer = HostQuantizer(graph, builder, entries.values())
        read = {name for node in used for name in node.inputs}
        kept = read | {name for node in used for name in node.outputs}
        held = provenance_of(builder, kept)
        approximate = {b.onnx_name: error for b in held if (error := builder.approximate.get(b.onnx_name))}
        dequantizer = HostDequantizer(quantizer.added.graph(graph.nodes))
        head, entering = [*head, *quantizer.nodes], [entry.onnx_name for entry in entries.values()]
        for name in accumulators:
            real = Real.cast(builder.values[name])
            assert real is not None
            if real.error or real.rounded:
                approximate[name] = float(real.error + real.rounded)
            leaving = real.whole(builder.tensors[real.tensor].size) if real.partial else real
            boundaries.append(builder.boundary(leaving, dequantizer.add(name, real, leaving.shape), np.dtype(np.int64)))
        order = {id(node): k for k, node in enumerate(graph.nodes)}
        tail = [*dequantizer.nodes, *sorted(tail, key=lambda node: order[id(node)])]
        parts = host_parts(replace(model, graph=dequantizer.added.graph(graph.nodes)), head, tail, entering)
        network = with_operators_on_loops(
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
                held,
                macs_by_label(graph, {name for node in used for name in node.origin}),
                approximate,
            )
        )
        if not builder.loadable:
            network = with_joined_steps(network)
        return move_rearrangements_to_the_border(verify_network(network, "import_model"))

    def _rearrange_outputs(self, outputs: Sequence[str]) -> None:
        """Add rearrangements for outputs of a model that does nothing but move elements."""
        for name in outputs:
            value, node = self.builder.values.get(name), self.producers.get(name)
            if node is None or not self._is_moved(name):
                continue  # the host has the value already
            if value is not None and value.is_linear and value.tensor in self.builder.entries:
                identity = np.arange(value.where.size)
                self.builder.values[name] = self.builder.moved(value, identity, value.shape, node)
                self.restated.discard(name)

    def _is_moved(self, name: str) -> bool:
        """Return whether some node moves elements between the inputs and a value: more than a change of scale."""
        while name not in self.builder.entries and name in self.producers:
            if facts_of(self.producers[name]).effect not in SCALE_EFFECTS:
                return True
            name = self.producers[name].inputs[0]
        return False

    def _tail(self, outputs: Sequence[str]) -> tuple[list[Node], list[str], list[str]]:
        """Return the nodes of the tail that the outputs need, the names of the ONNX values whose integers leave the
        hardware, and those of the real values whose accumulators leave it.
        """
        builder = self.builder
        on_head = {name for node in self.head for name in node.outputs}
        nodes: list[Node] = []
        leaving: list[str] = []
        accumulators: list[str] = []
        queue = list(outputs)
        visited = set()
        while queue:
            name = queue.pop(0)
            if name in visited:
                continue
            visited.add(name)
            value = builder.values.get(name)
            if value is not None and value.is_integers:
                if value.tensor in builder.tensors and value.tensor not in builder.entries:
                    leaving.append(name)
                    continue
                if name in builder.entries:
                    continue  # untouched by the hardware: the host has it
            node = self.producers.get(name)
            if node is None or (name in on_head and self.graph.values[name].element_type):
                continue  # what the head makes is handed over, if its element type is known
            if value is not None and not value.is_integers and value.is_linear and name not in self.restated:
                accumulators.append(name)
                continue
            if not any(node is other for other in nodes):
                nodes.append(node)
            queue += sorted(names_read(node))
        return nodes, leaving, accumulators
