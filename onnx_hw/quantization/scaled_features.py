"""Grids of features that the host scales for decision trees: known before any sample."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.onnx.graph.model import Graph
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.quantization.scheme import DEFAULT, Scheme


def scaled_feature_grids(graph: Graph, points: Collection[str], scheme: Scheme) -> dict[str, Grid]:
    """Return the grids of the values among ``points`` that are scaled to −1..1 for comparisons, by name.

    They have the bits that they are scaled for, unless the scheme states another precision than the usual one.
    """
    grids = {}
    for node in graph.nodes:
        bits, name = node.attributes.get("scaled_bits", 0), node.inputs[0] if node.inputs else ""
        if facts_of(node).effect is Effect.DECIDES and bits and name in points:
            stated = scheme.data_overrides.get(name) or (scheme.data if scheme.data != DEFAULT.data else None)
            width = bits if stated is None else stated.bits
            grids[name] = Grid.over(Int(width), Fraction(1, 1 << (width - 1)))
    return grids
