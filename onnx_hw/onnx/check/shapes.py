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
from onnx_hw.onnx.operators.classical_features import DOMAIN
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


@dataclass(frozen=True)
class InferredShapes:
    """Result of inference for all numbers that open dimensions can stand for.

    Attributes:
        shapes: shape of every value of the main graph for which one was inferred.
        ambiguous: dimension names that stand for two lengths, somewhere in the model.
    """

    shapes: Mapping[str, Shape]
    ambiguous: frozenset[str]


def check_shapes(model: Model, findings: Findings) -> InferredShapes:
    """Report impossible shapes, and dimension names that stand for two lengths.

    The latter are a warning: exporters write them, and runtimes read a name as a description.
    """
    opened = _open_dimensions(model.graph)
    if len(opened) > _MAX_OPEN_DIMENSIONS:
        return InferredShapes({}, frozenset())
    problems: list[Problem] = []
    first = _infer_types(_trial(model.graph, opened, 0), {}, problems)
    second = _infer_types(_trial(model.graph, opened, 1), {}, []) if opened else first
    for problem in problems:
        # What fails with trial numbers may succeed with others; "type-declared" is reported below, for all numbers.
        if not opened and problem.stage == "validate" and problem.code != "type-declared":
            findings.must(problem.code, problem.message, problem.where, problem.hint)
    lengths = {variable.name: (variable.numbers, "the inputs") for variable in opened if variable.name is not None}
    ambiguous: set[str] = set()
    for graph, one, other in zip(_graphs(model.graph), first, second, strict=True):
        shapes = {
            name: _merge_trials(tensor_type.shape, other[name].shape, opened)
            for name, tensor_type in one.items()
            if name in other and other[name].ndim == tensor_type.ndim
        }
        miscounted, classical = _miscounted_values(graph, one), _classical_values(graph)
        for name, code, message, where in _wrong_shapes(graph, shapes):
            if name in miscounted:
                findings.should(code, message, where, "older shape inference counts a window that ceil_mode leaves out")
            elif name in classical:
                findings.should(code, message, where, "exporters of classical models state the shape of one target")
            else:
                findings.must(code, message, where)
        for dimension, message, where in _ambiguous_names(graph, one, other, lengths):
            if dimension not in ambiguous:
                findings.should("dimension-contradicts", message, where, "the shapes are inferred without this name")
            ambiguous.add(dimension)
        if graph is model.graph:
            main_shapes = shapes
    return InferredShapes(main_shapes, frozenset(ambiguous))


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


def with_inferred_shapes(model: Model, inferred: InferredShapes) -> Model:
    """Add inferred shapes to outputs that declare none, and drop declarations that proved untrue.

    The latter are lengths and names that were warned of, and names within the graph that are not the names of inputs'
    dimensions. An ambiguous name stays the name of the inputs' dimension alone.
    """
    shapes = inferred.shapes
    graph = replace(substitute_dimensions(model.graph, dict.fromkeys(inferred.ambiguous)), inputs=model.graph.inputs)
    border = {value.name for value in (*graph.inputs, *graph.outputs)}
    outputs = {value.name: _completed(value, shapes.get(value.name)) for value in graph.outputs}
    inner = {
        name: _drop_untrue(value, shapes.get(name), names=name not in border) for name, value in graph.values.items()
    }
    changed = replace(graph, outputs=tuple(outputs[value.name] for value in graph.outputs), values={**inner, **outputs})
    return replace(model, graph=changed)


def _completed(output: Value, inferred: Shape | None) -> Value:
    """Return an output with the lengths that were inferred and that it does not declare, and without untrue ones."""
    if output.shape is None and inferred is not None:
        return replace(output, shape=inferred)
    true = _drop_untrue(output, inferred, names=False)
    if true.shape is None or inferred is None:
        return true
    return replace(true, shape=tuple(b if a is None else a for a, b in zip(true.shape, inferred, strict=True)))


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


def _ambiguous_names(
    graph: Graph,
    first: Mapping[str, TensorType],
    second: Mapping[str, TensorType],
    lengths: dict[str, tuple[tuple[int, int], str]],
) -> Iterator[tuple[str, str, str]]:
    """Yield the dimension names that stand for two lengths: the name, a message and the place.

    Args:
        first: types with the numbers of the first trial, by value.
        second: types with the numbers of the second trial.
        lengths: for each name its lengths in the two trials, and the place of them; the function adds to it.
    """
    producers = _producers(graph)
    outputs = {value.name for value in graph.outputs}
    for name, declared in sorted(_declarations(graph).items(), key=lambda item: item[0] not in outputs):
        if declared.shape is None or name not in producers or name not in first or name not in second:
            continue
        both = (first[name].shape, second[name].shape)
        if not len(both[0]) == len(both[1]) == len(declared.shape):
            continue
        where = producers[name]
        for one, other, stated in zip(*both, declared.shape, strict=True):
            if not isinstance(stated, str):
                continue
            known, known_where = lengths.setdefault(stated, ((one, other), where))
            if known != (one, other):
                yield (
                    stated,
                    f"dimension {quote(stated)} should be one number in the whole model; it is"
                    f" {_shown_length(known)} at {known_where} and {_shown_length((one, other))} here",
                    where,
                )


def _shown_length(trials: tuple[int, int]) -> str:
    return f"{trials[0]:,}" if trials[0] == trials[1] else "a length that depends on the inputs"


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


def _classical_values(graph: Graph) -> set[str]:
    """Return the values that depend on an operator of ``ai.onnx.ml``, which has no shape inference in ONNX."""
    classical: set[str] = set()
    for node in graph.nodes:
        if node.domain == DOMAIN or any(name in classical for name in node.inputs):
            classical.update(node.outputs)
    return classical


def _leaves_out_a_window(node: Node, types: Mapping[str, TensorType]) -> bool:
    attributes = node.attributes
    if not attributes.get("ceil_mode") or "kernel_shape" not in attributes or node.inputs[0] not in types:
        return False
    try:
        return pool_window(types[node.inputs[0]].shape, **attributes).omits_last
    except ValueError:
        return False
