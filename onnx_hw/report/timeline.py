"""The section of the report about who works when, and who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from onnx_hw.ir.design import Design
from onnx_hw.timing.activity import activity

FRAMES = 2
STEPS = 240


@dataclass(frozen=True)
class Waiting:
    """Cycles of the last frame in which a core does nothing because of another one."""

    what: Annotated[str, "what it lacks: a token, or room for one"]
    whom: Annotated[str, "name of the core that would have to act first; `source` or `sink` for the outside"]
    cycles: Annotated[int, "clock cycles of the frame"]


@dataclass(frozen=True)
class CoreActivity:
    """When a core is at work."""

    name: Annotated[str, "name of the node"]
    frames: Annotated[
        tuple[str, ...],
        "a text per frame, of a digit per step: 0 for nothing, 9 for work on this frame in every cycle of the step",
    ]
    waits: Annotated[tuple[Waiting, ...], "what it waits for, the longest first"]


@dataclass(frozen=True)
class Timeline:
    """A few frames from reset, offered as fast as they are taken; predicted."""

    cycles: Annotated[int, "clock cycles from reset to the last event of the last frame"]
    step_cycles: Annotated[int, "clock cycles of a step"]
    cores: Annotated[tuple[CoreActivity, ...], "every core, in the order of the data"]


def describe_timeline(design: Design) -> Timeline | None:
    """None for frames that are too long to be looked at."""
    found = activity(design, FRAMES, STEPS)
    if found is None:
        return None
    return Timeline(
        found.cycles,
        found.step,
        tuple(
            CoreActivity(
                name,
                tuple(map(_digits, shares)),
                tuple(Waiting(wait.what, wait.whom, wait.cycles) for wait in found.waits[name]),
            )
            for name, shares in found.shares.items()
        ),
    )


def _digits(shares: np.ndarray) -> str:
    """What is not nothing is 1 at least."""
    digits = np.where(shares > 0, np.clip(np.rint(9 * shares), 1, 9), 0).astype(int)
    return "".join(map(str, digits))
