"""Deliberate faults of the buffer that windows, pools and depthwise convolutions share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from onnx_hw_rtl.cores import sliding
from onnx_hw_rtl.cores.window_geometry import WindowGeometry
from support.injected_faults import Fault


def needs_differ(by: int) -> Callable[[pytest.MonkeyPatch], None]:
    """A window waits for one beat more, or less, than it touches."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = sliding.SlidingBuffer._needed
        patch.setattr(sliding.SlidingBuffer, "_needed", lambda self, row, column: original(self, row, column) + by)

    return apply


def with_a_row_more(geometry: WindowGeometry) -> WindowGeometry:
    """Instead of one of padding."""
    (height, width, channels), (top, left, bottom, right) = geometry.shape, geometry.pads
    return replace(geometry, shape=(height + 1, width, channels), pads=(top, left, bottom - 1, right))


def in_a_taller_image(method: str) -> Callable[[pytest.MonkeyPatch], None]:
    """The last row is off by one: a method of the buffer believes that there is another."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = getattr(sliding.SlidingBuffer, method)

        def taller(self: Any, axis: int) -> Any:
            true = self.geometry, self.reach
            self.geometry, self.reach = map(with_a_row_more, true)
            try:
                return original(self, axis)
            finally:
                self.geometry, self.reach = true

        patch.setattr(sliding.SlidingBuffer, method, taller)

    return apply


def every_row_of_the_image_is_full(patch: pytest.MonkeyPatch) -> None:
    """Columns beyond the last one are taken for columns of the image."""
    original = sliding.PixelGroups.reach.fget

    def reach(self: Any) -> WindowGeometry:
        found = original(self)
        (height, width, channels), (top, left, bottom, right) = found.shape, found.pads
        more = -width % self.in_pixels
        return replace(found, shape=(height, width + more, channels), pads=(top, left, bottom, right - more))

    patch.setattr(sliding.PixelGroups, "reach", property(reach))


def writes_in_stage(stage: int) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(sliding.SlidingBuffer, "WRITE_STAGE", stage)


def fetches_swapped_lanes(patch: pytest.MonkeyPatch) -> None:
    original = sliding.SlidingBuffer._fetch

    def fetch(self: Any, source: Any) -> Any:
        first, second, *others = original(self, source)
        return [second, first, *others]

    patch.setattr(sliding.SlidingBuffer, "_fetch", fetch)


def sliding_faults(core: str) -> list[Fault]:
    """Return the faults that the proof must see in a core's cases: ``core``, ``core of pixels`` and ``narrow core``.

    In the narrow one an operation reads what was written one cycle before, and is overwritten one cycle later.
    """
    usual, narrow = (core, f"{core} of pixels"), (f"narrow {core}",)
    return [
        Fault("a window waits for a beat too many", needs_differ(+1), usual),
        Fault("a window does not wait for its last beat", needs_differ(-1), usual),
        Fault("the padding begins a row too late", in_a_taller_image("_inside"), usual),
        Fault("the last row waits for a row that is not there", in_a_taller_image("_last_touched"), usual),
        Fault("two lanes of the window are swapped", fetches_swapped_lanes, usual),
        Fault("a beat is written after it is read", writes_in_stage(4), narrow),
        Fault("a beat is overwritten before it is read", writes_in_stage(1), narrow),
    ]
