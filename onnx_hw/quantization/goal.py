"""Quality goal: what a user asks of the integers of a float model, instead of a number of bits."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_hw.messages.errors import user_error
from onnx_hw.runtime.options import MOST_DB


@dataclass(frozen=True)
class Goal:
    """Goal of the search for bit widths; exactly one of the two attributes is set.

    Attributes:
        sqnr_db: least SQNR of every numeric output, in dB; for an output of a Softmax, that of its logits.
        accuracy_loss: greatest loss of accuracy, in percentage points. Where no labels are known, the class
            that the float model predicts counts as right.
    """

    sqnr_db: float | None = None
    accuracy_loss: float | None = None

    def __post_init__(self) -> None:
        if (self.sqnr_db is None) == (self.accuracy_loss is None):
            raise user_error(
                "goal",
                "a goal must be either a signal to noise ratio or a loss of accuracy, not both and not neither",
                stage="arguments",
            )
        for option, number, (low, high) in (
            ("--sqnr", self.sqnr_db, (1.0, MOST_DB)),
            ("--accuracy-loss", self.accuracy_loss, (0.0, 100.0)),
        ):
            if number is not None and not low <= number <= high:  # false for NaN
                raise user_error(
                    "goal",
                    f"the goal must be between {low:g} and {high:g}, not {number:g}",
                    where=option,
                    stage="arguments",
                )
