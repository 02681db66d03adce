"""Table of lowerings, to which a decorator adds rows. An operator's effect on integers is in its ``Facts``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx_hw.lower.builder import Builder
from onnx_hw.onnx.graph.model import Node

Lowering = Callable[[Builder, Node], None]

LOWERINGS: dict[tuple[str, str], Lowering] = {}
"""Lowerings by domain and name of the operator."""


def lowers(*operators: str, domains: Sequence[str] = ("",)) -> Callable[[Lowering], Lowering]:
    """Register the lowering of ONNX operators."""

    def register(lowering: Lowering) -> Lowering:
        LOWERINGS.update({(domain, name): lowering for domain in domains for name in operators})
        return lowering

    return register


def lowering_of(node: Node) -> Lowering | None:
    """Return the lowering of a node; None where its operator never becomes hardware."""
    return LOWERINGS.get((node.domain, node.op_type))
