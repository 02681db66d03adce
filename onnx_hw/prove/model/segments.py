"""Segmented run of a model (link 2): from values that golden knows to the next ones, so that differences do not
propagate.

First as ONNX says, in the model's own types. Where golden differs from that, once more in double precision: what every
number of the model exactly denotes, the integers being those of the first run, and how far between two integers a value
was before it was rounded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.evaluate.check_inputs import check_feeds
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.loops import delayed_values
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.dtypes import to_compute_dtype, to_model_dtype
from onnx_hw.onnx.operators.evaluate import compute, evaluate, tagged_constants
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.prove.model.sum_error_bound import sum_error, sums_products

REFINEMENT = 1 << 14
"""Factor by which a scale is made finer, to see a value before rounding; 17 bits of integers remain within int32."""

REL_NOISE_FLOOR = 1e-9
"""Least assumed noise, relative to the largest value: far more than the error of double precision, and negligible."""

DOUBLE = 11
"""TensorProto.DataType."""

NARROW = tuple(np.dtype(t) for t in (np.float16, np.float32, ml_dtypes.bfloat16))
"""Floats that double precision holds exactly."""


@dataclass(frozen=True)
class SegmentRun:
    """Values that a model computes of one frame, each segment from what golden knows before it.

    Attributes:
        frame: inputs of the graph.
        known: values that golden knows, in the model's dtypes, by name.
        computed: the same values as the model makes them, as far as an output depends on them.
        inner: integers that the model makes and golden does not know.
        outputs: outputs of the graph.
    """

    graph: Graph
    frame: Mapping[str, Any]
    known: Mapping[str, np.ndarray]
    computed: Mapping[str, np.ndarray]
    inner: Mapping[str, np.ndarray]
    outputs: Mapping[str, Any]

    def in_double(self, names: Collection[str], nudge: float = 0.0) -> dict[str, np.ndarray]:
        """Return values in double precision; of integers the value before rounding (within 1 / 2 ``REFINEMENT``).

        Args:
            names: names of values that a node makes.
            nudge: factor of ``noise`` that is added to the arguments of functions with jumps, and of the error bound of
                double precision that is added to sums of products.
        """
        producers = {name: node for node in self.graph.nodes for name in node.outputs if name in names}
        rounded = {name: node for name, node in producers.items() if facts_of(node).rounded is not None}
        wanted = {name for node in rounded.values() for name in node.inputs if name}
        wanted |= producers.keys() - rounded.keys()
        piece, feeds = self._piece(wanted)
        if nudge:
            jumping = [node.inputs[0] for node in piece.nodes if facts_of(node).jumps and node.inputs[0] not in feeds]
            noise = {name: nudge * self.noise(name) for name in jumping}
            piece = _moved(_nudged(piece, noise), self._sum_errors(piece, feeds, nudge))
        values, computed = _observed(_widened(piece), _all_wide(feeds), wanted)
        return {
            name: _before_rounding(rounded[name], values) if name in rounded else to_model_dtype(computed[name])
            for name in producers
        }

    def _sum_errors(self, piece: Graph, feeds: Mapping[str, Any], times: float) -> dict[str, np.ndarray]:
        """Return a multiple of the error bound of each sum of products, by its name."""
        sums = [node for node in piece.nodes if sums_products(node) and node.outputs[0] not in feeds]
        wanted = {name for node in sums for name in node.inputs if name}
        values = _observed(_widened(piece), _all_wide(feeds), wanted)[0] if wanted else {}
        inputs = {node.outputs[0]: [values[name] if name else None for name in node.inputs] for node in sums}
        return {node.outputs[0]: times * sum_error(node, inputs[node.outputs[0]]) for node in sums}

    def noise(self, name: str) -> float:
        """Return how far the model's own floats may be off: their greatest error in a value, and a little at least."""
        piece, feeds = self._piece([name])
        own = _observed(piece, feeds, [name])[1][name].astype(np.float64)
        real = _observed(_widened(piece), _all_wide(feeds), [name])[1][name]
        finite = np.isfinite(own) & np.isfinite(real)
        sizes, errors = np.abs(real[finite]), np.abs((own - real)[finite])
        return float(errors.max(initial=0.0) + REL_NOISE_FLOOR * sizes.max(initial=0.0))

    def real(self, name: str) -> tuple[np.ndarray, float]:
        """Return a value in double precision, and how far the model's own floats may be off in it."""
        if any(name in node.outputs for node in self.graph.nodes):
            return self.in_double([name])[name], self.noise(name)
        return np.asarray(_wide(self.frame[name])), 0.0

    def constant(self, name: str) -> Any:
        """Return another operand of a node in double precision; None for one that is left out."""
        if not name:
            return None
        if name in self.graph.constants:
            return _wide(self.graph.constants[name])
        return self.real(name)[0]

    def _piece(self, wanted: Collection[str]) -> tuple[Graph, dict[str, Any]]:
        """Return the nodes between known and wanted values, and the known values around them."""
        known = {**self.frame, **self.inner, **self.known}
        piece = _piece(self.graph, wanted, known)
        near = {*wanted, *(name for node in piece.nodes for name in names_read(node)), *delayed_values(piece.nodes)}
        return piece, {name: self._tagged(name, known[name]) for name in known.keys() & near}

    def is_exact(self, name: str) -> bool:
        """Say whether a value is integers, or what integers stand for: nothing was summed in floats."""
        producer = next((node for node in self.graph.nodes if name in node.outputs), None)
        return name in self.known or (producer is not None and facts_of(producer).effect is Effect.DEQUANTIZES)

    def _tagged(self, name: str, value: Any) -> Any:
        return to_compute_dtype(value, self.graph.values[name].element_type) if isinstance(value, np.ndarray) else value


