"""Names and order: every value has one definition, is defined before it is read, and is visible where it is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from onnx_hw.messages.text import quote
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.source_model import SourceFunction, SourceGraph, SourceModel, SourceNode, SourceValue
from onnx_hw.onnx.parse.toposort import cycles

#: Number of names above which no similar one is suggested: comparing takes time.
_SUGGEST_AMONG = 2000

DEFINED_BY = "an input, an initializer or the output of an earlier node must have this name; export the model anew"


@dataclass
class NameScope:
    """Names that one graph or function body defines.

    Attributes:
        parent: the scope of the node that owns the graph; None for the main graph and for functions.
        defined: place of definition, of every name defined so far.
        producers: index of the node that gives a name, defined so far or not.
        late: whether a name was read before its definition.
    """

    parent: NameScope | None
    defined: dict[str, str] = field(default_factory=dict)
    producers: dict[str, int] = field(default_factory=dict)
    late: list[tuple[str, str]] = field(default_factory=list)

    def visible(self, name: str) -> str | None:
        """Return the place that defines a name which can be read here; None when it cannot be read."""
        scope: NameScope | None = self
        while scope is not None:
            if name in scope.defined:
                return scope.defined[name]
            scope = scope.parent
        return None

    def promised_in(self, name: str) -> NameScope | None:
        """Return the innermost scope that will define a name later on."""
        scope: NameScope | None = self
        while scope is not None:
            if name in scope.producers:
                return scope
            scope = scope.parent
        return None


def check_scopes(model: SourceModel, findings: Findings) -> None:
    """Check the names of the main graph, every subgraph and every function body."""
    checker = _Checker(model, findings)
    checker.graph(model.graph, None)
    for function in model.functions:
        checker.function(function)


class _Checker:
    def __init__(self, model: SourceModel, findings: Findings):
        self.model = model
        self.findings = findings
        self._inner_names: set[str] | None = None

    def graph(self, graph: SourceGraph, parent: NameScope | None) -> None:
        scope = NameScope(parent)
        if not graph.name:
            self.findings.habit("graph-name", "a graph must have a name", graph.where, "--lenient accepts it")
        self._check_inputs(graph, scope)
        self._check_constants(graph, scope)
        self._check_nodes(graph.nodes, scope, graph.where)
        self._check_outputs(graph, scope)
        self._check_value_info(graph.values, scope)

    def function(self, function: SourceFunction) -> None:
        scope = NameScope(None)
        for name in function.inputs:
            if not name:
                self.findings.must("value-name", "a function's input must have a name", function.where)
            elif name in scope.defined:
                self.findings.must("defined-twice", f"function input {quote(name)} must be listed once", function.where)
            scope.defined[name] = function.where
        self._check_nodes(function.nodes, scope, function.where)
        for name in function.outputs:
            if not name:
                self.findings.must("value-name", "a function's output must have a name", function.where)
            elif name not in scope.defined:
                self.findings.must(
                    "undefined-output", f"function output {quote(name)} must be defined in its body", function.where
                )
        for name in _repeated(function.outputs):
            self.findings.must("defined-twice", f"function output {quote(name)} must be listed once", function.where)
        self._check_value_info(function.values, scope)

    def _check_inputs(self, graph: SourceGraph, scope: NameScope) -> None:
        for value in graph.inputs:
            if not value.name:
                self.findings.must("value-name", "a graph's input must have a name", value.where)
                continue
            if value.name in scope.defined:
                self.findings.must("defined-twice", f"input {quote(value.name)} must be listed once", value.where)
            elif scope.parent is not None and (outer := scope.parent.visible(value.name)):
                self.findings.should(
                    "shadowing", f"input {quote(value.name)} should not hide the value of {outer}", value.where
                )
            scope.defined[value.name] = value.where

    def _check_constants(self, graph: SourceGraph, scope: NameScope) -> None:
        listed = {value.name: index for index, value in enumerate(graph.inputs)}
        seen: set[str] = set()
        old = self.model.ir_version <= 3
        main = scope.parent is None
        for constant in graph.constants:
            name = constant.name
            if not name:
                self.findings.must("value-name", "an initializer must have a name", constant.where)
                continue
            if name in seen:
                self.findings.must("defined-twice", f"initializer {quote(name)} must be given once", constant.where)
            elif main and old and name not in listed:
                self.findings.habit(
                    "initializer-not-input",
                    f"up to IR version 3 every initializer must also be an input of the graph; {quote(name)} is not",
                    constant.where,
                    "set ir_version to 4 or greater, or read the file with --lenient, which takes it as a constant",
                )
            elif not main and not old and name in listed:
                self.findings.must(
                    "initializer-is-input",
                    f"a subgraph's input must not be an initializer as well; {quote(name)} is both",
                    constant.where,
                )
            elif not main and (outer := scope.parent and scope.parent.visible(name)):
                self.findings.must(
                    "shadowing", f"initializer {quote(name)} must not hide the value of {outer}", constant.where
                )
            seen.add(name)
            scope.defined.setdefault(name, constant.where)
        if not main and old:
            self._check_old_subgraph_order(graph, seen)

    def _check_old_subgraph_order(self, graph: SourceGraph, constants: set[str]) -> None:
        """Check that up to IR version 3 a subgraph's constant inputs follow the real ones."""
        behind = False
        for value in graph.inputs:
            if value.name in constants:
                behind = True
            elif behind:
                self.findings.must(
                    "initializer-is-input",
                    f"inputs that are constants must be listed last; {quote(value.name)} follows one",
                    value.where,
                )

    def _check_nodes(self, nodes: Sequence[SourceNode], scope: NameScope, where: str) -> None:
        self._check_results(nodes, scope)
        for node in nodes:
            for name in node.inputs:
                if name and name not in scope.defined and scope.visible(name) is None:
                    self._report_unreadable(name, node, scope)
            for graph in node.graphs:
                self.graph(graph, scope)
            for name in node.outputs:
                if name:
                    scope.defined.setdefault(name, node.where)
        if scope.late:
            self._report_order(nodes, scope, where)
        names = _repeated(node.name for node in nodes if node.name)
        if names:
            self.findings.should(
                "node-name-repeated",
                f"node names should be unique; {len(names)} are not, such as {quote(names[0])}",
                where,
            )

    def _check_results(self, nodes: Sequence[SourceNode], scope: NameScope) -> None:
        """Check that no node writes a name that something else defines."""
        for index, node in enumerate(nodes):
            for name in node.outputs:
                if not name:
                    continue
                if name in scope.defined:
                    other = scope.defined[name]
                elif name in scope.producers:
                    other = nodes[scope.producers[name]].location
                else:
                    scope.producers[name] = index
                    outer = scope.parent and scope.parent.visible(name)
                    if outer:
                        self.findings.must(
                            "shadowing",
                            f"output {quote(name)} must not hide the value of {outer}, which is visible here",
                            node.location,
                        )
                    continue
                self.findings.must(
                    "defined-twice",
                    f"value {quote(name)} must be defined once; {other} defines it too",
                    node.location,
                )

    def _report_unreadable(self, name: str, node: SourceNode, scope: NameScope) -> None:
        later = scope.promised_in(name)
        if later is not None:
            later.late.append((name, node.location))
            return
        if scope.parent is None and name in self._names_inside():
            hint = "a subgraph defines it, but it ends with the subgraph; make it one of its outputs"
        else:
            hint = "" if self.findings.enough("undefined-value") else self._similar(name, scope)
        self.findings.must("undefined-value", f"value {quote(name)} must be defined", node.location, hint)

    def _names_inside(self) -> set[str]:
        """Return every name that some subgraph defines."""
        if self._inner_names is None:
            self._inner_names = set()
            waiting = [graph for node in self.model.graph.nodes for graph in node.graphs]
            while waiting:
                graph = waiting.pop()
                self._inner_names.update(name for node in graph.nodes for name in node.outputs)
                waiting.extend(inner for node in graph.nodes for inner in node.graphs)
        return self._inner_names

    @staticmethod
    def _similar(name: str, scope: NameScope) -> str:
        known: list[str] = []
        inner: NameScope | None = scope
        while inner is not None:
            known.extend(inner.defined)
            inner = inner.parent
        if len(known) > _SUGGEST_AMONG or len(name) > 200:
            return DEFINED_BY
        close = get_close_matches(name, known, 1)
        return f"did you mean {quote(close[0])}?" if close else DEFINED_BY

    def _report_order(self, nodes: Sequence[SourceNode], scope: NameScope, where: str) -> None:
        """Report values that are read before they are defined: cycles, or only a wrong order."""
        circles = cycles(nodes)
        for circle in circles:
            shown = " → ".join(nodes[index].location for index in circle[:8]) + (" → …" if len(circle) > 8 else "")
            self.findings.must("cycle", f"nodes must not depend on themselves; {len(circle)} do: {shown}", where)
        if circles:
            return
        name, reader = scope.late[0]
        more = f" (and {len(scope.late) - 1} more)" if len(scope.late) > 1 else ""
        self.findings.habit(
            "not-topological",
            f"a value must be defined before it is read; {quote(name)} is read by {reader}, "
            f"but defined later, by {nodes[scope.producers[name]].location}{more}",
            where,
            "sort the nodes, or read the file with --lenient, which does so",
        )

    def _check_outputs(self, graph: SourceGraph, scope: NameScope) -> None:
        for value in graph.outputs:
            if not value.name:
                self.findings.must("value-name", "a graph's output must have a name", value.where)
            elif value.name in scope.defined:
                pass
            elif scope.visible(value.name) is not None:
                self.findings.habit(
                    "output-from-outside",
                    f"a subgraph's output must be defined in it; {quote(value.name)} is defined outside",
                    value.where,
                    "pass it through an Identity node inside the subgraph, or read the file with --lenient",
                )
            else:
                self.findings.must(
                    "undefined-output",
                    f"output {quote(value.name)} must be defined by an input, initializer or node",
                    value.where,
                    "" if self.findings.enough("undefined-output") else self._similar(value.name, scope),
                )
        for name in _repeated(value.name for value in graph.outputs):
            self.findings.should("output-repeated", f"output {quote(name)} should be listed once", graph.where)
        if not graph.outputs and scope.parent is None:
            self.findings.must("no-outputs", "a graph must have an output, or it computes nothing", graph.where)

    def _check_value_info(self, values: Iterable[SourceValue], scope: NameScope) -> None:
        seen: dict[str, SourceValue] = {}
        for value in values:
            if not value.name:
                self.findings.should("value-name", "a value_info entry should name a value", value.where)
            elif value.name not in seen and value.name not in scope.defined:
                self.findings.should(
                    "value-info-unknown",
                    f"value_info should describe a value of the graph; {quote(value.name)} is not one",
                    value.where,
                )
            elif value.name in seen:
                same = seen[value.name].type == value.type
                report = self.findings.should if same else self.findings.must
                report(
                    "value-info-repeated",
                    f"value {quote(value.name)} must be described once; {seen[value.name].where} does so too"
                    + ("" if same else ", and differently"),
                    value.where,
                )
            seen.setdefault(value.name, value)


def _repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, each once."""
    count = Counter(names)
    return [name for name in count if count[name] > 1]
