"""Which tensors lose most at the outputs of a float model, in the report and on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from onnx_hw.messages.text import abridged, short

TOLD = 3
"""Tensors, on the terminal."""

LONGEST = 160
"""Characters of advice there."""


@dataclass(frozen=True)
class Loss:
    """What the integers of one tensor add to the noise at the output that has most, those before it being there."""

    name: Annotated[str, "the value's name in the model; of weights that of their node, or of its output"]
    kind: Annotated[str, "`data` or `weights`"]
    bits: Annotated[int, "width of its integers"]
    sqnr_db: Annotated[float | None, "signal to noise there, were this all, dB; null where nothing is added"]
    share: Annotated[float, "of what all tensors add, 0..1"]
    saturated: Annotated[float, "share of its own squared errors that is made beyond the ends of its range, 0..1"]
    advice: Annotated[str, "what to do about it; empty where that gains little"]


def in_short(losses: Sequence[Loss]) -> str:
    """The worst of them, and what helps most."""
    worst = [loss for loss in losses[:TOLD] if loss.sqnr_db is not None]
    said = ", ".join(f"{loss.share:.0%} by {_named(loss)}" for loss in worst)
    advice = next((f"; {abridged(loss.advice, LONGEST)}" for loss in worst if loss.advice), "")
    return said + advice


def _named(loss: Loss) -> str:
    return short(loss.name) if loss.kind == "data" else f"the weights of {short(loss.name)}"