def run_in_segments(model: Model, frame: Mapping[str, Any], known: Mapping[str, np.ndarray]) -> SegmentRun:
    """Run a model in its own types; ``frame`` holds its inputs, ``known`` the values that golden knows, by name."""
    computed: dict[str, np.ndarray] = {}
    inner: dict[str, np.ndarray] = {}

    def observe(name: str, value: Any) -> None:
        if name in known:
            computed[name] = value
        elif isinstance(value, np.ndarray) and value.dtype.kind in "iub" and name not in frame:
            inner[name] = value

    graph = model.graph
    types = {name: BY_NAME[graph.values[name].element_type].dtype for name in known}
    cast = {name: array.astype(types[name], copy=False) for name, array in known.items()}
    return SegmentRun(graph, frame, cast, computed, inner, reference.run(model, frame, observe=observe, instead=cast))


def evaluate_in_double(model: Model, frame: Mapping[str, Any]) -> dict[str, Any]:
    """Return the graph's outputs in double precision; ``frame`` holds its inputs."""
    feeds = {name: _wide(value) for name, value in check_feeds(model.graph, frame).items()}
    return evaluate(_widened(model.graph), feeds, [value.name for value in model.graph.outputs])


def _piece(graph: Graph, wanted: Collection[str], known: Collection[str]) -> Graph:
    """Return the nodes between known and wanted values, those that make the wanted ones included."""
    names, nodes = set(wanted), []
    for node in reversed(graph.nodes):
        if not names.isdisjoint(node.outputs):
            nodes.append(node)
            names |= {name for name in names_read(node) if name not in known}
    read = names.union(*(names_read(node) for node in nodes))
    constants = {name: array for name, array in graph.constants.items() if name in read}
    return replace(graph, nodes=tuple(nodes[::-1]), constants=constants)


def _wide(value: Any) -> Any:
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype in NARROW else value


def _widened(graph: Graph) -> Graph:
    """Return the same graph in double precision."""
    constants = {name: _wide(array) for name, array in tagged_constants(graph).items()}
    kept = {name: value for name, value in graph.values.items() if name not in constants}  # no types: as they are
    return replace(graph, nodes=tuple(_in_double(node) for node in graph.nodes), constants=constants, values=kept)


def _in_double(node: Node) -> Node:
    """Return a node whose real results are in double precision."""
    narrow = {key: node.attributes.get(key) for key in ("to", "output_dtype")}
    wider = {key: DOUBLE for key, code in narrow.items() if code in (1, 10, 16)}  # float, float16, bfloat16
    return replace(node, attributes={**node.attributes, **wider}) if wider else node


def _before_rounding(node: Node, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Compute what a node would have rounded, zero point included."""
    at = facts_of(node).rounded
    assert at is not None  # the caller asks of nodes that round
    inputs: list[Any] = [values[name] if name else None for name in node.inputs]
    inputs += [None] * (at + 2 - len(inputs))
    scale, zero = inputs[at], inputs[at + 1]
    inputs[at] = scale / REFINEMENT
    inputs[at + 1] = (np.zeros(scale.shape) if zero is None else zero).astype(np.int32) * REFINEMENT
    attributes = {key: value for key, value in node.attributes.items() if key not in ("output_dtype", "precision")}
    (result, *_) = compute(replace(node, attributes=attributes), inputs)
    return result / REFINEMENT


def _nudged(graph: Graph, terms: Mapping[str, float]) -> Graph:
    """Add a term to the argument of every function with jumps; terms by the arguments' names."""
    nodes: list[Node] = []
    constants = dict(graph.constants)
    for node in graph.nodes:
        if facts_of(node).jumps and node.inputs[0] in terms:
            moved, term = f"{node.outputs[0]}/nudged", f"{node.outputs[0]}/nudge"
            constants[term] = np.array(terms[node.inputs[0]])
            nodes.append(Node("", "Add", "", 13, (node.inputs[0], term), (moved,)))
            node = replace(node, inputs=(moved, *node.inputs[1:]))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _moved(graph: Graph, terms: Mapping[str, np.ndarray]) -> Graph:
    """Add a term to the results of nodes; terms by the results' names."""
    nodes: list[Node] = []
    constants = dict(graph.constants)
    for node in graph.nodes:
        name = node.outputs[0]
        if name not in terms:
            nodes.append(node)
            continue
        constants[f"{name}/error"] = terms[name]
        nodes.append(replace(node, outputs=(f"{name}/sum", *node.outputs[1:])))
        nodes.append(Node("", "Add", "", 13, (f"{name}/sum", f"{name}/error"), (name,)))
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _observed(graph: Graph, feeds: Mapping[str, Any], wanted: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the wanted values as later nodes receive them, and as they were computed."""
    computed: dict[str, Any] = {}

    def observe(name: str, value: Any) -> None:
        if name in wanted:
            computed[name] = value

    return evaluate(graph, feeds, sorted(wanted), observe=observe, instead=feeds), computed


def _all_wide(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _wide(value) for name, value in values.items()}
