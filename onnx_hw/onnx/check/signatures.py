"""Rules for every node by its operator's signature: existence in that opset, arity, attributes and their kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from onnx_hw.messages.text import quote
from onnx_hw.onnx.check.functions import all_nodes, called_function, functions_by_key
from onnx_hw.onnx.graph import signatures
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.opsets import domain_name
from onnx_hw.onnx.parse.source_model import SourceModel, SourceNode

#: Replacements of withdrawn operators.
_REPLACEMENTS: Final = {
    "Upsample": "Resize",
    "Scatter": "ScatterElements",
    "GroupNormalization": "GroupNormalization of opset 21",
    "TreeEnsembleClassifier": "TreeEnsemble",
    "TreeEnsembleRegressor": "TreeEnsemble",
}

#: Operators that were once tried out in the default domain and never published: no signature to check.
EXPERIMENTAL: Final = frozenset({
    "ATen", "Affine", "ConstantFill", "Crop", "DynamicSlice", "GRUUnit", "GivenTensorFill", "ImageScaler",
    "ParametricSoftplus", "Scale", "ScaledTanh",
})  # fmt: skip

#: Domains of the QONNX tools, which write nodes without importing them; the one version they have is meant.
_IMPLIED: Final = ("qonnx.", "finn.", "onnx.brevitas")

#: Constant takes exactly one of these.
_CONSTANT_VALUES: Final = frozenset({
    "value", "sparse_value", "value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings",
})  # fmt: skip


def check_signatures(model: SourceModel, findings: Findings) -> None:
    """Check every node of the model and of its functions, subgraphs included."""
    functions = functions_by_key(model)
    bodies = [(model.graph.nodes, model.opsets, "")]
    bodies += [(function.nodes, function.opsets, function.where) for function in model.functions]
    for nodes, opsets, where in bodies:
        missing: Counter[str] = Counter()
        for node in all_nodes(nodes):
            _check_attribute_names(node, findings)
            if not node.op_type:
                findings.must("operator-name", "a node must name its operator", node.location)
                continue
            if not node.outputs:
                findings.must("no-outputs", "a node must have an output", node.location)
            if node.domain not in opsets:
                missing[node.domain] += 1
                _report_not_imported(node, missing[node.domain], where, opsets, findings)
                continue
            if called_function(node, functions) is None and node.domain in signatures.standard_domains():
                check_node(node, opsets[node.domain], findings)


def _check_attribute_names(node: SourceNode, findings: Findings) -> None:
    if len(node.attributes) < 2:
        return
    for name, count in Counter(attribute.name for attribute in node.attributes).items():
        if count > 1:
            findings.must("attribute-repeated", f"attribute {quote(name)} must be given once", node.location)


def _report_not_imported(
    node: SourceNode, count: int, where: str, opsets: Mapping[str, int], findings: Findings
) -> None:
    """Report a domain that is not imported once, and not again at every node."""
    if count > 1:
        return
    if node.domain.startswith(_IMPLIED):
        findings.should(
            "domain-not-imported",
            f"opset_import should name {domain_name(node.domain)}; its version 1 is meant",
            where or "opset_import",
        )
        return
    hint = ""
    if opsets:
        hint = f"imported are: {', '.join(domain_name(domain) for domain in opsets)}"
    findings.must(
        "domain-not-imported",
        f"opset_import must name {domain_name(node.domain)}, whose version decides what {node.operator} means",
        node.location,
        hint,
    )


def check_node(node: SourceNode, version: int, findings: Findings) -> None:
    """Check one node of a standard domain against its signature at the imported version."""
    signature = signatures.signature_of(node.domain, node.op_type, version)
    if signature is None:
        _report_unknown(node, version, findings)
        return
    if signature.deprecated:
        replacement = _REPLACEMENTS.get(node.op_type)
        findings.must(
            "operator-withdrawn",
            f"{node.operator} was withdrawn in opset {signature.since}; the model imports {version}",
            node.location,
            f"use {replacement}, or an older opset" if replacement else "use an older opset",
        )
        return
    if node.overload:
        findings.should("overload", f"{node.operator} is an operator, which has no overloads", node.location)
    _check_arity("input", node.inputs, signature.inputs, node, findings)
    _check_arity("output", node.outputs, signature.outputs, node, findings)
    _check_attributes(node, signature, findings)


def _report_unknown(node: SourceNode, version: int, findings: Findings) -> None:
    if not node.domain and node.op_type in EXPERIMENTAL:
        return  # the capability stage refuses it by name
    versions = signatures.versions_of(node.domain, node.op_type)
    where = domain_name(node.domain)
    if versions:
        findings.must(
            "operator-too-new",
            f"{node.operator} exists in {where} from opset {versions[0]} on; the model imports {version}",
            node.location,
            f"import opset {versions[0]} or newer",
        )
        return
    if findings.enough("operator-unknown"):
        known: tuple[str, ...] = ()
    else:
        known = signatures.operator_names(node.domain)
    close = get_close_matches(node.op_type[:60], known, 1)
    findings.must(
        "operator-unknown",
        f"{where} must have the operator; it has no {quote(node.op_type)}",
        node.location,
        f"did you mean {close[0]}?" if close else "an operator of your own needs a domain of its own",
    )


def _check_arity(
    what: str, names: Sequence[str], parameters: Sequence[signatures.Parameter], node: SourceNode, findings: Findings
) -> None:
    variadic = bool(parameters) and parameters[-1].variadic
    if len(names) > len(parameters) and not variadic:
        findings.must(
            f"{what}-count",
            f"{node.operator} has at most {_count(len(parameters), what)}, not {len(names)}",
            node.location,
        )
        return
    for index, parameter in enumerate(parameters):
        if parameter.variadic:
            tail = names[index:]
            if len(tail) < parameter.least:
                least = _count(index + parameter.least, what)
                findings.must(
                    f"{what}-count", f"{node.operator} needs at least {least}, not {len(names)}", node.location
                )
            elif "" in tail:
                findings.must(
                    f"{what}-empty",
                    f"the list {parameter.name} of {node.operator} must have no empty name",
                    node.location,
                )
        elif not parameter.optional and (index >= len(names) or not names[index]):
            findings.must(
                f"{what}-missing",
                f"{node.operator} must have its {what} {parameter.name} (number {index})",
                node.location,
            )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _check_attributes(node: SourceNode, signature: signatures.Signature, findings: Findings) -> None:
    known = signature.attributes or {}
    names = set()
    for attribute in node.attributes:
        name = attribute.name
        names.add(name)
        if not name or name.startswith("__"):  # private to a tool, without meaning by the specification
            continue
        if name not in known:
            close = get_close_matches(name[:60], known, 1)
            findings.must(
                "attribute-unknown",
                f"{node.operator} of opset {signature.since} has no attribute {quote(name)}",
                attribute.where,
                f"did you mean {close[0]}?" if close else f"its attributes are: {', '.join(known) or 'none'}",
            )
        elif attribute.kind and attribute.kind != known[name]:
            findings.must(
                "attribute-kind",
                f"attribute {name} of {node.operator} must be of type {known[name]}, not {attribute.kind}",
                attribute.where,
            )
    for name in sorted(signature.required - names):
        findings.must("attribute-missing", f"{node.operator} must have the attribute {name}", node.location)
    if node.op_type == "Constant" and not node.domain:
        values = sorted(names & _CONSTANT_VALUES)
        if len(values) != 1:
            findings.must(
                "constant-value",
                f"Constant must have exactly one value attribute, not {' and '.join(values) or 'none'}",
                node.location,
            )
