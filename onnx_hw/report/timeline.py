"""Section of the report about the activity of the cores over time: when each works, and what it waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from onnx_hw.ir.design import Design
from onnx_hw.timing.activity import Waiting, activity

FRAMES = 2
STEPS = 240  # of the time axis


@dataclass(frozen=True)
class CoreActivity:
    """Activity of a core over time."""

    name: Annotated[str, "name of the node"]
    frames: Annotated[
        tuple[str, ...],
        "one text per frame with one digit per step: 0 for idle, 9 for work on this frame in every cycle of the step",
    ]
    waits: Annotated[tuple[Waiting, ...], "the causes of waiting, the longest first"]


@dataclass(frozen=True)
class Timeline:
    """Activity of all cores for a few frames from reset, offered as fast as they are taken; predicted."""

    cycles: Annotated[int, "clock cycles from reset to the last event of the last frame"]
    step_cycles: Annotated[int, "clock cycles of a step"]
    cores: Annotated[tuple[CoreActivity, ...], "every core, in the order of the data"]


def describe_timeline(design: Design) -> Timeline | None:
    """Return the section; None for frames that are too long to be looked at."""
    prediction = activity(design, FRAMES, STEPS)
    if prediction is None:
        return None
    return Timeline(
        prediction.cycles,
        prediction.step,
        tuple(
            CoreActivity(
                name,
                tuple(map(_digits, shares)),
                prediction.waits[name],
            )
            for name, shares in prediction.shares.items()
        ),
    )


def _digits(shares: np.ndarray) -> str:
    """Return one digit per share; a share above 0 gets 1 at least."""
    digits = np.where(shares > 0, np.clip(np.rint(9 * shares), 1, 9), 0).astype(int)
    return "".join(map(str, digits))
