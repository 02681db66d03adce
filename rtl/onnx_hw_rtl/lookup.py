"""``o[channel] = entries[channel][i[channel]]``: any function of an integer, as a table per lane. One beat per cycle.

The data path is that of a requantizer whose arithmetic is a table.
"""

from __future__ import annotations

import numpy as np
from amaranth.hdl import Shape

from onnx_hw_rtl.requantize import Requantize, Table

__all__ = ["Lookup"]


class Lookup(Requantize):
    """A table for every lane.

    Args:
        index: shape of the arguments that have an entry; others saturate to it.
        entries: (1 or channels, 2^index.width): the result for the lowest argument first.
        channels: of the tensor.
        bits, signed: of an argument.
        out_bits, out_signed: of a result.
        lanes: elements per beat.
        depth: FIFO depth of the output.
    """

    def __init__(
        self,
        index: Shape,
        entries: np.ndarray,
        *,
        channels: int,
        bits: int,
        signed: bool,
        out_bits: int,
        out_signed: bool,
        lanes: int,
        depth: int,
    ) -> None:
        super().__init__(
            Table(index, entries),
            channels=channels,
            bits=bits,
            signed=signed,
            out_bits=out_bits,
            out_signed=out_signed,
            lanes=lanes,
            depth=depth,
        )
