"""Rules for model-local functions: their identity, their parameters, how they call each other, how they are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from onnx_hw.messages.text import quote
from onnx_hw.onnx.graph.signatures import signature_of, standard_domains, versions_of
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.opsets import domain_name
from onnx_hw.onnx.parse.source_model import FunctionKey, SourceFunction, SourceModel, SourceNode

#: Greatest number of nodes after inlining. A few functions that call each other twice make 2^n of them.
MAX_NODES = 30_000

#: Greatest nesting of subgraphs after inlining; the file itself cannot nest deeper than protobuf allows, about 31.
MAX_DEPTH = 64


def functions_by_key(model: SourceModel) -> dict[FunctionKey, SourceFunction]:
    """Return the functions by identity; of several with one identity, the first."""
    functions: dict[FunctionKey, SourceFunction] = {}
    for function in model.functions:
        functions.setdefault(function.key, function)
    return functions


def called_function(node: SourceNode, functions: Mapping[FunctionKey, SourceFunction]) -> SourceFunction | None:
    """Return the function that a node calls, or None when the node means an operator."""
    return functions.get((node.domain, node.op_type, node.overload)) if functions else None


def all_nodes(nodes: Iterable[SourceNode]) -> Iterator[SourceNode]:
    """Yield the nodes, each followed by those of its subgraphs at any depth."""
    for node in nodes:
        yield node
        for graph in node.graphs:
            yield from all_nodes(graph.nodes)


def check_length(graph: Any, findings: Findings) -> bool:
    """Return whether the main graph of a file has few enough nodes to be looked at; report it where it has not."""
    count = len(graph.node)
    if count > MAX_NODES:
        message = f"a model may have at most {MAX_NODES:,} nodes, not {count:,}"
        findings.must("too-many-nodes", message, "graph", stage="capability")
    return count <= MAX_NODES


def check_functions(model: SourceModel, findings: Findings) -> None:
    """Check everything about functions but their bodies' names (scopes) and operators (signatures)."""
    functions = functions_by_key(model)
    identities = Counter(function.key for function in model.functions)
    for function in model.functions:
        _check_identity(function, identities, model, findings)
        _check_parameters(function, model.ir_version, findings)
        _check_references(function, findings)
    for node in all_nodes(model.graph.nodes):
        for attribute in node.attributes:
            if attribute.reference:
                findings.must(
                    "reference-outside-function",
                    f"only a function's body can refer to its attributes; this refers to {quote(attribute.reference)}",
                    attribute.where,
                )
    if functions:
        kinds = {key: _attribute_kinds(function) for key, function in functions.items()}
        for node in all_nodes((*model.graph.nodes, *(node for body in model.functions for node in body.nodes))):
            callee = called_function(node, functions)
            if callee is not None:
                _check_call(node, callee, kinds[callee.key], findings)
        known = _expansions(functions, findings)
        if known is not None:
            _check_expansion(_expansion(model.graph.nodes, functions, known), model.graph.where, findings)


def _check_identity(
    function: SourceFunction, identities: Counter[FunctionKey], model: SourceModel, findings: Findings
) -> None:
    where = function.where
    if not function.name:
        findings.must("function-name", "a function must have a name", where)
    if not function.domain:
        findings.must("function-domain", "a function must have a domain of its own, not the default one", where)
    elif function.domain in standard_domains() and versions_of(function.domain, function.name):
        findings.should(
            "function-shadows-operator",
            f"a function should not replace an operator of {domain_name(function.domain)}; its own body is used",
            where,
        )
    if identities[function.key] > 1:
        identities[function.key] = 0  # one report for all of them
        what = f"{function.domain}::{function.name}" + (f" overload {function.overload}" if function.overload else "")
        findings.must("function-repeated", f"function {quote(what)} must be defined once", where)
    _check_versions(function, model, findings)
    if model.ir_version < 8:
        findings.should("newer-feature", f"functions need IR version 8; the file says {model.ir_version}", where)
    elif function.overload and model.ir_version < 10:
        findings.should("newer-feature", f"overloads need IR version 10; the file says {model.ir_version}", where)


def _check_versions(function: SourceFunction, model: SourceModel, findings: Findings) -> None:
    """Warn when a function and the model import different versions of an operator.

    A body means the versions it imports itself; the specification wants its operators to be the model's as well.
    """
    for node in all_nodes(function.nodes):
        own, outer = function.opsets.get(node.domain), model.opsets.get(node.domain)
        if own is None or outer is None or own == outer:
            continue
        mine, theirs = (signature_of(node.domain, node.op_type, version) for version in (own, outer))
        if mine is not None and mine != theirs:
            findings.should(
                "function-opset",
                f"{node.operator} should be the same in the function's opset {own} and the model's {outer}; "
                f"the function's is used",
                node.location,
            )


def _check_parameters(function: SourceFunction, ir_version: int, findings: Findings) -> None:
    defaults = [attribute.name for attribute in function.defaults]
    if defaults and 8 <= ir_version < 9:
        findings.should(
            "newer-feature", f"attribute defaults need IR version 9; the file says {ir_version}", function.where
        )
    count = Counter((*function.attributes, *defaults))
    for name in count:
        if not name:
            findings.must("attribute-name", "a function's attribute must have a name", function.where)
        elif name in function.attributes and name in defaults:
            findings.must(
                "function-attribute-repeated",
                f"attribute {quote(name)} must be listed with a default or without, not both",
                function.where,
            )
        elif count[name] > 1:
            findings.must("function-attribute-repeated", f"attribute {quote(name)} must be listed once", function.where)


