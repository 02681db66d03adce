"""Mapping of the shell around a network for few look-up tables, apart from the network's modules, which are fast."""

from __future__ import annotations

_SCRIPT = "+strash;ifraig;scorr;dc2;dc2;dch;if,-a;mfs2,-a;lutpack"
"""ABC script: its own for look-up tables, mapped for area twice, and packed."""


def with_few_tables_around(synthesis: str) -> tuple[str, ...]:
    """Return a family's synthesis of ``top`` in which the module ``top`` itself is mapped for area.

    That includes all that is flattened into ``top``.

    ABC9 cannot map some modules and leave others where both have carry cells: all are mapped, and the ``top`` that was
    mapped for area then replaces the other.

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
