"""The reason why a node cannot become hardware, as an exception."""

from __future__ import annotations

from onnx_hw.onnx.graph.model import Node

SCALES_MOVE = "scales-move"
"""Code of the obstacle that elements of channels with different scales would move into one channel."""

COARSE_TABLE = "coarse-table"
"""Code of the obstacle that no table of numbers is fine enough for a scale."""

PER_PIXEL = "constant-per-pixel"
"""Code of the obstacle that a constant differs between the pixels of a channel."""

TOO_MANY_WEIGHTS = "too-many-weights"
"""Code of the obstacle that a product has more weights than any chip stores: the model is too large."""


class Obstacle(Exception):
    """Reason why a node cannot become hardware.

    Attributes:
        code: code of the error that is reported if the node must be in hardware.
        message: one sentence: what must be, and what was given.
        hint: way to change the model, or empty.
        needs: name of the value that should be quantized to remove the obstacle, or empty.
    """

    def __init__(self, code: str, message: str, hint: str = "", needs: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.needs = code, message, hint, needs


def not_built(node: Node) -> Obstacle:
    """Return the obstacle that no hardware exists for the operator of a node."""
    return Obstacle("unsupported", f"{operator_name(node)} is not built in hardware")


def operator_name(node: Node) -> str:
    """Return the name of a node's operator, with its domain unless that is ONNX's own."""
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type
