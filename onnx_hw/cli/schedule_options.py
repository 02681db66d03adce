"""Options of what is asked of the scheduler."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from onnx_hw.runtime.schedule_request import ScheduleRequest

MULTIPLIERS = click.option(
    "--multipliers", type=click.IntRange(min=1), metavar="N", help="Use at most N MAC lanes."
)  # fmt: skip
FPS = click.option(
    "--fps", type=click.FloatRange(min=0, min_open=True), metavar="N",
    help="Make the cheapest design that does N frames a second, instead of the fastest.",
)  # fmt: skip
CLOCK = click.option(
    "--clock", "clock_mhz", type=click.FloatRange(min=0, min_open=True), metavar="MHZ",
    help="Use this clock instead of the board's own. A build that does not reach it fails.",
)  # fmt: skip


def schedule_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of what is asked of the scheduler; the command gets them as one ``scheduling``."""

    @wraps(command)
    def with_scheduling(
        *arguments: Any, multipliers: int | None, fps: float | None, clock_mhz: float | None, **options: Any
    ) -> Any:
        request = ScheduleRequest(multipliers=multipliers, fps=fps, clock_mhz=clock_mhz)
        return command(*arguments, scheduling=request, **options)

    return MULTIPLIERS(FPS(CLOCK(with_scheduling)))
