"""Rules for shapes: computed and declared ones must agree, whatever numbers the dimensions stand for.

Inference works on numbers. A model with open dimensions is therefore inferred twice, with different numbers for them:
a length that comes out the same both times does not depend on them, and one that follows a dimension is that dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from onnx_hw.messages.errors import Problem
from onnx_hw.messages.text import quote
from onnx_hw.onnx.check.types import node_location
from onnx_hw.onnx.evaluate.dimensions import substitute_dimensions
from onnx_hw.onnx.evaluate.infer_shapes import Visible, infer_graph
from onnx_hw.onnx.graph.dependencies import subgraphs
from onnx_hw.onnx.graph.model import Graph, Model, Node, Value
from onnx_hw.onnx.operators.pooling import pool_window
from onnx_hw.onnx.operators.tensor_type import TensorType
from onnx_hw.onnx.parse.diagnostics import Findings

#: Primes, because the product of two is never a third one. Dimension k gets one of each row, another pair for each k.
_TRIALS = ((13, 17, 19, 23, 29), (31, 37, 41, 43, 47))
_MAX_OPEN_DIMENSIONS = len(_TRIALS[0]) * len(_TRIALS[1])

Shape = tuple[int | str | None, ...]


@dataclass(frozen=True)
class OpenDimension:
    """Open dimension of the inputs: its name if it has one, and the numbers it gets in the two trials."""

    name: str | None
    numbers: tuple[int, int]


def check_shapes(model: Model, findings: Findings) -> dict[str, Shape]:
    """Report impossible shapes; return the shape of every value of the main graph for which one was inferred."""
    opened = _open_dimensions(model.graph)
    if len(opened) > _MAX_OPEN_DIMENSIONS:
        return {}
    problems: list[Problem] = []
    first = _infer_types(_trial(model.graph, opened, 0), {}, problems)
    second = _infer_types(_trial(model.graph, opened, 1), {}, []) if opened else first
    for problem in problems:
        # What fails with trial numbers may succeed with others; "type-declared" is reported below, for all numbers.
        if not opened and problem.stage == "validate" and problem.code != "type-declared":
            findings.must(problem.code, problem.message, problem.where, problem.hint)
    promises = model.ir_version > 3  # before that, a name meant one number within a declaration only
    lengths: dict[str, tuple[int, str, bool]] = {}
    for graph, one, other in zip(_graphs(model.graph), first, second, strict=True):
        shapes = {
            name: _merge_trials(tensor_type.shape, other[name].shape, opened)
            for name, tensor_type in one.items()
            if name in other and other[name].ndim == tensor_type.ndim
        }
        miscounted = _miscounted_values(graph, one)
        for name, code, message, where in _wrong_shapes(graph, shapes):
            if name in miscounted:
                findings.should(code, message, where, "older shape inference counts a window that ceil_mode leaves out")
            else:
                findings.must(code, message, where)
        for promised, code, message, where in _wrong_names(graph, shapes, lengths):
            (findings.must if promised and promises else findings.should)(code, message, where)
        if graph is model.graph:
            main_shapes = shapes
    return main_shapes


def _graphs(graph: Graph) -> Iterator[Graph]:
    """Yield the graph, and every subgraph behind its owner."""
    yield graph
    for node in graph.nodes:
        for inner in subgraphs(node):
            yield from _graphs(inner)


def _infer_types(graph: Graph, outer: Mapping[str, TensorType], problems: list[Problem]) -> list[dict[str, TensorType]]:
    """Return the known types of each graph's values, in the order of ``_graphs``."""
    types = infer_graph(graph, outer, problems)
    types_of_graphs = [types]
    for node in graph.nodes:
        for inner in subgraphs(node):
            types_of_graphs += _infer_types(inner, Visible(types, outer), [])  # it may be a branch that is never taken
    return types_of_graphs


def with_inferred_shapes(model: Model, shapes: Mapping[str, Shape]) -> Model:
    """Add inferred shapes to outputs that declare none, and drop declarations that proved untrue.

    The latter are lengths that were warned of, and names within the graph that are not the names of inputs' dimensions.
    """
    graph = model.graph
    border = {value.name for value in (*graph.inputs, *graph.outputs)}
    outputs = {
        value.name: replace(value, shape=shapes[value.name])
        if value.shape is None and value.name in shapes
        else _drop_untrue(value, shapes.get(value.name), names=False)
        for value in graph.outputs
    }
    inner = {
        name: _drop_untrue(value, shapes.get(name), names=name not in border) for name, value in graph.values.items()
    }
    changed = replace(graph, outputs=tuple(outputs[value.name] for value in graph.outputs), values={**inner, **outputs})
    return replace(model, graph=changed)


def _drop_untrue(value: Value, inferred: Shape | None, *, names: bool) -> Value:
    """Drop lengths where another one was inferred, and with ``names`` also names that were not inferred."""
    if inferred is None or value.shape is None:
        return value
    if len(inferred) != len(value.shape):
        return replace(value, shape=None)
    shape = tuple(
        None if stated != length and (names if isinstance(stated, str) else isinstance(length, int)) else stated
        for length, stated in zip(inferred, value.shape, strict=True)
    )
    return value if shape == value.shape else replace(value, shape=shape)


