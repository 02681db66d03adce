"""What the host must compute before the hardware's first product: spectra, say, and what those are made of.

A value that such an operator reads is not quantized for it, even where hardware reads it, too.
"""

from __future__ import annotations

from collections.abc import Callable

from onnx_hw.exact.rationals import NotFinite
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.dry_run import OF_THE_STAND_INS, stand_in
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops import lowering_of
from onnx_hw.onnx.evaluate.macs import is_product
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import SCALE_EFFECTS, Effect


def is_obstacle(node: Node, graph: Graph) -> bool:
    """Whether a node would not be in hardware either if its data were quantized, because of its attributes, say."""
    lowering = lowering_of(node)
    if lowering is None:
        return True
    if facts_of(node).effect in (Effect.SUMS, Effect.PICKS, *SCALE_EFFECTS):
        return False
    stage = Builder(graph)
    try:
        for name in names_read(node) - set(graph.constants):
            stand_in(stage, name)
        lowering(stage, node)
    except Obstacle as obstacle:
        return obstacle.code not in OF_THE_STAND_INS
    except NotFinite:
        return False
    return False


def left_in_floats(graph: Graph) -> frozenset[str]:
    """Results of the nodes that are never in hardware, and of those before any quantization that cannot be in it, or
    read what is not.
    """
    found: set[str] = set()
    raw = {value.name for value in graph.inputs}
    for node in graph.nodes:
        data = names_read(node) - set(graph.constants)
        before = bool(data) and data <= raw and not is_product(node) and facts_of(node).effect not in SCALE_EFFECTS
        if lowering_of(node) is None or (before and (not found.isdisjoint(data) or is_obstacle(node, graph))):
            found.update(node.outputs)
        if before:
            raw.update(node.outputs)
    return frozenset(found)


def values_of_head(graph: Graph, stays: Callable[[Node], bool]) -> frozenset[str]:
    """The values that the host computes: of nodes that stay with it, before all and leading to some product, and what
    those are made of.

    Args:
        stays: whether a node cannot be in hardware.
    """
    behind: set[str] = set()  # values that some product is before
    early = []
    for node in graph.nodes:
        if is_product(node) or not behind.isdisjoint(names_read(node)):
            behind.update(node.outputs)
        elif not names_read(node) <= set(graph.constants):
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
