"""Weights of a product that holds several pixels, a *tile*: each word is taken once and read for every pixel of it.

The loops of the product are group, pixel, beat. The words of a group are read over and over, pixel after pixel, and
given back together after the last one. The pixels lie in a memory, one after the other, and are read in that order for
every group.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal

from onnx_hw_rtl.cores.weights import WeightBuffer
from onnx_hw_rtl.streams.engine import Engine, Turn


class TileWeightBuffer(WeightBuffer):
    """Buffer whose reader reads the words of one group ``tiles`` times, in turns of its loop "pixel", and goes on."""

    def _group_ends(self, turn: Turn) -> Any:
        return self._ends(turn) & (turn["pixel"] == self.weights.tiles - 1)

    def _again(self, turn: Turn) -> Any:
        return self._ends(turn) & (turn["pixel"] != self.weights.tiles - 1)


def place_in_tile(m: Module, engine: Engine, beats: int) -> Signal:
    """Return the place of the beat that the engine's current operation takes or reads.

    Args:
        beats: of all vectors of a tile, which are used one after the other for each group of results.
    """
    place = Signal(range(beats), name="place")
    with m.If(engine.fire):
        m.d.sync += place.eq(Mux(place == beats - 1, 0, place + 1))
    return place
