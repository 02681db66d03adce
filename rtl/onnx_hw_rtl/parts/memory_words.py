"""Faster handling of the initial words of memories: they are checked and written into a netlist as whole words."""

from __future__ import annotations

from functools import cache
from typing import Any

import amaranth
from amaranth.back.rtlil import ModuleEmitter
from amaranth.hdl import MemoryData, Shape

REPLACED_VERSIONS = ("0.5.8", "0.5.9", "0.5.10")
"""Versions of Amaranth whose writer of memories is replaced here. Any other version keeps its own."""


@cache
def write_memories_as_words() -> None:
    """Make Amaranth write the initial words of memories as words, from now on and in this process.

    Amaranth creates a net for every bit of a memory, of which a network has millions, and a constant for every word.
    The text of the netlist stays the same; it is only written faster.
    """
    if amaranth.__version__ in REPLACED_VERSIONS:
        ModuleEmitter.emit_memory = _emit_memory
        MemoryData.Init.__setitem__ = _set_word


_set_any_word = MemoryData.Init.__setitem__


def _set_word(init: Any, index: Any, value: Any) -> None:
    """Store a number that an unsigned word can hold as it is. Leave everything else, and its errors, to Amaranth."""
    shape = init._shape
    if isinstance(shape, Shape):
        shape = None if shape.signed else shape.width
    is_plain = type(index) is type(value) is type(shape) is int and not init._frozen
    if is_plain and value >= 0 and value >> shape == 0:
        init._elems[index] = value
    else:
        _set_any_word(init, index, value)


def _emit_memory(emitter: Any, cell_index: int, cell: Any) -> None:
    """Write the initial words of a memory, the last one first, as ``ModuleEmitter.emit_memory`` does."""
    mask = (1 << cell.width) - 1
    bits = "".join(f"{row & mask:0{cell.width}b}" for row in reversed(cell.init)) if cell.width else ""
    emitter.builder.cell(
        "$meminit_v2",
        ports={
            "ADDR": emitter.sigspec(),
            "DATA": f"{len(bits)}'{bits}" if bits else emitter.sigspec(),
            "EN": f"{cell.width}'{'1' * cell.width}" if cell.width else emitter.sigspec(),
        },
        parameters={
            "MEMID": emitter.memories[cell_index].memid,
            "ABITS": 0,
            "WIDTH": cell.width,
            "WORDS": cell.depth,
            "PRIORITY": 0,
        },
        src_loc=cell.src_loc,
    )
