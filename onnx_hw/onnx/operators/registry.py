"""Registry of operators: how a Python function becomes the meaning of an ONNX operator.

The signature *is* the schema: positional parameters are the operator's inputs (optional ones default to None, variadic
ones are ``*inputs``), keyword-only parameters are its attributes with ONNX's own names and defaults. The function's
name is the operator's; what follows an underscore tells several of one name apart, such as the version from which one
holds::

    @operator(since=13, types=like_first)
    def Softmax(x, *, axis: int = -1): ...

    @operator(since=(1, 11), types=like_first)
    def Softmax_1(x, *, axis: int = 1): ...

A version that only lacks attributes or inputs of a later one is one line after it::

    earlier(AveragePool, since=7, without=("ceil_mode", "dilations"))

Attributes that a family of operators shares are the keyword-only parameters of one function, to which each operator
hands them on::

    @operator(since=(1, 11, 22), types=conv_type, attributes_of=conv_window)
    def Conv(x, w, b=None, **window): ...

Further facts about an operator stand there, too: ``facts=Facts(Effect.KEEPS)`` (``facts.py``).

The keyword-only parameter ``call`` is not an attribute: a function that has it gets the ``Call``, which says how many
outputs the node has and runs subgraphs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, TypeVar

import numpy as np

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import did_you_mean
from onnx_hw.onnx.graph.model import Graph, Node, OnnxTensor, Value
from onnx_hw.onnx.operators.dtypes import to_compute_dtype
from onnx_hw.onnx.operators.facts import Facts

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)
Ints = tuple[int, ...]
Floats = tuple[float, ...]
Strings = tuple[str, ...]


@dataclass(frozen=True)
class Call:
    """Node of which a function computes the outputs, and the means to run its subgraphs.

    Attributes:
        run_graph: ``run_graph(graph, inputs)`` computes the outputs of a subgraph, which sees the names around it.
    """

    node: Node
    run_graph: Callable[[Graph, Sequence[Any]], list[Any]]

    @property
    def results(self) -> int:
        """Number of outputs of the node, omitted ones in the middle included."""
        return len(self.node.outputs)


@dataclass(frozen=True)
class AttributeSpec:
    """Attribute; ``kind`` is int, float, str, Ints, Floats, Strings, np.ndarray, Graph or Value (a type)."""

    name: str
    kind: Any
    required: bool
    default: Any


@dataclass(frozen=True)
class OnnxOperator:
    """Operator from one opset version on, until the next one of the same name.

    Attributes:
        versions: opset versions at which ONNX published this meaning; it holds from the first of them on.
        function: the numpy semantics.
        types: the type rule: a function of the same signature over ``TensorType``; None means that the types are found
            by computing on zeros.
        shape_inputs: positions of the inputs whose *values* decide the shape of an output.
        dynamic: whether the shape of an output depends on values that are not known before the model runs.
        stateless: whether computing twice gives the same result, so that constant inputs give a constant.
    """

    domain: str
    op_type: str
    versions: tuple[int, ...]
    function: Function
    types: Function | None
    shape_inputs: tuple[int, ...]
    dynamic: bool
    stateless: bool
    attributes: Mapping[str, AttributeSpec] = field(repr=False)
    min_inputs: int = 0
    max_inputs: int | None = None  # None: any number
    takes_call: bool = False
    rule_takes_call: bool = False

    @property
    def since(self) -> int:
        return self.versions[0]

    def bind(self, node: Node) -> dict[str, Any]:
        """Return the keyword arguments for the function, from the node's attributes.

        Raises:
            UserError: an attribute that the operator does not have, lacks, or that is of the wrong kind, or a wrong
                number of inputs; all of them at once.
        """
        problems = []
        arguments: dict[str, Any] = {}
        for name, value in node.attributes.items():
            if name.startswith("__"):  # private to a tool, without meaning by the IR specification
                continue
            attribute = self.attributes.get(name)
            if attribute is None:
                hint = did_you_mean(name, sorted(self.attributes))
                problems.append(_problem(node, "attribute-unknown", f"{self!r} has no attribute `{name}`", hint))
                continue
            if isinstance(value, OnnxTensor):
                value = to_compute_dtype(value.array, value.element_type)
            if not _is_kind(value, attribute.kind):
                message = f"attribute `{name}` of {self!r} must be {_KIND_NAMES[attribute.kind]}, not {value!r}"
                problems.append(_problem(node, "attribute-type", message))
            else:
                arguments[name] = tuple(value) if isinstance(value, list) else value
        for attribute in self.attributes.values():
            if attribute.required and attribute.name not in node.attributes:
                message = f"{self!r} must have the attribute `{attribute.name}`"
                problems.append(_problem(node, "attribute-missing", message))
        count = len(node.inputs)
        if count < self.min_inputs or (self.max_inputs is not None and count > self.max_inputs):
            most = "any number of" if self.max_inputs is None else str(self.max_inputs)
            message = f"{self!r} must have {self.min_inputs} to {most} inputs, not {count}"
            problems.append(_problem(node, "input-count", message))
        if problems:
            raise UserError(*problems)
        return arguments

    def __repr__(self) -> str:
        domain = f"{self.domain}." if self.domain else ""
        return f"{domain}{self.op_type} (opset {self.since})"


_OPERATORS: dict[tuple[str, str], list[OnnxOperator]] = {}
_FACTS: dict[tuple[str, str], Facts] = {}


def operator(
    *,
    since: int | tuple[int, ...],
    name: str = "",
    domain: str = "",
    types: Function | None = None,
    shape_inputs: tuple[int, ...] = (),
    dynamic: bool = False,
    stateless: bool = True,
    hints: tuple[str, ...] = (),
    attributes_of: Function | None = None,
    without: tuple[str, ...] = (),
    facts: Facts | None = None,
) -> Callable[[F], F]:
    """Register the decorated function; the other arguments are those of ``OnnxOperator``.

    ``name`` is the operator's, where it is not that of the function: of one function for several operators.

    ``facts`` hold for all versions of the operator, and are stated at one of them, the newest.

    ``hints`` names attributes of this version that by specification never change the result
    (``consumed_inputs`` of opset 1: which buffers a runtime may overwrite).

    ``attributes_of`` is a function whose keyword-only parameters are attributes of the operator, too, but those in
    ``without``; the decorated function takes them as ``**``.
    """
    versions = (since,) if isinstance(since, int) else since

    def register(function: F) -> F:
        op_type = name or function.__name__.split("_")[0]
        signature = inspect.signature(function, eval_str=True)
        attributes: dict[str, AttributeSpec] = {name: AttributeSpec(name, Ints, False, None) for name in hints}
        least, most, takes_call = 0, 0, False
        if attributes_of is not None:
            shared = inspect.signature(attributes_of, eval_str=True).parameters.values()
            kept = [other for other in shared if other.kind is other.KEYWORD_ONLY and other.name not in without]
            attributes |= {other.name: _attribute(other) for other in kept}
        for parameter in signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                continue
            if parameter.kind is parameter.KEYWORD_ONLY:
                if parameter.name == "call":
                    takes_call = True
                else:
                    attributes[parameter.name] = _attribute(parameter)
            elif parameter.kind is parameter.VAR_POSITIONAL:
                most = -1
            else:
                most += 1
                least += parameter.default is parameter.empty
        entry = OnnxOperator(
            domain=domain,
            op_type=op_type,
            versions=versions,
            function=_without(function, hints),
            types=types and _without(types, hints),
            shape_inputs=shape_inputs,
            dynamic=dynamic,
            stateless=stateless,
            attributes=attributes,
            min_inputs=least,
            max_inputs=None if most < 0 else most,
            takes_call=takes_call,
            rule_takes_call=types is not None and "call" in inspect.signature(types).parameters,
        )
        _enter(entry)
        if facts is not None and _FACTS.setdefault((domain, op_type), facts) is not facts:
            raise ValueError(f"the facts of {entry!r} must be stated once")
        return function

    return register


def earlier(
    function: Function,
    *,
    since: int | tuple[int, ...],
    without: tuple[str, ...] = (),
    inputs: tuple[int, int] | None = None,
) -> None:
    """Register versions before that of a registered function, which lacked some of its attributes or inputs.

    Args:
        without: the attributes that came later; their defaults say what was meant before.
        inputs: the least and the most of them, where that has changed.
    """
    row = max((row for row in operators() if row.function is function), key=lambda row: row.since)
    unknown = set(without) - row.attributes.keys()
    if unknown:
        raise ValueError(f"{row!r} has no {', '.join(sorted(unknown))}")
    least, most = inputs or (row.min_inputs, row.max_inputs)
    _enter(
        replace(
            row,
            versions=(since,) if isinstance(since, int) else since,
            attributes={name: attribute for name, attribute in row.attributes.items() if name not in without},
            min_inputs=least,
            max_inputs=most,
        )
    )


def _enter(entry: OnnxOperator) -> None:
    rows = _OPERATORS.setdefault((entry.domain, entry.op_type), [])
    if any(set(row.versions) & set(entry.versions) for row in rows):
        raise ValueError(f"{entry!r} is registered twice")
    rows.append(entry)
    rows.sort(key=lambda row: row.since)


def lookup(domain: str, op_type: str, version: int) -> OnnxOperator | None:
    """Return the operator of that name which holds in that opset version, or None when there is no such operator."""
    held = [row for row in _OPERATORS.get((domain, op_type), ()) if row.since <= version]
    return held[-1] if held else None


def operator_of(node: Node) -> OnnxOperator:
    """Return the operator that a node means; raise ``UserError`` where it, or its version, is not known."""
    row = lookup(node.domain, node.op_type, node.version)
    if row is not None:
        return row
    rows = _OPERATORS.get((node.domain, node.op_type))
    domain = f"domain `{node.domain}`" if node.domain else "the default domain"
    if rows:
        message = f"{node.op_type} of {domain} must be used from opset {rows[0].since} on, not {node.version}"
        raise UserError(_problem(node, "operator-version", message, "convert the model to a newer opset"))
    close = get_close_matches(node.op_type, [name for key_domain, name in _OPERATORS if key_domain == node.domain], 1)
    message = f"the operator must be one that onnx-hw knows; {node.op_type} of {domain} is not"
    raise UserError(_problem(node, "operator-unknown", message, f"did you mean `{close[0]}`?" if close else ""))


def facts_of(node: Node) -> Facts:
    """Return the facts about a node's operator."""
    return facts_of_operator(node.domain, node.op_type)


