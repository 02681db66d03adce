"""Contents of a netlist's read-only memories, followed net by net: nothing runs, and no order of pins is assumed.

A net is a function of an address: registers pass their input on, tables and blocks answer at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onnx_hw_sim.gates.cell_models import Block, BlockPort, FlipFlop, LutCell, Parts
from onnx_hw_sim.gates.netlist import ONE, RUBBISH, ZERO

DEEPEST = 32
"""Most parts between a memory's address and its word: a few registers, and the choice among blocks."""


class NotOfTheAddress(Exception):
    """A net depends on something else."""


@dataclass(frozen=True)
class _Read:
    """A bit that a port of a block gives."""

    block: Block
    port: BlockPort
    bit: int


class ReadOnly:
    """The nets of a chip, for ``words``."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @cached_property
    def _made_by(self) -> dict[int, LutCell | FlipFlop | _Read]:
        """Part that drives a net, by net."""
        maker: dict[int, LutCell | FlipFlop | _Read] = {}
        maker |= {table.out: table for table in self._parts.tables}
        maker |= {flip_flop.out: flip_flop for flip_flop in self._parts.flip_flops}
        for block in self.blocks.values():
            for port in block.ports:
                maker |= {net: _Read(block, port, k) for k, net in enumerate(port.out) if net is not None}
        return maker

    @cached_property
    def blocks(self) -> dict[str, Block]:
        """Blocks that nothing writes, by name."""
        return {block.name: block for block in self._parts.blocks if block.shared}

    def addressed_by(self, block: str) -> set[int]:
        """Return the nets at the address pins of a block that may change."""
        return {net for port in self.blocks[block].ports for net in port.address} - {ZERO, ONE, RUBBISH}

    def words(self, address: Sequence[int], data: Sequence[int], depth: int) -> tuple[np.ndarray, set[str]]:
        """Return the bits of every word, (depth, bits) of 0 and 1, -1 where nothing reads; and the blocks they are in.

        Args:
            address, data: nets, lowest first.

        Raises:
            NotOfTheAddress: the data are not a function of the address alone.
        """
        places = np.arange(depth)
        known = {ZERO: np.zeros(depth, bool), ONE: np.ones(depth, bool)}
        known |= {net: (places >> k & 1).astype(bool) for k, net in enumerate(address) if net not in (ZERO, ONE)}
        touched: set[str] = set()
        bits = np.full((depth, len(data)), -1, np.int8)
        for k, net in enumerate(data):
            if net != RUBBISH:
                bits[:, k] = self._bit(net, known, touched, DEEPEST)
        return bits, touched

    def _bit(self, net: int, known: dict[int, np.ndarray], touched: set[str], left: int) -> np.ndarray:
        """Return the value of a net for every address."""
        if net in known:
            return known[net]
        part = self._made_by.get(net)
        if part is None or not left:
            raise NotOfTheAddress
        match part:
            case FlipFlop():
                values = self._bit(part.d, known, touched, left - 1)
            case LutCell():
                index = self._number(part.ins, known, touched, left - 1)
                values = np.array([part.function >> k & 1 for k in range(1 << len(part.ins))], bool)[index]
            case _Read():
                values = self._read(part, known, touched, left - 1)
        known[net] = values
        return values

    def _read(self, read: _Read, known: dict[int, np.ndarray], touched: set[str], left: int) -> np.ndarray:
        port, (lowest, mask), (low, parts) = read.port, read.port.word, read.port.part
        index = self._number(port.address, known, touched, left)
        begins = np.array(port.begins)[index >> low & parts] + read.bit * port.bit_step
        touched.add(read.block.name)
        rows = np.array([int(row) for row in read.block.words], np.int64)
        return (rows[index >> lowest & mask] >> begins & 1).astype(bool)

    def _number(self, nets: Sequence[int], known: dict[int, np.ndarray], touched: set[str], left: int) -> np.ndarray:
        """Return the number on several nets for every address; an open net is 0."""
        total = np.zeros(len(known[ZERO]), np.int64)
        for k, net in enumerate(nets):
            if net not in (RUBBISH, ZERO):
                total += self._bit(net, known, touched, left).astype(np.int64) << k
        return total
