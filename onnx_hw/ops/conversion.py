"""How a tensor in one order becomes the same tensor in another: the cores that do it, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnx_hw.ops.folding import Folding
from onnx_hw.ops.gearbox import Gearbox, GearboxFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.rearrange import Rearrange, RearrangeFolding
from onnx_hw.ops.regroup import Regroup, RegroupFolding
from onnx_hw.order import Order


def conversion(given: Order, wanted: Order) -> Iterator[tuple[Operator, Folding]]:
    """None where nothing differs. Lanes are changed at equal pixels, pixels from or to 1 at equal lanes.

    Where the pixels of a beat are not a tile, the beats come in another sequence: that is a rearrangement.
    """
    tensor, lanes, pixels = given.tensor, given.lanes, given.pixels
    if given.alike(wanted):
        return
    if given.tile != given.pixels or wanted.tile != wanted.pixels:
        cuts = (given.lanes, wanted.lanes, given.pixels, wanted.pixels, given.tile, wanted.tile)
        yield Rearrange(tensor, tensor.shape, np.arange(tensor.size)), RearrangeFolding(*cuts)
        return
    if pixels not in (1, wanted.pixels):
        yield Regroup(tensor), RegroupFolding(lanes, in_pixels=pixels)
        pixels = 1
    if lanes != wanted.lanes:
        yield Gearbox(tensor), GearboxFolding(lanes, wanted.lanes, pixels)
        lanes = wanted.lanes
    if pixels != wanted.pixels:
        yield Regroup(tensor), RegroupFolding(lanes, out_pixels=wanted.pixels)
