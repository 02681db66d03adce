"""The tiles of a chip with the bits of a bitstream in them: what each setting is, and which bits nothing explains."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from onnx_hw_boards.families.ecp5.bitstream.configuration_file import FrameShape
from onnx_hw_boards.families.ecp5.bitstream.tile_database import TileType, best, device_data, devices, tile_type

_PLACE = re.compile(r"R(\d+)C(\d+)")

SHARED_BITS = ("MIB_DSP", "MIB2_DSP", "MIB_EBR")
"""Kinds of tiles in which one bit may belong to several cells: only a cell that is in use explains it."""

Place = tuple[int, int]
"""Row and column."""


@dataclass
class Tile:
    """A tile, and its bits.

    Attributes:
        name: name in the database, such as ``R2C3:PLC2``.
        kind: meaning of its bits.
        place: row and column.
        bits: all bits, as one number.
        explained: set bits that some setting explains.
    """

    name: str
    kind: TileType
    place: Place
    bits: int
    explained: int = 0
    settings: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    def explain_all(self) -> None:
        """Explain bits by every setting of the tile alone."""
        for patterns in self.kind.words.values():
            for mask, _ in patterns:
                self.explained |= self.bits & mask
        for name in self.kind.choices:
            self.choice(name)

    def choice(self, name: str) -> tuple[str, ...]:
        """Return the values that a setting may have."""
        if name not in self.settings:
            self.settings[name], explained = best(self.kind.choices[name], self.bits)
            self.explained |= explained
        return self.settings[name]

    def word(self, name: str) -> int:
        """Return a setting that is a number; its bits in other tiles are 0."""
        patterns = enumerate(self.kind.words[name])
        return sum(int(mask > 0 and self.bits & mask == value) << k for k, (mask, value) in patterns)


@cache
def frame_shapes() -> Mapping[int, tuple[str, FrameShape]]:
    """Return name and shape of the configuration memory of every chip, by identification code."""
    return {
        int(chip["idcode"], 16): (
            name,
            FrameShape(
                chip["frames"], chip["bits_per_frame"], (chip["pad_bits_before_frame"], chip["pad_bits_after_frame"])
            ),
        )
        for name, chip in devices().items()
    }


@cache
def _grid(device: str) -> tuple[tuple[str, TileType, Place, Mapping[str, Any]], ...]:
    grid: Mapping[str, Mapping[str, Any]] = device_data(device, "tilegrid")
    tiles = []
    for name, tile in grid.items():
        place = _PLACE.search(name.partition(":")[0])
        assert place is not None, name
        kind = tile_type(tile["type"], tile["rows"])
        tiles.append((name, kind, (int(place[1]), int(place[2])), tile))
    return tuple(tiles)


Hidden = Callable[[Tile, str], int]
"""Function from a tile and a value of a setting to bits of that value which another setting has written over."""


class ChipTiles:
    """All tiles of a chip.

    Args:
        device: the chip's name.
        frames: (frames, bits) of bool.
    """

    def __init__(self, device: str, frames: np.ndarray) -> None:
        bits: dict[str, int] = {}
        for name, _, _, tile in _grid(device):
            frame, bit = tile["start_frame"], tile["start_bit"]
            block = frames[frame : frame + tile["cols"], bit : bit + tile["rows"]]
            if block.any():
                bits[name] = int.from_bytes(np.packbits(block, bitorder="little").tobytes(), "little")
        self._set(device, bits)

    def _set(self, device: str, bits: Mapping[str, int]) -> None:
        self.device = device
        self.at: dict[Place, list[Tile]] = defaultdict(list)
        for name, kind, place, _ in _grid(device):
            self.at[place].append(Tile(name, kind, place, bits.get(name, 0)))

    def changed(self, tile: str, bits: int) -> ChipTiles:
        """Return the same tiles, but with some bits of one turned over, and nothing explained."""
        other = ChipTiles.__new__(ChipTiles)
        own = {each.name: each.bits for each in self}
        other._set(self.device, own | {tile: own[tile] ^ bits})
        return other

    def __iter__(self) -> Iterator[Tile]:
        for tiles in self.at.values():
            yield from tiles

    def of_kind(self, place: Place, kind: str) -> Tile | None:
        """Return the tile of a kind at a place."""
        return next((tile for tile in self.at.get(place, ()) if tile.kind.name == kind), None)

    def settings(self, places: Sequence[Place], prefix: str) -> dict[str, tuple[str, ...]]:
        """Return the values that the settings of a cell may have, whose bits are spread over several tiles.

        Args:
            places: places of the tiles.
            prefix: beginning of the settings' names in the database, which the result leaves out.
        """
        tiles = [tile for place in places for tile in self.at.get(place, ())]
        names = {name for tile in tiles for name in tile.kind.choices if name.startswith(prefix)}
        values = {name.removeprefix(prefix): _joint(tiles, name) for name in sorted(names)}
        if "MODE" in values:
            values["MODE"] = self.base(places, prefix, "MODE", every=True)
        return values

    def mode(self, places: Sequence[Place], prefix: str) -> str:
        """Return the mode of a cell, by the bits that none of its other settings has; explain nothing.

        Args:
            prefix: beginning of the names of the cell's settings.
        """
        values = _fitting([tile for place in places for tile in self.at.get(place, ())], f"{prefix}MODE", prefix, True)
        return values[0] if len(values) == 1 else ""

    def base(
        self, places: Sequence[Place], prefix: str, name: str, *, every: bool = False, hidden: Hidden | None = None
    ) -> tuple[str, ...]:
        """Return the values of a setting that others are written over; explain its bits.

        Args:
            prefix: beginning of the names of the settings that belong together.
            every: whether all of those are, or only those with a default.
            hidden: bits of a value that another setting has written over.
        """
        tiles = [tile for place in places for tile in self.at.get(place, ())]
        chosen = _fitting(tiles, prefix + name, prefix, every, hidden)
        for tile in tiles:
            for value, (_, pattern) in tile.kind.choices.get(prefix + name, ()):
                if value in chosen:
                    tile.explained |= pattern
        return chosen

    def words(self, places: Sequence[Place], prefix: str) -> dict[str, int]:
        """Return the settings of a cell that are numbers; see ``settings``."""
        values: dict[str, int] = {}
        for place in places:
            for tile in self.at.get(place, ()):
                for name, patterns in tile.kind.words.items():
                    if name.startswith(prefix):
                        own = name.removeprefix(prefix)
                        values[own] = values.get(own, 0) | tile.word(name)
                        for mask, _ in patterns:
                            tile.explained |= tile.bits & mask
        return values


def _fitting(
    tiles: Sequence[Tile], name: str, over: str = "", every: bool = False, hidden: Hidden | None = None
) -> tuple[str, ...]:
    """Return the values of a setting that match in all tiles: those with the most bits.

    Args:
        over: beginning of the names of settings which this one is written before: bits of theirs do not count.
        every: whether all of those count, or only those with a default.
        hidden: bits of a value that another setting has written over, and that may be anything.
    """
    scores: dict[str, int] = {}
    wrong: set[str] = set()
    for tile in tiles:
        later = 0
        for other in (tile.kind.choices if every else tile.kind.defaults) if over else ():
            if other.startswith(over) and other != name:
                for _, (mask, _) in tile.kind.choices[other]:
                    later |= mask
        for value, (mask, pattern) in tile.kind.choices.get(name, ()):
            mask &= ~later
            scores[value] = scores.get(value, 0) + mask.bit_count()
            seen = mask & ~hidden(tile, value) if hidden else mask
            if tile.bits & seen != pattern & seen:
                wrong.add(value)
    fitting = {value: score for value, score in scores.items() if value not in wrong}
    most = max(fitting.values(), default=0)
    return tuple(value for value, score in fitting.items() if score == most)


def _joint(tiles: Sequence[Tile], name: str) -> tuple[str, ...]:
    """Return the values of a setting that match in all tiles, and explain their bits."""
    chosen = _fitting(tiles, name)
    for tile in tiles:
        for value, (_, pattern) in tile.kind.choices.get(name, ()):
            if value in chosen:
                tile.explained |= pattern
    return chosen
