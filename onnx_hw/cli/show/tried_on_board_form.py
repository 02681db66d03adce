"""What a user may paste who has tried a build on a board."""

from __future__ import annotations

import platform
from statistics import median
from typing import TYPE_CHECKING

from onnx_hw import __version__

if TYPE_CHECKING:
    from onnx_hw.commands.infer import Inferred

FORM = "a new issue, `Tried on a board`"
SIMULATED = "sim"


def block(made: Inferred) -> str:
    """Lines of Markdown for the form, or to see what they would be: of a build that was compared with golden."""
    device, faults = made.device, made.faults
    where = "simulated, no board" if device.port == SIMULATED else device.port
    lines = [
        f"onnx-hw {__version__}: {device.design} on {device.board}, design {device.digest}",
        f"port: {where}, {device.baud:,} baud; {platform.system()} on {platform.machine()}",
        f"frames: {made.frames:,} of {made.frames:,} as golden",
    ]
    if made.timing is not None:
        lines.append(f"cycles: {made.timing.exact:,} of {made.timing.frames:,} as predicted, {_paces(made)}")
    wire = (faults.broken, faults.missed, faults.silent, faults.resent)
    lines.append("wire: {:,} broken packets, {:,} missed, {:,} silences, {:,} sent again".format(*wire))
    return "\n".join(["```", *lines, "```"])


def _paces(made: Inferred) -> str:
    return f"{median(made.intervals):,.0f} from frame to frame" if made.intervals else "one frame alone"
