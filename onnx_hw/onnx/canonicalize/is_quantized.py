"""Detection of models that bring integers of their own."""

from __future__ import annotations

from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.operators.facts import SCALE_EFFECTS
from onnx_hw.onnx.operators.registry import facts_of


def is_quantized(model: Model) -> bool:
    """Say whether the model brings integers of its own for its data; weights alone do not count."""
    constants = model.graph.constants
    rows = ((node, facts_of(node)) for node in model.graph.nodes)
    return any(
        facts.takes_integers or (facts.effect in SCALE_EFFECTS and node.inputs[0] not in constants)
        for node, facts in rows
    )
