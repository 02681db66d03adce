"""``o[channel] = entries[channel][i[channel]]``: any function of an integer, as a table per lane. One beat per cycle.

The data path is that of a requantizer whose arithmetic is a table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from amaranth.hdl import Shape

from onnx_hw_rtl.cores.requantize import Requantize, TableRequantizer


class Lookup(Requantize):
    """Table for every lane.

    Args:
        index: shape of the arguments that have an entry; other arguments saturate to it.
        entries: (1 or channels, 2^index.width): the results, that for the lowest argument first.
        entry_bits: bits of a signed entry, where entries are loaded; 0 where they follow from those here.
        others: all arguments of a requantizer except its arithmetic.
    """

    def __init__(self, index: Shape, entries: np.ndarray, *, entry_bits: int = 0, **others: Any) -> None:
        super().__init__(TableRequantizer(index, entries, entry_bits), **others)
