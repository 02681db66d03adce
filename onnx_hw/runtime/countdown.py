"""A bar for many frames: how many are done, and how long the others will take."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from onnx_hw.messages.text import printable

BAR_CHARACTERS = 20
"""Length of a bar, without its ends."""


@dataclass
class Countdown:
    """The time that a number of frames takes from ``started`` on, in seconds of the monotonic clock."""

    frames: int
    started: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.started

    def after(self, done: int) -> str:
        """Return the bar, the frames that are done, and the seconds that are left, in words."""
        filled = BAR_CHARACTERS * done // self.frames
        bar = printable(f"[{'=' * filled}{' ' * (BAR_CHARACTERS - filled)}]")
        left = f", {self.elapsed * (self.frames - done) / done:.0f} s left" if done else ""
        return f"{bar} {done:,} of {self.frames:,} frames{left}"