def _open_dimensions(graph: Graph) -> list[OpenDimension]:
    """Return the open dimensions of the inputs: each name once; each dimension without a name by itself."""
    names: list[str | None] = []
    for value in graph.inputs:
        for dimension in value.shape or ():
            if dimension is None or (isinstance(dimension, str) and dimension not in names):
                names.append(dimension)
    rows = len(_TRIALS[0])
    return [
        OpenDimension(name, (_TRIALS[0][k % rows], _TRIALS[1][(k + k // rows) % rows])) for k, name in enumerate(names)
    ]


def _trial(graph: Graph, opened: list[OpenDimension], which: int) -> Graph:
    """Return the graph with numbers for its open dimensions."""
    if not opened:
        return graph
    bound = substitute_dimensions(
        graph, {variable.name: variable.numbers[which] for variable in opened if variable.name is not None}
    )
    unnamed = iter([variable.numbers[which] for variable in opened if variable.name is None])
    inputs = tuple(
        value
        if value.shape is None
        else replace(value, shape=tuple(next(unnamed) if d is None else d for d in value.shape))
        for value in bound.inputs
    )
    return replace(bound, inputs=inputs)


def _merge_trials(first: tuple[int, ...], second: tuple[int, ...], opened: list[OpenDimension]) -> Shape:
    names = {variable.numbers: variable.name for variable in opened}
    return tuple(a if a == b else names.get((a, b)) for a, b in zip(first, second, strict=True))


def _wrong_shapes(graph: Graph, shapes: Mapping[str, Shape]) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, code, message and place of every value declared with another rank or length than it has."""
    producers = _producers(graph)
    for name, declared in _declarations(graph).items():
        computed = shapes.get(name)
        if computed is None or declared.shape is None:
            continue
        fits = len(computed) == len(declared.shape) and all(
            length == stated or not (isinstance(length, int) and isinstance(stated, int))
            for length, stated in zip(computed, declared.shape, strict=True)
        )
        if not fits:
            actual = Value(name, declared.element_type, computed)
            message = f"value {quote(name)} is declared as {_shown(declared)}, but is {_shown(actual)}"
            yield name, "declared-shape", message, producers.get(name, f"value {quote(name)}")


def _wrong_names(
    graph: Graph, shapes: Mapping[str, Shape], lengths: dict[str, tuple[int, str, bool]]
) -> Iterator[tuple[bool, str, str, str]]:
    """Yield the dimension names that stand for two numbers: whether promised, code, message and place.

    Outputs make promises; what ``value_info`` says of values within the graph is a description, and exporters give one
    name to different lengths there.

    Args:
        lengths: for each name its number, the place of it, and whether an output says so; the function adds to it.
    """
    producers = _producers(graph)
    outputs = {value.name for value in graph.outputs}
    for name, declared in sorted(_declarations(graph).items(), key=lambda item: item[0] not in outputs):
        for length, stated in zip(shapes.get(name) or (), declared.shape or (), strict=False):
            if not isinstance(length, int) or not isinstance(stated, str):
                continue
            where = producers.get(name, f"value {quote(name)}")
            known, known_where, promised = lengths.setdefault(stated, (length, where, name in outputs))
            if known != length:
                message = (
                    f"dimension {quote(stated)} must be one number in the whole model; "
                    f"it is {known} at {known_where} and {length} here"
                )
                yield promised and name in outputs, "dimension-contradicts", message, where


def _declarations(graph: Graph) -> dict[str, Value]:
    return {**graph.values, **{value.name: value for value in graph.outputs}}


def _producers(graph: Graph) -> dict[str, str]:
    """Return the place of the node that produces each value."""
    return {name: node_location(node) for node in graph.nodes for name in node.outputs}


def _shown(value: Value) -> str:
    return repr(replace(value, name="")).removeprefix(": ")


def _miscounted_values(graph: Graph, types: Mapping[str, TensorType]) -> set[str]:
    """Return the values whose declared shapes may count a window that does not exist.

    With ``ceil_mode`` a window that would begin in the padding behind the tensor is left out, as the specification says
    and as runtimes compute. Shape inference before opset 22 counts it, and so writes wrong lengths for the pooling and
    for all nodes that depend on it.
    """
    miscounted: set[str] = set()
    for node in graph.nodes:
        if any(name in miscounted for name in node.inputs) or _leaves_out_a_window(node, types):
            miscounted.update(node.outputs)
    return miscounted


def _leaves_out_a_window(node: Node, types: Mapping[str, TensorType]) -> bool:
    attributes = node.attributes
    if not attributes.get("ceil_mode") or "kernel_shape" not in attributes or node.inputs[0] not in types:
        return False
    try:
        return pool_window(types[node.inputs[0]].shape, **attributes).omits_last
    except ValueError:
        return False
