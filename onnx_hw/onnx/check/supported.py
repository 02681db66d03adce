"""Limits of onnx-hw within valid models: what it cannot build is refused by name, all of it at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import quote
from onnx_hw.onnx.check.signatures import EXPERIMENTAL
from onnx_hw.onnx.check.types import node_location, type_without_shape
from onnx_hw.onnx.graph.dependencies import names_behind_inputs, needed_nodes, subgraphs
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import MAX_AXES, Model, Node, Value
from onnx_hw.onnx.operators import facts_of, lookup
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.large_data import drop_pages
from onnx_hw.onnx.parse.opsets import domain_name

#: Greatest number of elements of a tensor: no network for a chip has larger ones, but a file may claim any size.
MAX_ELEMENTS: Final = 1 << 24

LABELLED: Final = frozenset(("sequence(map(int64,float))", "sequence(map(string,float))"))
"""Types of an output with a map from labels to numbers for each row, as ZipMap makes it."""

MIN_DROPPED_BYTES: Final = 1 << 20
"""Least size of a constant whose pages leave the memory once it is checked, where the file is mapped."""

STAGE: Final = "capability"


def check_capability(model: Model, findings: Findings) -> None:
    """Report everything in a valid model that stands in the way of a circuit, whatever the later choices."""
    graph = model.graph
    for what, values in (("input", graph.inputs), ("output", graph.outputs)):
        for index, value in enumerate(values):
            _check_border(what, value, f"graph.{what}[{index}]({quote(value.name)})", findings)
    weights = {name for node in graph.nodes if facts_of(node).macs is not None for name in node.inputs}
    for name, array in graph.constants.items():
        _check_constant(graph.values[name], array, name in weights, f"initializer {quote(name)}", findings)
    alive = {id(node) for node in needed_nodes(graph, [value.name for value in graph.outputs])}
    reported: dict[str, Node] = {}
    for node in graph.nodes:
        for inner in (node, *_inner_nodes(node)):
            _check_operator(inner, id(node) in alive, reported, findings)


def require_capability(model: Model) -> None:
    """Raise a ``UserError`` with everything that ``check_capability`` reports."""
    findings = Findings()
    check_capability(model, findings)
    findings.raise_problems()


def require_constant_weights(model: Model) -> None:
    """Raise a ``UserError`` that names every node whose weights must be constants and are computed from data.

    Args:
        model: the model in canonical form, in which constants are folded.
    """
    data, findings = names_behind_inputs(model.graph), Findings()
    for node in model.graph.nodes:
        place = facts_of(node).weights
        if place is not None and place.constant and node.inputs[place.at] in data:
            findings.must(
                "weights-not-constant",
                f"the weights `{node.inputs[place.at]}` must be constant; they are computed from data",
                node_location(node),
                "a Conv and a MatMul take such weights, a ConvTranspose those of one image alone, a batch of 1",
                stage=STAGE,
            )
    findings.raise_problems()


def _inner_nodes(node: Node) -> Iterator[Node]:
    for graph in subgraphs(node):
        for inner in graph.nodes:
            yield inner
            yield from _inner_nodes(inner)


def _check_border(what: str, value: Value, where: str, findings: Findings) -> None:
    name = quote(value.name)
    if what == "output" and (value.element_type == "string" or type_without_shape(value) in LABELLED):
        pass  # the host makes labels
    elif value.element_type not in BY_NAME:
        findings.must(
            "not-a-tensor", f"{what} {name} must be a tensor to be a stream; it is {value.element_type or 'untyped'}",
            where, stage=STAGE,
        )  # fmt: skip
    elif value.element_type in ("string", "complex64", "complex128"):
        findings.must(
            "element-type-unsupported", f"{what} {name} must hold real numbers, not {value.element_type}", where,
            hint="turn it into numbers before the model, as for training", stage=STAGE,
        )  # fmt: skip
    size = 1
    for length in value.shape or ():
        size *= length if isinstance(length, int) else 1
    if size > MAX_ELEMENTS:
        findings.must(
            "tensor-too-large", f"{what} {name} must have at most {MAX_ELEMENTS:,} elements, not {_rounded(size)}",
            where, stage=STAGE,
        )  # fmt: skip
    if len(value.shape or ()) > MAX_AXES:
        findings.must(
            "tensor-rank", f"{what} {name} must have at most {MAX_AXES} axes, not {len(value.shape or ())}", where,
            stage=STAGE,
        )  # fmt: skip
    if size == 0:
        findings.must("tensor-empty", f"{what} {name} must have elements", where, stage=STAGE)


def _rounded(size: int) -> str:
    return f"{size:,}" if size < 10**15 else f"about 2^{size.bit_length() - 1}"


def _check_constant(value: Value, array: np.ndarray, is_weight: bool, where: str, findings: Findings) -> None:
    if value.element_type in ("complex64", "complex128"):
        findings.must(
            "element-type-unsupported",
            f"constants must hold real numbers, not {value.element_type}",
            where,
            stage=STAGE,
        )
    elif array.dtype.kind == "f" and not (np.isfinite(array).all() or _may_be_infinite(array, is_weight)):
        findings.must(
            "constant-not-finite",
            "constants must be finite numbers; this one holds NaN or infinity",
            where,
            "such a weight cannot be quantized: look for a division by zero or an overflow in training",
            stage=STAGE,
        )
    if array.nbytes >= MIN_DROPPED_BYTES:
        drop_pages(array)


def _may_be_infinite(array: np.ndarray, is_weight: bool) -> bool:
    """Return whether all numbers of a constant that are not finite have a meaning.

    One number alone may be a bound, or the padding around an image that a maximum must ignore. Minus infinity hides
    places of a Softmax, if it is added to the data.
    """
    if array.size == 1:
        return bool(np.isinf(array).all())
    return not is_weight and bool((np.isfinite(array) | np.isneginf(array)).all())


def _check_operator(node: Node, alive: bool, reported: dict[str, Node], findings: Findings) -> None:
    """Check that the operator and its attributes are known; report each operator once, at its first node."""
    title = f"{node.op_type} of {domain_name(node.domain)}"
    operator = lookup(node.domain, node.op_type, node.version)
    report = findings.must if alive else findings.should
    if operator is None:
        if title in reported:
            return
        reported[title] = node
        hint = "" if alive else "nothing depends on it, so it is left out"
        if node.op_type in EXPERIMENTAL and not node.domain:
            hint = "this operator was never published; replace it by published ones"
        report(
            "operator-unsupported",
            f"onnx-hw must know every operator; it does not know {title}, version {node.version}",
            node_location(node), hint, stage=STAGE,
        )  # fmt: skip
        return
    if facts_of(node).random:
        report(
            "operator-random", f"a circuit gives equal results for equal inputs; {node.op_type} does not",
            node_location(node), stage=STAGE,
        )  # fmt: skip
    try:
        operator.bind(node)
    except UserError as error:
        for problem in error.problems:
            _forward(problem, alive, findings)


def _forward(problem: Problem, alive: bool, findings: Findings) -> None:
    report = findings.must if alive else findings.should
    report(problem.code, problem.message, problem.where, problem.hint, stage=STAGE)
