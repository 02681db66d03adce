"""Form that a user who has tried a build on a board may paste into an issue."""

from __future__ import annotations

import platform
from statistics import median
from typing import TYPE_CHECKING

from onnx_hw import __version__

if TYPE_CHECKING:
    from onnx_hw.commands.infer import Inferred

FORM = "a new issue, `Tried on a board`"
SIMULATED = "sim"


def block(result: Inferred) -> str:
    """Return lines of Markdown for the form, from a run that was compared with golden."""
    device, faults = result.device, result.faults
    where = "simulated, no board" if device.port == SIMULATED else device.port
    lines = [
        f"onnx-hw {__version__}: {device.design} on {device.board}, design {device.digest}",
        f"port: {where}, {device.baud:,} baud; {platform.system()} on {platform.machine()}",
        f"frames: {result.frames:,} of {result.frames:,} as golden",
    ]
    if result.timing is not None:
        lines.append(f"cycles: {result.timing.exact:,} of {result.timing.frames:,} as predicted, {_paces(result)}")
    wire = (faults.broken, faults.missed, faults.silent, faults.resent)
    lines.append("wire: {:,} broken packets, {:,} missed, {:,} silences, {:,} sent again".format(*wire))
    return "\n".join(["```", *lines, "```"])


def _paces(result: Inferred) -> str:
    return f"{median(result.intervals):,.0f} from frame to frame" if result.intervals else "one frame alone"
