"""The initial words of memories, taken and written into a netlist as words."""

from __future__ import annotations

from functools import cache
from typing import Any

import amaranth
from amaranth.back.rtlil import ModuleEmitter
from amaranth.hdl import MemoryData, Shape

__all__ = ["LOOKED_AT", "write_memories_as_words"]

LOOKED_AT = ("0.5.8", "0.5.9", "0.5.10")
"""Versions of Amaranth whose writer of memories is the one that is replaced here; any other keeps its own."""


@cache
def write_memories_as_words() -> None:
    """Amaranth makes a net of every bit of a memory, of which a network has millions, and a constant of every word.

    From the first call on, whoever writes a netlist in this process writes the same text sooner.
    """
    if amaranth.__version__ in LOOKED_AT:
        ModuleEmitter.emit_memory = _emit_memory
        MemoryData.Init.__setitem__ = _set_word


_set_any_word = MemoryData.Init.__setitem__


def _set_word(init: Any, index: Any, value: Any) -> None:
    """A number that a word without a sign can hold is kept as it is; of anything else Amaranth says what it is."""
    shape = init._shape
    if isinstance(shape, Shape):
        shape = None if shape.signed else shape.width
    plain = type(index) is type(value) is type(shape) is int and not init._frozen
    if plain and value >= 0 and value >> shape == 0:
        init._elems[index] = value
    else:
        _set_any_word(init, index, value)


def _emit_memory(emitter: Any, cell_index: int, cell: Any) -> None:
    """The initial words of a memory, the last one first, as ``ModuleEmitter.emit_memory`` writes them."""
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
