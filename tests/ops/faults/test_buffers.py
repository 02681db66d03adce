"""Deliberate faults of the buffers that a writer and a reader share: the proof must see each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from onnx_hw_rtl.cores import gearbox, regroup, sliding
from onnx_hw_rtl.cores.window_geometry import WindowGeometry
from support.injected_faults import NARROW, SLIDING, Fault, each_in_its_cores


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


def ring_of_one_block_less(patch: pytest.MonkeyPatch) -> None:
    original = gearbox._blocks_touched
    patch.setattr(gearbox, "_blocks_touched", lambda *arguments: original(*arguments) - 1)


def ring_of_one_group_less(patch: pytest.MonkeyPatch) -> None:
    original = regroup.Regroup._groups_held
    patch.setattr(regroup.Regroup, "_groups_held", lambda self: original(self) - 1)


def a_group_is_there(by: int) -> Callable[[pytest.MonkeyPatch], None]:
    """Its first output beat waits for a beat more, or less."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = regroup.Regroup._first_need
        patch.setattr(regroup.Regroup, "_first_need", lambda self, group: original(self, group) + by)

    return apply


def every_row_is_full(patch: pytest.MonkeyPatch) -> None:
    """The last pixel group of a row is taken for a whole one."""
    original = regroup.Regroup.__init__
    patch.setattr(
        regroup.Regroup,
        "__init__",
        lambda self, *, columns, i, o, **named: original(
            self, columns=columns + -columns % max(i.pixels, o.pixels), i=i, o=o, **named
        ),
    )


def pixels_are_not_turned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gearbox.Gearbox, "_turned", lambda self, elements, *shape: elements)


FAULTS = [
    Fault("a window waits for a beat too many", needs_differ(+1), SLIDING),
    Fault("a window does not wait for its last beat", needs_differ(-1), SLIDING),
    Fault("the padding begins a row too late", in_a_taller_image("_inside"), SLIDING),
    Fault("the last row waits for a row that is not there", in_a_taller_image("_last_touched"), SLIDING),
    Fault("columns beyond the image are read", every_row_of_the_image_is_full, ("window of pixels",)),
    Fault("two lanes of the window are swapped", fetches_swapped_lanes, SLIDING),
    Fault("a beat is written after it is read", writes_in_stage(4), NARROW),
    Fault("a beat is overwritten before it is read", writes_in_stage(1), NARROW),
    Fault("the ring is a block too short", ring_of_one_block_less, ("gearbox", "gearbox of pixels")),
    Fault("the ring is a group too short", ring_of_one_group_less, ("regroup", "scatter")),
    Fault("a group waits for a beat too many", a_group_is_there(+1), ("regroup",)),
    Fault("a group does not wait for its last beat", a_group_is_there(-1), ("regroup", "scatter")),
    Fault("every row is taken for a full one", every_row_is_full, ("regroup", "scatter")),
    Fault("pixels are not turned", pixels_are_not_turned, ("gearbox of pixels",)),
]


@pytest.mark.parametrize(("fault", "name"), each_in_its_cores(FAULTS))
def test_fault_is_caught(fault: Fault, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.check(name, monkeypatch)
