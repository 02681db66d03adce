"""Prefix of the model that the host must compute before the first product in hardware, such as a spectrum.

An operator of the prefix reads its data unquantized, even where hardware reads the same value, too.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from onnx_hw.exact.rationals import NotFinite
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.dry_run import STAND_IN_CODES, add_stand_in
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops import lowering_of
from onnx_hw.onnx.evaluate.macs import is_product
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import SCALE_EFFECTS, Effect


def is_left_to_host(node: Node) -> bool:
    """Return whether a node is left to the host unless a product needs its result: it has no lowering, or it is a
    Softmax or a normalization.
    """
    return lowering_of(node) is None or facts_of(node).effect is Effect.NORMALIZES


def must_stay_on_host(node: Node, graph: Graph) -> bool:
    """Return whether a node must stay on the host even if its data is quantized, for example for its attributes."""
    lowering = lowering_of(node)
    if lowering is None or is_left_to_host(node) or divides_tensors(node, graph.constants):
        return True
    if facts_of(node).effect in (Effect.SUMS, Effect.PICKS, Effect.DECIDES, *SCALE_EFFECTS):
        return False
    trial = Builder(graph)
    try:
        for name in names_read(node).difference(graph.constants):
            add_stand_in(trial, name)
        lowering(trial, node)
    except Obstacle as obstacle:
        return obstacle.code not in STAND_IN_CODES
    except NotFinite:
        return False
    return False


def divides_tensors(node: Node, constants: Container[str]) -> bool:
    """Return whether a node divides one tensor by another; it is hardware only between products, like a Softmax."""
    facts = facts_of(node)
    return facts.effect is Effect.SCALES and facts.inverts and not any(name in constants for name in node.inputs)


def values_left_in_floats(graph: Graph) -> frozenset[str]:
    """Return the results of the nodes without a lowering, of Softmax and normalizations, and of nodes before any
    quantization that must stay on the host or read such a result.
    """
    results: set[str] = set()
    raw = {value.name for value in graph.inputs}
    for node in graph.nodes:
        data = names_read(node).difference(graph.constants)
        before = bool(data) and data <= raw and not is_product(node) and facts_of(node).effect not in SCALE_EFFECTS
        if is_left_to_host(node) or (before and (not results.isdisjoint(data) or must_stay_on_host(node, graph))):
            results.update(node.outputs)
        if before:
            raw.update(node.outputs)
    return frozenset(results)


def values_of_head(graph: Graph, stays: Callable[[Node], bool]) -> frozenset[str]:
    """Return the values that the host computes before any product.

    Those are the results of nodes that stay on the host and that some product depends on, and the values that these
    nodes depend on.

    Args:
        stays: tells whether a node must stay on the host.
    """
    behind: set[str] = set()  # values that depend on some product
    early = []
    for node in graph.nodes:
        if is_product(node) or not behind.isdisjoint(names_read(node)):
            behind.update(node.outputs)
        elif names_read(node).difference(graph.constants):
            early.append(node)
    leading: set[str] = set()
    for node in reversed(graph.nodes):
        if facts_of(node).effect is Effect.SUMS or is_product(node) or not leading.isdisjoint(node.outputs):
            leading.update(names_read(node))
    head: set[str] = set()
    read: set[str] = set()
    for node in reversed(early):
        if not leading.isdisjoint(node.outputs) and (not read.isdisjoint(node.outputs) or stays(node)):
            head.update(name for name in node.outputs if name)
            read.update(names_read(node))
    return frozenset(head)