def facts_of_operator(domain: str, op_type: str) -> Facts:
    """Return the row of an operator; it is empty where the operator states nothing."""
    return _FACTS.get((domain, op_type), NO_FACTS)


def operators() -> tuple[OnnxOperator, ...]:
    """Return every registered operator, by domain, name and version."""
    return tuple(row for key in sorted(_OPERATORS) for row in _OPERATORS[key])


def node_location(node: Node) -> str:
    """Return the location of a node, in the user's words: ``graph.node[12](Conv "c1")``."""
    return f'{node.where}({node.op_type} "{node.label}")'


NO_FACTS = Facts()

INTERNAL = "onnx_hw"
"""Domain of operators that only stand between a model and its circuit."""

_KIND_NAMES = {
    int: "an integer",
    float: "a float",
    str: "a string",
    Ints: "a list of integers",
    Floats: "a list of floats",
    Strings: "a list of strings",
    np.ndarray: "a tensor",
    Graph: "a graph",
    Value: "a type",
}


def _attribute(parameter: inspect.Parameter) -> AttributeSpec:
    kind = parameter.annotation
    optional = parameter.default is None
    if optional and type(None) in getattr(kind, "__args__", ()):
        kind = next(option for option in kind.__args__ if option is not type(None))
    if getattr(kind, "__origin__", None) is np.ndarray:
        kind = np.ndarray
    if kind not in _KIND_NAMES:
        raise TypeError(f"attribute `{parameter.name}` must be annotated with an attribute kind, not {kind!r}")
    required = parameter.default is parameter.empty
    return AttributeSpec(parameter.name, kind, required, None if required else parameter.default)


def _is_kind(value: Any, kind: Any) -> bool:
    if kind in (Ints, Floats, Strings):
        element = kind.__args__[0]
        return isinstance(value, (tuple, list)) and all(isinstance(entry, element) for entry in value)
    return isinstance(value, kind)


def _without(function: Function, hints: tuple[str, ...]) -> Function:
    """Wrap the function, so that attributes that never change the result are removed before it is called."""
    if not hints:
        return function

    def called(*inputs: Any, **attributes: Any) -> Any:
        return function(*inputs, **{name: value for name, value in attributes.items() if name not in hints})

    return called


def _problem(node: Node, code: str, message: str, hint: str = "") -> Problem:
    return Problem(code, message, node_location(node), hint, "capability")
