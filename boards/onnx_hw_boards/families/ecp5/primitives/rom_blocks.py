"""Read-only memories of several block RAMs: side by side for wide words, one after the other for many words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from amaranth.hdl import Array, Instance, Module, Signal, Value


def add_rom(
    m: Module,
    words: Sequence[int],
    address: Value,
    data: Value,
    *,
    depth: int,
    width: int,
    block: Callable[[Sequence[int], Value, Value], Instance],
) -> None:
    """Add the blocks to ``m`` that make ``data`` equal ``words[address]`` two cycles later.

    Args:
        depth, width: words of a block, and bits of a word.
        block: function from words, address and data to a block, whose data follow two cycles after the address.
    """
    local = (depth - 1).bit_length()
    outputs = []
    for bank in range(-(-len(words) // depth)):
        output = Signal(len(data), name=f"bank{bank}")
        outputs.append(output)
        for column, low in enumerate(range(0, len(data), width)):
            high = min(low + width, len(data))
            part = [word >> low & (1 << high - low) - 1 for word in words[bank * depth : (bank + 1) * depth]]
            m.submodules[f"block{bank}_{column}"] = block(part, address[:local], output[low:high])
    if len(outputs) == 1:
        m.d.comb += data.eq(outputs[0])
        return
    chosen = Signal(range(len(outputs)), reset_less=True)
    waiting = Signal(range(len(outputs)), reset_less=True)
    m.d.sync += [waiting.eq(address[local:]), chosen.eq(waiting)]
    m.d.comb += data.eq(Array(outputs)[chosen])
