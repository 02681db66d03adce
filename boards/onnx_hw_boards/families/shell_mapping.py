"""What stands around a network is slow beside it: mapped for few look-up tables, apart from the network's modules."""

from __future__ import annotations

__all__ = ["with_few_tables_around"]

_SCRIPT = "+strash;ifraig;scorr;dc2;dc2;dch;if,-a;mfs2,-a;lutpack"
"""Of ABC: its own for look-up tables, mapped for area twice over, and packed."""


def with_few_tables_around(synthesis: str) -> tuple[str, ...]:
    """A family's synthesis of ``top`` with the module ``top`` itself, whatever is flattened into it, mapped for area.

    ABC9 cannot take some modules and leave others, of which both have carry cells: all are mapped, and ``top`` is then
    put in place of what came of it.

    Args:
        synthesis: yosys' command.
    """
    return (
        f"{synthesis} -run begin:map_luts",
        "design -save gates",
        f"abc -dress -lut 4 -script {_SCRIPT} top",
        "clean",
        "design -save around",
        "design -load gates",
        f"{synthesis} -run map_luts:map_cells",
        "delete top",
        "design -copy-from around top",
        f"{synthesis} -run map_cells:",
    )
