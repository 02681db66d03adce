"""Weights beside their multipliers: a read-only memory that is read word by word, over and over.

A word holds one weight for every lane. The lanes are cut into memories that one copy of the address can reach. Latency
from the operation that fires to its word: ``LATENCY``, and as many cycles more as the address has to wait.
"""

from __future__ import annotations

import numpy as np
from amaranth.hdl import Module, Mux, Shape, Signal, Value

from onnx_hw_rtl.copies import copies
from onnx_hw_rtl.engine import Engine, delayed
from onnx_hw_rtl.rom import Rom

__all__ = ["LATENCY", "read_weights"]

LATENCY = 2 + Rom.LATENCY
"""The address's copy, the memory, and a register in fabric behind it."""

BITS_PER_ADDRESS_COPY = 6 * 36


def read_weights(m: Module, engine: Engine, words: np.ndarray, weight: Shape, *, waits: int = 0) -> list[Value]:
    """The weight of every lane for the operation that fired ``LATENCY + waits`` cycles ago.

    Args:
        engine: each operation takes the next word; after the last one comes the first again.
        words: (operations, lanes) integers.
        weight: the type of a weight, which every one of them fits.
        waits: further cycles of the address.
    """
    count, lanes = words.shape
    address = Signal(range(max(2, count)))
    with m.If(engine.fire):
        m.d.sync += address.eq(Mux(address == count - 1, 0, address + 1))
    per_rom = max(1, BITS_PER_ADDRESS_COPY // weight.width)
    addresses = copies(m, delayed(m, address, waits, "address"), -(-lanes // per_rom), "address")
    found: list[Value] = []
    for k, its_address in enumerate(addresses):
        part = words[:, k * per_rom : (k + 1) * per_rom] & ((1 << weight.width) - 1)
        content = [sum(int(w) << (weight.width * j) for j, w in enumerate(row)) for row in part]
        m.submodules[f"weights{k}"] = rom = Rom(weight.width * part.shape[1], content)
        m.d.comb += rom.addr.eq(its_address)
        data = delayed(m, rom.data, 1, f"weights{k}")
        found += [data[weight.width * j : weight.width * (j + 1)] for j in range(part.shape[1])]
    return found
