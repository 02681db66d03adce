"""Cut of a model at some of its tensors: they become its outputs, and everything that they do not need is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import did_you_mean, quote, short
from onnx_hw.onnx.check.shapes import check_shapes
from onnx_hw.onnx.check.types import element_types
from onnx_hw.onnx.evaluate.fold_constants import drop_unneeded
from onnx_hw.onnx.graph.dependencies import names_read, subgraphs
from onnx_hw.onnx.graph.model import Graph, Model, Value
from onnx_hw.onnx.parse.diagnostics import Findings

LISTED = 5
"""Greatest number of names that an error lists."""


def cut_model(model: Model, cut_at: Sequence[str]) -> Model:
    """Return the part of a model that some of its tensors need; its outputs are these tensors, in the order given.

    Inputs that they do not need are left out, too. Names of dimensions and types stay those of the whole model.

    Args:
        model: model with inlined functions; their tensors are called ``call/name``, as in all messages.
        cut_at: names of tensors; a text that is no tensor's name is taken as names with commas between them. Empty for
            the whole model.

    Raises:
        UserError: there is no such tensor, or no node of the main graph makes it; all of them at once.
    """
    if not cut_at:
        return model
    graph = model.graph
    tensors = [name for node in graph.nodes for name in node.outputs if name]
    there = set(tensors)
    names = list(dict.fromkeys(name for text in cut_at for name in _names_in(text, there)))
    problems = [_problem(name, graph, tensors) for name in names if name not in there]
    if problems:
        raise UserError(*problems)
    outputs = _typed(model, names)
    part = drop_unneeded(replace(model, graph=replace(graph, outputs=outputs))).graph
    read = set(names).union(*map(names_read, part.nodes))
    inputs = tuple(value for value in graph.inputs if value.name in read)
    unread = [value.name for value in graph.inputs if value.name not in read]
    note = f"cut at {_listed(names)}: {len(graph.nodes) - len(part.nodes)} of {len(graph.nodes)} nodes are left out"
    if unread:
        note += f", and the input{'s' * (len(unread) > 1)} {_listed(unread)}"
    return replace(
        model,
        graph=replace(part, inputs=inputs),
        notes=(*model.notes, note),
        uncut_outputs=model.uncut_outputs or graph.outputs,
    )


def spelled_cut(names: Sequence[str]) -> tuple[str, ...]:
    """Return names as the fewest texts that ``cut_model`` takes for them, a name with a comma by itself."""
    plain = ",".join(name for name in names if "," not in name)
    return (*([plain] if plain else []), *(name for name in names if "," in name))


def _typed(model: Model, names: Sequence[str]) -> tuple[Value, ...]:
    """Return the tensors with their types, as far as the model declares them or they follow from its inputs."""
    graph = model.graph
    known = {**graph.values, **{value.name: value for value in graph.outputs}}
    values = tuple(known.get(name, Value(name, "", None)) for name in names)
    if all(value.element_type and value.shape is not None for value in values):
        return values
    types, shapes = element_types(graph), check_shapes(model, Findings()).shapes
    return tuple(
        Value(name, value.element_type or types.get(name, ""), shapes.get(name) if value.shape is None else value.shape)
        for name, value in zip(names, values, strict=True)
    )


def _names_in(text: str, tensors: set[str]) -> list[str]:
    return [text] if text in tensors else [name.strip() for name in text.split(",")]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(short, names[:LISTED])) + ", …" * (len(names) > LISTED)


def _problem(name: str, graph: Graph, tensors: Sequence[str]) -> Problem:
    """Return the reason why a model is not cut at a name."""
    what = "a model is cut at a tensor that a node makes"
    if name in graph.constants:
        return _refusal("cut-constant", f"{what}; {quote(name)} is a constant", "name the output of a node behind it")
    if name in {value.name for value in graph.inputs}:
        return _refusal("cut-input", f"{what}; {quote(name)} is an input", "name the output of a node behind it")
    for node in graph.nodes:
        outputs = _listed([output for output in node.outputs if output])
        if node.name == name:
            return _refusal("cut-unknown", f"{what}; {quote(name)} is a node", f"its outputs: {outputs}")
        if name in _inner_names(subgraphs(node)):
            message = f"{what} of the main graph; {quote(name)} is inside of {short(node.label)} ({node.op_type})"
            return _refusal("cut-unknown", message, f"the whole node can be cut off or kept: its outputs are {outputs}")
    of_functions = [tensor for tensor in tensors if name and tensor.endswith(f"/{name}")]
    if of_functions:
        hint = f"functions are inlined; there is {_listed(of_functions)}"
    else:
        hint = did_you_mean(name, tensors)
        if tensors and not hint.startswith("did"):
            hint = f"the last tensors are {_listed(tensors[-LISTED:])}"
    return _refusal("cut-unknown", f"{what}; there is no tensor {quote(name)}", hint)


def _inner_names(graphs: Iterator[Graph]) -> Iterator[str]:
    for graph in graphs:
        yield from graph.constants
        for node in graph.nodes:
            yield from node.outputs
            yield from _inner_names(subgraphs(node))


def _refusal(code: str, message: str, hint: str) -> Problem:
    return Problem(code, message, "--cut-at", hint, "arguments")
