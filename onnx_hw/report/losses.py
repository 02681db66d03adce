"""Tensors whose quantization adds most noise to the outputs of a float model, in the report and on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from onnx_hw.messages.text import abridged, short

MAX_TENSORS = 3
"""Number of tensors that the terminal shows."""

MAX_ADVICE = 160
"""Number of characters of advice that the terminal shows."""


@dataclass(frozen=True)
class Loss:
    """Noise that the integers of one tensor add to the noisiest output, when the tensors before it are integers too."""

    name: Annotated[str, "the value's name in the model; for weights, the name of their node or of its output"]
    kind: Annotated[str, "`data` or `weights`"]
    bits: Annotated[int, "width of its integers"]
    sqnr_db: Annotated[
        float | None, "signal to noise ratio at that output with this noise alone, dB; null if it adds nothing"
    ]
    share: Annotated[float, "share of the noise that all tensors add, 0..1"]
    saturated: Annotated[float, "share of its own squared errors that comes from values beyond its range, 0..1"]
    advice: Annotated[str, "how to reduce this noise; empty if that would gain little"]


def in_short(losses: Sequence[Loss]) -> str:
    """Return a sentence that names the worst tensors and the first advice on them."""
    worst = [loss for loss in losses[:MAX_TENSORS] if loss.sqnr_db is not None]
    shares = ", ".join(f"{loss.share:.0%} by {_named(loss)}" for loss in worst)
    advice = next((f"; {abridged(loss.advice, MAX_ADVICE)}" for loss in worst if loss.advice), "")
    return shares + advice


def _named(loss: Loss) -> str:
    return short(loss.name) if loss.kind == "data" else f"the weights of {short(loss.name)}"
