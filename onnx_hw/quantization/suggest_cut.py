"""The cut that leaves out the end of a model which cannot become a circuit, named in the error that says so."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.evaluate.macs import is_product
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.load.cut_model import cut_model, spelled_cut
from onnx_hw.quantization.quantize import prepare_model, quantize_model
from onnx_hw.quantization.ranges.assume import assume_ranges

MAX_TENSORS = 4
"""Greatest number of tensors of a cut that is worth naming."""

MAX_TRIALS = 3
"""Greatest number of times that obstacles which a cut has brought to light move it further to the front."""

COUNTING_TYPES = ("int64", "int32", "bool")
"""Element types of shapes and indices, which nobody computes a network for."""


@contextmanager
def suggest_cut(model: Model) -> Iterator[None]:
    """Add to the error of a model that cannot be built the cut that leaves its obstacles out, if there is one.

    The cut is tried before it is named, with assumed ranges.

    Args:
        model: the model of one frame, typed.
    """
    try:
        yield
    except UserError as error:
        advice = _cut_that_helps(model, error.problems)
        if not advice:
            raise
        *others, last = error.problems
        hint = f"{last.hint}; {advice}" if last.hint else advice
        raise UserError(*others, replace(last, hint=hint), exit_code=error.exit_code) from None


def _cut_that_helps(model: Model, problems: Sequence[Problem]) -> str:
    graph, refused = model.graph, list[Node]()
    for _ in range(MAX_TRIALS):
        nodes = _nodes_of(problems, graph)
        if not nodes:
            return ""
        refused += nodes
        tensors = _last_tensors(graph, refused)
        if not tensors:
            return ""
        part = cut_model(model, tensors)
        if not any(map(is_product, part.graph.nodes)):
            return ""
        try:
            quantize_model(prepare_model(part), assume_ranges)
        except UserError as error:
            problems = error.problems
        else:
            options = " ".join(f"--cut-at {shlex.quote(text)}" for text in spelled_cut(tensors))
            return f"`{options}` builds what stands before: {len(part.graph.nodes)} of {len(graph.nodes)} nodes"
    return ""


def _nodes_of(problems: Sequence[Problem], graph: Graph) -> list[Node]:
    """Return the nodes at which the problems are; empty where a problem has no node of the graph."""
    nodes = []
    for problem in problems:
        at = [node for node in graph.nodes if _is_at(problem, node)]
        if problem.stage != "capability" or not at:
            return []
        nodes += at
    return nodes


def _is_at(problem: Problem, node: Node) -> bool:
    if node.where and problem.where.startswith((f"{node.where}(", f"{node.where}.")):
        return True
    return problem.where == f"{node.op_type} `{node.label}`"


def _last_tensors(graph: Graph, refused: Sequence[Node]) -> list[str]:
    """Return the tensors that the nodes behind refused ones read, and the outputs of all others; empty for too many.

    Constants, inputs, shapes and indices are not among them.
    """
    inputs, behind = {value.name for value in graph.inputs}, set[str]()
    streamed, border = set[str](), [value.name for value in graph.outputs]
    for node in graph.nodes:
        read = names_read(node)
        if any(node is other for other in refused) or not behind.isdisjoint(read):
            behind.update(name for name in node.outputs if name)
            border += [name for name in (*node.inputs, *sorted(read)) if name]
        elif not read.isdisjoint(streamed | inputs):
            streamed.update(name for name in node.outputs if name)
    tensors = [
        name
        for name in dict.fromkeys(border)
        if name in streamed and name in graph.values and graph.values[name].element_type not in COUNTING_TYPES
    ]
    return tensors if len(tensors) <= MAX_TENSORS else []
