"""The wires of a die: which switch drives each of them, and from which cell."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnx_hw_boards.families.ice40.bitstream.die_bits import DieBits

_MOST_BITS = 5  # of a switch


class ChosenPips:
    """The sources that the switches of a die choose.

    Args:
        die: its bits; those of the switches are explained.

    Attributes:
        problems: switches that choose nothing that is known, and wires with two drivers, in sentences.
    """

    def __init__(self, die: DieBits) -> None:
        self._database = database = die.database
        self.problems: list[str] = []
        switches, pips = database.switches, database.pips
        x, y = switches["x"].astype(np.int64), switches["y"].astype(np.int64)
        value = np.zeros(len(switches), np.int64)
        for k in range(_MOST_BITS):
            used = switches["count"] > k
            row, column = switches["bits"][:, k, 0].astype(np.int64), switches["bits"][:, k, 1].astype(np.int64)
            at = (y[used], x[used], row[used], column[used])
            value[used] = value[used] << 1 | die.bits[at]
            die.explained[at] = True
        self._value = value
        mask, switch = pips["mask"], pips["switch"]
        chosen = np.flatnonzero((mask != 0) & (mask == value[switch]))
        sinks, sources = pips["sink"][chosen].tolist(), pips["source"][chosen].tolist()
        known = np.zeros(len(switches), bool)
        known[switch[chosen]] = True
        for index in np.flatnonzero((value != 0) & ~known).tolist():
            self.problems.append(
                f"a switch of X{x[index]}Y{y[index]} has the value {value[index]:#x}, which no wire has"
            )
        self._source: dict[int, int] = {}
        for sink, source in zip(sinks, sources, strict=True):
            before = self._source.setdefault(sink, source)
            if before != source:
                names = f"{database.wire_name(before)} and by {database.wire_name(source)}"
                self.problems.append(f"{database.wire_name(sink)} is driven by {names}")
        self._roots: dict[int, int] = {}

    def source(self, wire: int) -> int | None:
        """Return the wire from which a switch drives a wire; None where none does."""
        return self._source.get(wire)

    def root(self, wire: int) -> int:
        """Return the wire at the beginning of all that drives a wire: that of a cell's output, or an open end."""
        path = []
        while wire not in self._roots:
            path.append(wire)
            if len(path) > len(self._source) + 1:
                self.problems.append(f"{self._database.wire_name(wire)} drives itself")
                self._roots[wire] = wire
            elif wire in self._source:
                wire = self._source[wire]
            else:
                self._roots[wire] = wire
        root = self._roots[wire]
        for step in path:
            self._roots[step] = root
        return root

    @property
    def unread(self) -> int:
        """Number of chosen sources that lead to no net which was asked for."""
        return sum(wire not in self._roots for wire in self._source)

    def set_bits(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield the set bits of all switches: row and column of the tile, row and column within it."""
        switches = self._database.switches
        for index in np.flatnonzero(self._value).tolist():
            record, count = switches[index], int(switches[index]["count"])
            for k in range(count):
                if self._value[index] >> (count - 1 - k) & 1:
                    row, column = record["bits"][k].tolist()
                    yield int(record["y"]), int(record["x"]), row, column
