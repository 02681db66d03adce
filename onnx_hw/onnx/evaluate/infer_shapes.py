"""Shape inference: from the types of the inputs to the type of every value, symbolic dimensions bound to numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.evaluate.fixed_shapes import fix_shapes
from onnx_hw.onnx.graph.model import Graph, Model, Node, Value
from onnx_hw.onnx.operators.dtypes import dtype_of_name, name_of_dtype
from onnx_hw.onnx.operators.evaluate import tagged_constants
from onnx_hw.onnx.operators.registry import lookup, node_location
from onnx_hw.onnx.operators.result_types import VALUE_LIMIT, result_types
from onnx_hw.onnx.operators.tensor_type import TensorType, Types


def infer(model: Model, dimensions: Mapping[str, int] | None = None) -> Model:
    """Infer the type of every value, as far as it can be known before the model runs, into ``graph.values``.

    Shapes that a model computes (Shape, Gather, Concat, Reshape chains) are followed by computing them. Values whose
    type stays unknown (of unknown operators, of shapes that depend on data) are left out unless the model declares it.

    Args:
        dimensions: numbers for dimension names. A leading axis without one is bound to 1, with a note.

    Raises:
        UserError: names or numbers that do not fit; dimensions without number; operators that cannot take their inputs;
            declared types that contradict the computed ones. All at once.
    """
    bound = fix_shapes(model, dimensions or {})
    problems: list[Problem] = []
    types = infer_graph(bound.graph, {}, problems)
    if problems:
        raise UserError(*problems)
    return replace(bound, graph=with_types(bound.graph, types))


def with_types(graph: Graph, types: Mapping[str, TensorType]) -> Graph:
    """Add these types to the graph's values and outputs."""
    inferred = {
        name: Value(name, name_of_dtype(tensor_type.dtype), tensor_type.shape) for name, tensor_type in types.items()
    }
    outputs = tuple(inferred.get(value.name, value) for value in graph.outputs)
    return replace(graph, values={**graph.values, **inferred}, outputs=outputs)


def infer_graph(
    graph: Graph,
    outer: Mapping[str, TensorType],
    problems: list[Problem],
    input_types: Mapping[str, TensorType] | None = None,
) -> dict[str, TensorType]:
    """Infer the types of a graph's own values; small constant ones get their value, too.

    Args:
        outer: the types of the values around a subgraph.
        problems: list to which every fault is added.
        input_types: types of inputs, where more is known than the graph declares.
    """
    types: dict[str, TensorType] = {}
    for name, array in tagged_constants(graph).items():
        types[name] = TensorType(array.dtype, array.shape, array)
    for value in graph.inputs:
        known = (input_types or {}).get(value.name) or tensor_type_of(value)
        if known is not None:
            types.setdefault(value.name, known)
    declared = {**graph.values, **{value.name: value for value in graph.outputs}}
    visible = Visible(types, outer)
    for node in graph.nodes:
        computed_types: list[TensorType | None] = [None] * len(node.outputs)
        if lookup(node.domain, node.op_type, node.version) is not None:
            try:
                computed_types = _node_types(node, visible)
            except UserError as error:
                problems.extend(error.problems)
        for name, computed in zip(node.outputs, computed_types, strict=True):
            if not name:
                continue
            if name in declared:
                computed = _reconcile_types(node, declared[name], computed, problems)
            if computed is not None:
                types[name] = computed
    return types


class Visible(Mapping[str, TensorType]):
    """Types that are visible in a subgraph: its own, then those around it. Nothing is copied, for there may be many."""

    def __init__(self, own: Mapping[str, TensorType], outer: Mapping[str, TensorType]):
        self.own, self.outer = own, outer

    def __getitem__(self, name: str) -> TensorType:
        return self.own[name] if name in self.own else self.outer[name]

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self.outer

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from (name for name in self.outer if name not in self.own)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def tensor_type_of(value: Value) -> TensorType | None:
    """Return the type of a tensor value, or None when its shape is not wholly known."""
    if value.shape is None or "(" in value.element_type or not value.element_type:
        return None
    shape = tuple(length for length in value.shape if isinstance(length, int))
    return TensorType(dtype_of_name(value.element_type), shape) if len(shape) == len(value.shape) else None


def _node_types(node: Node, known: Mapping[str, TensorType]) -> list[TensorType | None]:
    if any(name and name not in known for name in node.inputs):
        return [None] * len(node.outputs)

    def graph_types(graph: Graph, inputs: Types) -> list[TensorType | None]:
        """Infer the outputs of a subgraph. Its faults are not reported, for it may never run."""
        input_types = {
            value.name: tensor_type
            for value, tensor_type in zip(graph.inputs, inputs, strict=False)
            if tensor_type is not None
        }
        visible = Visible(infer_graph(graph, known, [], input_types), known)
        return [visible.get(value.name) for value in graph.outputs]

    computed = result_types(node, [known[name] if name else None for name in node.inputs], graph_types)
    return [
        tensor_type
        if tensor_type is None or tensor_type.size <= VALUE_LIMIT
        else TensorType(tensor_type.dtype, tensor_type.shape)
        for tensor_type in computed
    ]


def _reconcile_types(
    node: Node, declared: Value, computed: TensorType | None, problems: list[Problem]
) -> TensorType | None:
    """Return the computed type, else the declared one; report a problem when they contradict each other."""
    if computed is None:
        return tensor_type_of(declared)
    fits = declared.element_type in ("", name_of_dtype(computed.dtype))
    if declared.shape is not None:
        fits &= len(declared.shape) == computed.ndim
        fits &= all(not isinstance(d, int) or d == n for d, n in zip(declared.shape, computed.shape, strict=False))
    if not fits:
        actual = Value(declared.name, name_of_dtype(computed.dtype), computed.shape)
        message = f"the declared type must be the computed one, {actual!r}, not {declared!r}"
        problems.append(Problem("type-declared", message, node_location(node), stage="validate"))
    return computed
