"""Registers of the chip in the model's names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from onnx_hw.messages.text import short

_MAPPED = re.compile(r"_[A-Z][A-Z0-9]+(?:_.*)?$")
"""End of a name that yosys or nextpnr added: the kind of the cell, its port and a number; names of circuits are in
lower case."""

_ADDED = re.compile(r"(?:\$.*|block\d+_\d+|\d+|core)")
"""Parts of a name that say nothing: signals without a name, places in a memory, the core within its wrapper."""


def register_in_words(cell: str, nodes: Mapping[str, str]) -> str:
    """Return ``address2 of `conv2``` for a cell that nextpnr names ``design.n6_conv2.core.address2_TRELLIS_FF_Q_2``.

    Cells outside of all cores belong to the shell, or to the circuit around the cores.

    Args:
        cell: the name, on any chip family.
        nodes: names of nodes, by the names of their modules.
    """
    parts = [_MAPPED.sub("", part) for part in cell.split("$nextpnr")[0].split(".")]
    if parts[0] not in ("design", "shell"):
        return cell
    inside = "design" in parts
    core = next((k for k, part in enumerate(parts) if part in nodes), None)
    start = core if core is not None else parts.index("design") if inside else 0
    owner = short(nodes[parts[core]]) if core is not None else "the circuit" if inside else "the shell"
    names = [name for part in parts[start + 1 :] if (name := part.partition("$")[0]) and not _ADDED.fullmatch(name)]
    return f"{'.'.join(names) or 'a register'} of {owner}"
