"""The reason why a node cannot become hardware, as an exception."""

from __future__ import annotations

SCALES_MOVE = "scales-move"
"""Code of the obstacle that elements of channels with different scales would come to lie in one channel."""

COARSE_TABLE = "coarse-table"
"""Code of the obstacle that no table is fine enough for a scale."""

PER_PIXEL = "constant-per-pixel"
"""Code of the obstacle that a constant differs between the pixels of a channel."""


class Obstacle(Exception):
    """Reason why a node cannot become hardware.

    Attributes:
        code: code of the error, for the case that nothing else can be done with the node.
        message: one sentence: what must be, what was.
        hint: how to change the model, or empty.
        needs: name of the value that would have to be quantized, if that would help, or empty.
    """

    def __init__(self, code: str, message: str, hint: str = "", needs: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.needs = code, message, hint, needs
