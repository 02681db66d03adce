"""Shapes: what the operators compute and what the file declares must agree, whatever numbers its dimensions stand for.

Inference works on numbers. A model with open dimensions is therefore inferred twice, with different numbers for them:
a length that comes out the same both times does not depend on them, and one that follows a dimension is that dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from onnx_hw.errors import Problem
from onnx_hw.onnx.dependencies import subgraphs
from onnx_hw.onnx.dimensions import substituted
from onnx_hw.onnx.findings import Findings, quote
from onnx_hw.onnx.infer_shapes import Visible, infer_graph
from onnx_hw.onnx.model import Graph, Model, Value
from onnx_hw.onnx.operators.tensor_type import TensorType
from onnx_hw.onnx.validate_types import place

#: Primes, for a product of two then is no third. Dimension k gets one of each row, another pair for each k.
_TRIALS = ((13, 17, 19, 23, 29), (31, 37, 41, 43, 47))
_MOST_OPEN = len(_TRIALS[0]) * len(_TRIALS[1])

Shape = tuple[int | str | None, ...]


@dataclass(frozen=True)
class Open:
    """One open dimension of the inputs: its name if it has one, and the numbers it gets in the two trials."""

    name: str | None
    numbers: tuple[int, int]


def check_shapes(model: Model, findings: Findings) -> dict[str, Shape]:
    """Report shapes that cannot be; give the shape of every value of the main graph for which one was found."""
    opened = _open_dimensions(model.graph)
    if len(opened) > _MOST_OPEN:
        return {}
    problems: list[Problem] = []
    first = _inferred(_trial(model.graph, opened, 0), {}, problems)
    second = _inferred(_trial(model.graph, opened, 1), {}, []) if opened else first
    for problem in problems:
        # What fails with trial numbers may succeed with others; "type-declared" is reported below, for all numbers.
        if not opened and problem.stage == "validate" and problem.code != "type-declared":
            findings.must(problem.code, problem.message, problem.where, problem.hint)
    # Before IR version 4 a name meant one number within a declaration only.
    contradiction = findings.must if model.ir_version > 3 else findings.should
    lengths: dict[str, tuple[int, str]] = {}
    for graph, one, other in zip(_graphs(model.graph), first, second, strict=True):
        shapes = {
            name: _merged(of.shape, other[name].shape, opened)
            for name, of in one.items()
            if name in other and other[name].ndim == of.ndim
        }
        for code, message, where in _contradictions(graph, shapes, lengths):
            (contradiction if code == "dimension-contradicts" else findings.must)(code, message, where)
        if graph is model.graph:
            found = shapes
    return found


def _graphs(graph: Graph) -> Iterator[Graph]:
    """The graph, and every subgraph behind its owner."""
    yield graph
    for node in graph.nodes:
        for inner in subgraphs(node):
            yield from _graphs(inner)


def _inferred(graph: Graph, outer: Mapping[str, TensorType], problems: list[Problem]) -> list[dict[str, TensorType]]:
    """The known types of each graph's values, in the order of ``_graphs``."""
    types = infer_graph(graph, outer, problems)
    found = [types]
    for node in graph.nodes:
        for inner in subgraphs(node):
            found += _inferred(inner, Visible(types, outer), [])  # it may be a branch that is never taken
    return found


def with_output_shapes(model: Model, shapes: Mapping[str, Shape]) -> Model:
    """The model, with found shapes for outputs that were declared without one."""
    outputs = tuple(
        replace(value, shape=shapes[value.name]) if value.shape is None and value.name in shapes else value
        for value in model.graph.outputs
    )
    values = {**model.graph.values, **{value.name: value for value in outputs}}
    return replace(model, graph=replace(model.graph, outputs=outputs, values=values))


def _open_dimensions(graph: Graph) -> list[Open]:
    """Each name once; dimensions without name each for itself."""
    names: list[str | None] = []
    for value in graph.inputs:
        for dimension in value.shape or ():
            if dimension is None or (isinstance(dimension, str) and dimension not in names):
                names.append(dimension)
    rows = len(_TRIALS[0])
    return [Open(name, (_TRIALS[0][k % rows], _TRIALS[1][(k + k // rows) % rows])) for k, name in enumerate(names)]


def _trial(graph: Graph, opened: list[Open], which: int) -> Graph:
    """The graph with numbers for its open dimensions."""
    if not opened:
        return graph
    bound = substituted(graph, {of.name: of.numbers[which] for of in opened if of.name is not None})
    unnamed = iter([of.numbers[which] for of in opened if of.name is None])
    inputs = tuple(
        value
        if value.shape is None
        else replace(value, shape=tuple(next(unnamed) if d is None else d for d in value.shape))
        for value in bound.inputs
    )
    return replace(bound, inputs=inputs)


def _merged(first: tuple[int, ...], second: tuple[int, ...], opened: list[Open]) -> Shape:
    names = {of.numbers: of.name for of in opened}
    return tuple(a if a == b else names.get((a, b)) for a, b in zip(first, second, strict=True))


def _contradictions(
    graph: Graph, shapes: Mapping[str, Shape], lengths: dict[str, tuple[int, str]]
) -> Iterator[tuple[str, str, str]]:
    """Code, message and place of every declared shape that is not the computed one, by rank or by a known length.

    ``lengths`` remembers the number a dimension's name was found to stand for, in the whole model, and where.
    """
    producers: dict[str, str] = {name: place(node) for node in graph.nodes for name in node.outputs}
    declarations = {**graph.values, **{value.name: value for value in graph.outputs}}
    for name, declared in declarations.items():
        computed = shapes.get(name)
        if computed is None or declared.shape is None:
            continue
        where = producers.get(name, f"value {quote(name)}")
        fits = len(computed) == len(declared.shape)
        for found, said in zip(computed, declared.shape, strict=False):
            if isinstance(found, int) and isinstance(said, int):
                fits &= found == said
            elif isinstance(found, int) and isinstance(said, str):
                known, at = lengths.setdefault(said, (found, where))
                if known != found:
                    message = (
                        f"dimension {quote(said)} must be one number in the whole model; "
                        f"it is {known} at {at} and {found} here"
                    )
                    yield "dimension-contradicts", message, where
        if not fits:
            actual = Value(name, declared.element_type, computed)
            yield (
                "declared-shape",
                f"value {quote(name)} is declared as {_shown(declared)}, but is {_shown(actual)}",
                where,
            )


def _shown(value: Value) -> str:
    return repr(replace(value, name="")).removeprefix(": ")
