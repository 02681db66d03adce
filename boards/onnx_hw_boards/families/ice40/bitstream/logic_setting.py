"""Settings of a logic cell of an iCE40 (Lattice FPGA-DS-02008, chapter 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx_hw_boards.families.ice40.bitstream.chip_database import ChipDatabase
from onnx_hw_boards.families.ice40.bitstream.die_bits import DieBits

TABLE_PLACES = (4, 14, 15, 5, 6, 16, 17, 7, 3, 13, 12, 2, 1, 11, 10, 0)
"""Places in the setting of the entries of the look-up table."""

_CARRIES, _REGISTERED, _SETS, _AT_ONCE = 8, 9, 18, 19


@dataclass(frozen=True)
class LogicSetting:
    """Setting of a logic cell.

    Attributes:
        table: function of the look-up table; bit k is its value where the inputs are the bits of k.
        carries: whether it gives a carry.
        registered: whether its output is that of the flip-flop.
        sets: whether the flip-flop's reset gives 1.
        at_once: whether that reset does not wait for the clock.
    """

    table: int
    carries: bool
    registered: bool
    sets: bool
    at_once: bool

    def leads_through(self, used: Sequence[int]) -> bool:
        """Return whether the look-up table only leads a net through, as the router has it do.

        Args:
            used: the inputs that something drives.
        """
        return len(used) == 1 and self.table == 1 << (1 << used[0])


def table_wires(database: ChipDatabase, bel: int) -> list[int]:
    """Return the wires at the inputs of a look-up table in the order of its entries; nextpnr has another one."""
    wires = database.uphill(database.ports(bel)["I0"])["source"].tolist()
    named = {database.local_name(wire)[-1]: wire for wire in wires}
    return [named[str(k)] for k in range(4)]


def logic_setting(die: DieBits, bel: int) -> LogicSetting:
    """Return the setting of a logic cell, by its number in the database."""
    x, y, z = die.database.bel_place(bel)
    bits = die.setting((x, y), f"LC_{z}")
    return LogicSetting(
        table=sum(bits[place] << k for k, place in enumerate(TABLE_PLACES)),
        carries=bits[_CARRIES],
        registered=bits[_REGISTERED],
        sets=bits[_SETS],
        at_once=bits[_AT_ONCE],
    )