def _check_references(function: SourceFunction, findings: Findings) -> None:
    known = {*function.attributes, *(attribute.name for attribute in function.defaults)}
    for attribute in function.defaults:
        if attribute.reference:
            findings.must("attribute-reference", "a default must be a value, not a reference", attribute.where)
    for node in all_nodes(function.nodes):
        for attribute in node.attributes:
            if attribute.reference and attribute.reference not in known:
                findings.must(
                    "undefined-attribute",
                    f"the function must declare the attribute {quote(attribute.reference)} that it refers to",
                    attribute.where,
                )
            if attribute.reference and attribute.kind in ("graph", "graphs"):
                findings.must(
                    "graph-parameter",
                    "a graph passed to a function is not supported",
                    attribute.where,
                    stage="capability",
                )


def _attribute_kinds(function: SourceFunction) -> dict[str, str]:
    """Return the kind of each attribute of a function: its default's, or that of a reference to it."""
    kinds = {
        attribute.reference: attribute.kind
        for node in all_nodes(function.nodes)
        for attribute in node.attributes
        if attribute.reference and attribute.kind
    }
    return kinds | {attribute.name: attribute.kind for attribute in function.defaults}


def _check_call(node: SourceNode, callee: SourceFunction, kinds: Mapping[str, str], findings: Findings) -> None:
    """Check the arguments of a call: they match by position; missing trailing ones count as empty."""
    for what, arguments, known in (("inputs", node.inputs, callee.inputs), ("outputs", node.outputs, callee.outputs)):
        if len(arguments) > len(known):
            findings.must(
                f"call-{what}",
                f"the function has {len(known)} {what}; the call must not have {len(arguments)}",
                node.location,
            )
    known_attributes = {*callee.attributes, *(attribute.name for attribute in callee.defaults)}
    for attribute in node.attributes:
        if attribute.name.startswith("__"):
            continue
        if attribute.name not in known_attributes:
            findings.must(
                "attribute-unknown",
                f"the function has no attribute {quote(attribute.name)}",
                attribute.where,
                f"its attributes are: {', '.join(sorted(known_attributes))}" if known_attributes else "it has none",
            )
        elif attribute.kind and kinds.get(attribute.name, attribute.kind) != attribute.kind:
            findings.must(
                "attribute-kind",
                f"attribute {quote(attribute.name)} must be of type {kinds[attribute.name]}, not {attribute.kind}",
                attribute.where,
            )


@dataclass(frozen=True)
class Expansion:
    """Size of an inlined function: number of nodes, and how deep its subgraphs nest."""

    nodes: int
    depth: int


def _expansions(
    functions: Mapping[FunctionKey, SourceFunction], findings: Findings
) -> dict[FunctionKey, Expansion] | None:
    """Count what each function becomes by inlining, without inlining it; None after reporting recursion."""
    calls = {key: _calls(function.nodes, functions) for key, function in functions.items()}
    done: dict[FunctionKey, Expansion] = {}
    path: list[FunctionKey] = []
    on_path: set[FunctionKey] = set()
    for root in functions:
        waiting = [root]
        while waiting:
            key = waiting[-1]
            if key in done:
                waiting.pop()
            elif key in on_path:
                done[key] = _expansion(functions[key].nodes, functions, done)
                on_path.discard(path.pop())
                waiting.pop()
            else:
                path.append(key)
                on_path.add(key)
                circle = next((callee for callee in calls[key] if callee in on_path), None)
                if circle is not None:
                    _report_recursion(path[path.index(circle) :], functions, findings)
                    return None
                waiting.extend(callee for callee in calls[key] if callee not in done)
    return done


def _calls(nodes: Iterable[SourceNode], functions: Mapping[FunctionKey, SourceFunction]) -> list[FunctionKey]:
    callees = (called_function(node, functions) for node in all_nodes(nodes))
    return list(dict.fromkeys(callee.key for callee in callees if callee is not None))


def _expansion(
    nodes: Iterable[SourceNode],
    functions: Mapping[FunctionKey, SourceFunction],
    known: Mapping[FunctionKey, Expansion],
) -> Expansion:
    """Count the nodes and the nesting of a body whose callees are known."""
    total, deepest = 0, 0
    for node in nodes:
        callee = called_function(node, functions)
        inner = Expansion(1, 0) if callee is None else known[callee.key]
        total, deepest = total + inner.nodes, max(deepest, inner.depth)
        for graph in node.graphs:
            inner = _expansion(graph.nodes, functions, known)
            total, deepest = total + inner.nodes, max(deepest, inner.depth + 1)
    return Expansion(total, deepest)


def _report_recursion(
    circle: list[FunctionKey], functions: Mapping[FunctionKey, SourceFunction], findings: Findings
) -> None:
    names = [f"{key[0]}::{key[1]}" for key in (*circle, circle[0])]
    findings.must(
        "function-recursion",
        f"a function must not call itself: {' → '.join(quote(name) for name in names[:10])}",
        functions[circle[0]].where,
    )


def _check_expansion(expansion: Expansion, where: str, findings: Findings) -> None:
    if expansion.nodes > MAX_NODES:
        exact = expansion.nodes < 10**12
        shown = f"{expansion.nodes:,}" if exact else f"about 2^{expansion.nodes.bit_length() - 1}"
        findings.must(
            "too-many-nodes",
            f"a model may have at most {MAX_NODES:,} nodes after its functions are inlined, not {shown}",
            where,
            stage="capability",
        )
    if expansion.depth > MAX_DEPTH:
        findings.must(
            "too-deep",
            f"subgraphs may nest at most {MAX_DEPTH} deep after functions are inlined, not {expansion.depth}",
            where,
            stage="capability",
        )
