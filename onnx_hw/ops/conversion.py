"""How a tensor in one order becomes the same tensor in another: the cores that do it, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_hw.ops.folding import Folding
from onnx_hw.ops.gearbox import Gearbox, GearboxFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.regroup import Regroup, RegroupFolding
from onnx_hw.order import Order


def conversion(given: Order, wanted: Order) -> Iterator[tuple[Operator, Folding]]:
    """None where nothing differs. Lanes are changed at equal pixels, pixels from or to 1 at equal lanes.

    Raises:
        ValueError: channels of one of them wait for a tile of several pixel groups, which no core gathers yet.
    """
    if given.tile != given.pixels or wanted.tile != wanted.pixels:
        raise ValueError(f"no core makes {wanted!r} of {given!r}")
    tensor, lanes, pixels = given.tensor, given.lanes, given.pixels
    if pixels not in (1, wanted.pixels):
        yield Regroup(tensor), RegroupFolding(lanes, in_pixels=pixels)
        pixels = 1
    if lanes != wanted.lanes:
        yield Gearbox(tensor), GearboxFolding(lanes, wanted.lanes, pixels)
        lanes = wanted.lanes
    if pixels != wanted.pixels:
        yield Regroup(tensor), RegroupFolding(lanes, out_pixels=wanted.pixels)
