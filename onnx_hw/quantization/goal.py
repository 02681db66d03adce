"""What a user wants of the integers of a float model, instead of saying how many bits they have."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_hw.messages.errors import user_error
from onnx_hw.runtime.options import MOST_DB


@dataclass(frozen=True)
class Goal:
    """One of the two.

    Attributes:
        sqnr_db: signal to noise of every output of numbers, dB; before a Softmax.
        accuracy_loss: points (1/100) of the share of samples whose class is right. Where no labels are known the class
            in floats is right, so that no sample's class may change but for so many.
    """

    sqnr_db: float | None = None
    accuracy_loss: float | None = None

    def __post_init__(self) -> None:
        if (self.sqnr_db is None) == (self.accuracy_loss is None):
            raise user_error(
                "goal", "there must be a signal to noise or a loss of accuracy, not both or none", stage="arguments"
            )
        for option, given, (low, high) in (
            ("--sqnr", self.sqnr_db, (1.0, MOST_DB)),
            ("--accuracy-loss", self.accuracy_loss, (0.0, 100.0)),
        ):
            if given is not None and not low <= given <= high:  # false for NaN
                raise user_error(
                    "goal", f"it must be within {low:g} .. {high:g}, not {given:g}", where=option, stage="arguments"
                )
