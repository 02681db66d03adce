"""Rules for subgraphs: numbers of inputs and outputs are those that If, Loop, Scan and SequenceMap pass to them."""

from __future__ import annotations

from onnx_hw.onnx.check.functions import all_nodes
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.source_model import SourceGraph, SourceModel, SourceNode


def check_subgraphs(model: SourceModel, findings: Findings) -> None:
    """Check every node of the default domain that owns a subgraph."""
    bodies = [(model.graph.nodes, model.opsets), *((body.nodes, body.opsets) for body in model.functions)]
    for nodes, opsets in bodies:
        for node in all_nodes(nodes):
            if not node.domain and node.op_type in _RULES:
                _RULES[node.op_type](node, opsets.get("", 1), findings)


def _check_if(node: SourceNode, _: int, findings: Findings) -> None:
    for name in ("then_branch", "else_branch"):
        branch = _graph(node, name)
        if branch is not None:
            _must_have(branch, "inputs", len(branch.inputs), 0, node, findings)
            _must_have(branch, "outputs", len(branch.outputs), len(node.outputs), node, findings)


def _check_loop(node: SourceNode, _: int, findings: Findings) -> None:
    """Check the body: iteration number, condition, carried values → condition, carried values, scan outputs."""
    body = _graph(node, "body")
    if body is None:
        return
    carried = max(0, len(node.inputs) - 2)
    _must_have(body, "inputs", len(body.inputs), 2 + carried, node, findings)
    if len(node.outputs) < carried or len(body.outputs) < 1 + len(node.outputs):
        _must_have(body, "outputs", len(body.outputs), 1 + max(carried, len(node.outputs)), node, findings)


def _check_scan(node: SourceNode, version: int, findings: Findings) -> None:
    """Check the body: state and one element of each scan input → state and one element of each scan output.

    Scan of opset 8 has one more input, the lengths of the sequences.
    """
    body = _graph(node, "body")
    if body is None:
        return
    lengths = 1 if version < 9 else 0
    scanned = node.attribute("num_scan_inputs")
    if scanned is not None and isinstance(scanned.value, int) and not 0 < scanned.value <= len(node.inputs) - lengths:
        findings.must(
            "scan-inputs",
            f"num_scan_inputs must be 1..{len(node.inputs) - lengths}, as Scan has inputs, not {scanned.value}",
            scanned.where,
        )
    _must_have(body, "inputs", len(body.inputs), len(node.inputs) - lengths, node, findings)
    if len(body.outputs) < len(node.outputs):
        _must_have(body, "outputs", len(body.outputs), len(node.outputs), node, findings)


def _check_sequence_map(node: SourceNode, _: int, findings: Findings) -> None:
    body = _graph(node, "body")
    if body is not None:
        _must_have(body, "inputs", len(body.inputs), len(node.inputs), node, findings)
        _must_have(body, "outputs", len(body.outputs), len(node.outputs), node, findings)


def _graph(node: SourceNode, name: str) -> SourceGraph | None:
    attribute = node.attribute(name)
    return attribute.value if attribute is not None and isinstance(attribute.value, SourceGraph) else None


def _must_have(graph: SourceGraph, what: str, actual: int, expected: int, node: SourceNode, findings: Findings) -> None:
    if actual != expected:
        findings.must(
            f"subgraph-{what}", f"this graph of {node.op_type} must have {expected} {what}, not {actual}", graph.where
        )


_RULES = {"If": _check_if, "Loop": _check_loop, "Scan": _check_scan, "SequenceMap": _check_sequence_map}
