"""The bits of all tiles of a die: from the banks of the file to tiles, and what each setting is.

The order of the tiles in the banks is that of Project IceStorm (``icepack``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from onnx_hw_boards.families.ice40.bitstream.chip_database import TILE_KINDS, chip_database
from onnx_hw_boards.families.ice40.bitstream.configuration_file import Banks
from onnx_hw_boards.families.unpacked_bitstream import DamagedBitstream

Place = tuple[int, int]
"""Column and row of a tile."""

ROWS, COLUMNS = 16, 54
"""Bits of the largest tile."""

_EDGE_COLUMNS = (23, 25, 26, 27, 16, 17, 18, 19, 20, 14, 32, 33, 34, 35, 36, 37, 4, 5)
_EDGE_ROWS = (0, 1, 3, 2, 4, 5, 7, 6, 8, 9, 11, 10, 12, 13, 15, 14)
"""Order of the columns and rows of a tile with pins at the lower or the upper edge."""


@dataclass(frozen=True)
class Die:
    """A kind of die.

    Attributes:
        columns: width in bits of the tiles from the left edge to the middle.
        lower: rows of tiles in the lower banks.
        buffer_rows: rows of tiles whose column buffers pass the global networks on.
    """

    columns: tuple[int, ...]
    lower: int
    buffer_rows: tuple[int, ...]


DIES = {
    "5k": Die((54, 54, 54, 54, 54, 54, 42, *[54] * 6), 21, (4, 5, 14, 15, 26, 27)),
    "8k": Die((18, *[54] * 7, 42, *[54] * 8), 17, (8, 9, 24, 25)),
}

DIE_OF = {"iCE40UP5K": "5k", "iCE40HX4K": "8k", "iCE40HX8K": "8k", "iCE40LP8K": "8k"}
"""Die of each chip."""


@dataclass(frozen=True)
class BankMap:
    """Places in the banks of all bits of all tiles.

    Attributes:
        banks, rows, columns: (rows of tiles, columns of tiles, 16, 54) of int; -1 where a tile has no such bit.
        shapes: rows and columns of each bank.
    """

    banks: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    shapes: Mapping[int, tuple[int, int]]


@cache
def bank_map(name: str) -> BankMap:
    """Return the places of the bits of a kind of die."""
    die, database = DIES[name], chip_database(name)
    width, height = database.width, database.height
    banks, rows, columns = (np.full((height, width, ROWS, COLUMNS), -1, np.int32) for _ in range(3))
    down, across = np.meshgrid(np.arange(ROWS), np.arange(COLUMNS), indexing="ij")
    for y in range(height):
        for x in range(width):
            kind = TILE_KINDS[database.grid[y, x]]
            if not kind:
                continue
            right, upper = 2 * x >= width, y >= die.lower
            column = width - 1 - x if right else x
            first, own = sum(die.columns[:column]), die.columns[column]
            wide = {"io": 18, "ramb": 42, "ramt": 42}.get(kind, COLUMNS)
            here = (slice(None), slice(0, wide))
            row, bit = down[here], across[here]
            if kind == "io" and y in (0, height - 1):
                row, bit = ROWS - 1 - np.take(_EDGE_ROWS, row), np.take(_EDGE_COLUMNS, bit)
                bit = own - 1 - bit if right else bit
            else:
                bit = own - 1 - bit if right or (kind == "io") else bit
                row = ROWS - 1 - row if upper else row
            tile = height - 1 - y if upper else y
            banks[y, x][here] = upper + 2 * right
            rows[y, x][here] = ROWS * tile + row
            columns[y, x][here] = first + bit
    shapes = {bank: (ROWS * (height - die.lower if bank & 1 else die.lower), sum(die.columns) + 2) for bank in range(4)}
    return BankMap(banks, rows, columns, shapes)


class DieBits:
    """All bits of a die.

    Args:
        die: name of its kind.
        banks: contents of the file.

    Attributes:
        bits: (rows of tiles, columns of tiles, 16, 54) of bool.
        outside: (bank, column, row) of the set bits that belong to no tile.
        contents: (256, 16) of bool by place of a block RAM, row by row, lowest bit first.
        explained: bits that some setting explains; of the shape of ``bits``.

    Raises:
        DamagedBitstream: the file is for another chip.
    """

    def __init__(self, die: str, banks: Banks) -> None:
        self.die, self.database = die, chip_database(die)
        where = bank_map(die)
        shapes = {bank: rows.shape for bank, rows in banks.configuration.items()}
        if shapes != where.shapes:
            other = next((name for name in DIES if bank_map(name).shapes == shapes), "another kind")
            raise DamagedBitstream(f"it is for a die of {other}, not of {die}: its banks have {shapes[0]} bits")
        self.bits = np.zeros(where.banks.shape, bool)
        outside = set()
        for bank, rows in banks.configuration.items():
            mask = where.banks == bank
            self.bits[mask] = rows[where.rows[mask], where.columns[mask]]
            left = rows.copy()
            left[where.rows[mask], where.columns[mask]] = False
            outside |= {(bank, int(column), int(row)) for row, column in np.argwhere(left)}
        self.outside = frozenset(outside)
        self.contents = self._contents(banks.block_rams)
        self.explained = np.zeros_like(self.bits)

    def _contents(self, banks: Mapping[int, np.ndarray]) -> dict[Place, np.ndarray]:
        contents = {}
        lower = DIES[self.die].lower
        for y, x in np.argwhere(self.database.grid == TILE_KINDS.index("ramb")).tolist():
            upper, right = y >= lower, 2 * x >= self.database.width
            rows = banks.get(upper + 2 * right)
            first = 16 * ((y - (lower - 1 if upper else 1)) // 2)
            if rows is not None and rows.shape[0] == 256 and rows.shape[1] >= first + 16:
                contents[x, y] = rows[:, first : first + 16][:, ::-1]
        return contents

    def changed(self, bits: Sequence[tuple[int, int, int, int]]) -> DieBits:
        """Return the same die, but with some bits turned over, and nothing explained.

        Args:
            bits: row and column of a tile, row and column within it.
        """
        other = DieBits.__new__(DieBits)
        other.__dict__ |= self.__dict__
        other.bits = self.bits.copy()
        for at, times in Counter(bits).items():
            other.bits[at] ^= bool(times % 2)
        other.explained = np.zeros_like(self.bits)
        return other

    def with_contents(self, place: Place, words: np.ndarray) -> DieBits:
        """Return the same die, but with other contents of a block RAM."""
        other = self.changed(())
        other.contents = {**self.contents, place: words}
        return other

    def kind(self, place: Place) -> str:
        """Return the kind of a tile."""
        return TILE_KINDS[self.database.grid[place[1], place[0]]]

    def places(self, place: Place, name: str) -> tuple[tuple[int, int, int, int], ...]:
        """Return where the bits of a tile's setting are in ``bits``; empty if the tile has no such setting."""
        x, y = place
        return tuple((y, x, *at) for at in self.database.tile_settings[self.database.grid[y, x]].get(name, ()))

    def setting(self, place: Place, name: str) -> tuple[bool, ...]:
        """Return the bits of a tile's setting, and explain them."""
        bits = []
        for at in self.places(place, name):
            self.explained[at] = True
            bits.append(bool(self.bits[at]))
        return tuple(bits)

    def switched_on(self, place: Place, name: str) -> bool:
        """Return whether a setting of one bit is set; explain it."""
        return any(self.setting(place, name))

    def bel_setting(self, bel: int, name: str, width: int) -> int:
        """Return a number among the settings of a multiplier or a PLL, and explain its bits.

        Args:
            width: bits of the number; a die may have the lowest one only.
        """
        settings = self.database.bel_settings[bel]
        names = [name] if name in settings else [f"{name}_{k}" for k in range(width)]
        value = 0
        for k, (x, y, bit) in enumerate(settings[each] for each in names):
            prefix = "PLL" if bit.startswith("PLL") else "IpConfig"
            value |= self.switched_on((x, y), f"{prefix}.{bit}") << k
        return value
