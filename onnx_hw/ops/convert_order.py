"""How a tensor in one order becomes the same tensor in another: the cores that do it, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import gcd

import numpy as np

from onnx_hw.ops.folding import Folding
from onnx_hw.ops.gearbox import Gearbox, GearboxFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.rearrange import Rearrange, RearrangeFolding
from onnx_hw.ops.regroup import Regroup, RegroupFolding
from onnx_hw.ops.stream_order import Order


def conversion(given: Order, wanted: Order) -> Iterator[tuple[Operator, Folding]]:
    """Return the cores that convert one order into another; none where nothing differs. Lanes are changed at equal
    pixels; pixels at equal lanes, the wider ones: so no core between the two takes more cycles than both, where the
    pixels of one divide those of the other.

    Where the pixels of a beat are not a tile, the beats come in another sequence: that is a rearrangement, at the lanes
    of the side with larger tiles.
    """
    tensor, lanes = given.tensor, given.lanes
    if given.alike(wanted):
        return
    if given.tile != given.pixels and wanted.tile != wanted.pixels:
        yield _rearrangement(given, wanted)
        return
    if given.tile != given.pixels:
        between = Order(tensor, lanes, wanted.pixels)
        yield _rearrangement(given, between)
        yield from conversion(between, wanted)
        return
    if wanted.tile != wanted.pixels:
        between = Order(tensor, wanted.lanes, given.pixels)
        yield from conversion(given, between)
        yield _rearrangement(between, wanted)
        return
    if lanes < wanted.lanes:
        yield Gearbox(tensor), GearboxFolding(lanes, wanted.lanes, given.pixels)
        lanes = wanted.lanes
    for before, after in pairwise(dict.fromkeys(_pixels_between(given.pixels, wanted.pixels))):
        yield Regroup(tensor), RegroupFolding(lanes, before, after)
    if lanes != wanted.lanes:
        yield Gearbox(tensor), GearboxFolding(lanes, wanted.lanes, wanted.pixels)


def _rearrangement(given: Order, wanted: Order) -> tuple[Operator, Folding]:
    """Return the core that makes any order of another one."""
    cuts = (given.lanes, wanted.lanes, given.pixels, wanted.pixels, given.tile, wanted.tile)
    return Rearrange(given.tensor, given.tensor.shape, np.arange(given.tensor.size)), RearrangeFolding(*cuts)


def _pixels_between(given: int, wanted: int) -> tuple[int, ...]:
    """Return the numbers of pixels from one to another, of which each divides the next or is its multiple."""
    return (given, wanted) if gcd(given, wanted) in (given, wanted) else (given, gcd(given, wanted), wanted)
