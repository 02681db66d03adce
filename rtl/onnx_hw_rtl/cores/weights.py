"""Weights next to their multipliers: words that are read one after the other, over and over.

A word holds one weight for every lane. The words lie in a read-only memory; or they come on a stream, and an engine of
their own writes them into a buffer from which they are read: the same kind of memory, except that its writer is not
finished before cycle 0. The lanes are cut into memories that one copy of the address can drive. The latency from the
operation that fires to its word is ``LATENCY``, plus the cycles for which the address is delayed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Shape, Signal, Value
from amaranth.lib import memory

from onnx_hw_rtl.parts.constant_memory import LOADED_BITS, FixedConstants
from onnx_hw_rtl.parts.fanout import BITS_PER_ADDRESS_COPY, copies, memory_reach
from onnx_hw_rtl.parts.rom import Rom
from onnx_hw_rtl.streams.engine import Engine, Turn, delayed
from onnx_hw_rtl.streams.shared_buffer import SharedBuffer

LATENCY = 2 + Rom.LATENCY
"""Cycles of the address's copy, the memory, and a register in fabric behind it."""


def read_weights(
    m: Module,
    engine: Engine,
    words: np.ndarray,
    weight: Shape,
    constants: FixedConstants,
    *,
    waits: int = 0,
    in_logic: bool = False,
    in_block: bool = False,
) -> list[Value]:
    """Return the weight of every lane for the operation that fired ``LATENCY + waits`` cycles ago.

    Args:
        engine: each operation takes the next word; after the last word comes the first again.
        words: (operations, lanes) integers.
        weight: the shape of a weight, which every one of them fits.
        constants: where the memories come from.
        waits: further cycles by which the address is delayed.
        in_logic: whether a lane that has the same weight in all words gets it as a ``Const``, which makes its product
            cheaper.
        in_block: whether the memories are made of block RAM, however small they are.
    """
    known = (
        {k: int(words[0, k]) for k in np.flatnonzero(np.ptp(words, axis=0) == 0)}
        if in_logic and not constants.loaded
        else {}
    )
    words = words[:, [k for k in range(words.shape[1]) if k not in known]]
    lanes = _from_memory(m, engine, words, weight, constants, waits, in_block) if words.size else []
    for k, value in known.items():  # in rising order
        lanes.insert(k, Const(value, weight))
    return lanes


def _from_memory(
    m: Module, engine: Engine, words: np.ndarray, weight: Shape, constants: FixedConstants, waits: int, in_block: bool
) -> list[Value]:
    count, lanes = words.shape
    address = Signal(range(max(2, count)))
    with m.If(engine.fire):
        m.d.sync += address.eq(Mux(address == count - 1, 0, address + 1))
    per_rom = max(1, (LOADED_BITS if constants.loaded else BITS_PER_ADDRESS_COPY) // weight.width)
    addresses = copies(m, delayed(m, address, waits, "address"), -(-lanes // per_rom), "address")
    weights: list[Value] = []
    for k, its_address in enumerate(addresses):
        part = words[:, k * per_rom : (k + 1) * per_rom] & ((1 << weight.width) - 1)
        content = [sum(int(w) << (weight.width * j) for j, w in enumerate(row)) for row in part]
        rom = constants.memory(m, f"weights{k}", weight.width * part.shape[1], content, in_block=in_block)
        m.d.comb += rom.addr.eq(its_address)
        data = delayed(m, rom.data, 1, f"weights{k}")
        weights += [data[weight.width * j : weight.width * (j + 1)] for j in range(part.shape[1])]
    return weights


@dataclass(frozen=True)
class Streamed:
    """Order in which streamed weights come.

    Attributes:
        lanes: weights of a word; results are the outer axis, inputs the inner one.
        words: words of all groups of results.
        inputs: inputs of a vector; in the last word of a group, lanes beyond them may hold anything.
        capacity: number of groups whose words the buffer holds.
        tiles: how often the words of all groups are read before the first of them are given back.
    """

    lanes: int
    words: int
    inputs: int
    capacity: int
    tiles: int = 1


class WeightBuffer:
    """Buffer between an engine that takes words from a stream and one that reads them. Neither sees the other.

    Args:
        source: the stream of words.
        weights: the order in which they come.
        beats: words of a group of results.
        in_lanes: inputs of a word.
        weight: the shape of a weight.

    Attributes:
        has_word: the condition under which the reader fires.
        writer: the engine that takes the words.
        loops: the loops around the reader's loops "group" and "beat".
    """

    WRITE_STAGE = 2
    """Stage of the write, in which an operation's address is read, too; so no cycle reads the word that it writes."""

    def __init__(self, m: Module, source: Any, weights: Streamed, *, beats: int, in_lanes: int, weight: Shape) -> None:
        self.m, self.weights, self.beats, self.in_lanes, self.weight = m, weights, beats, in_lanes, weight
        self.depth = weights.capacity * beats
        self.loops = {"tile": weights.tiles}
        self.shared = SharedBuffer(self.depth, 1, self.depth + weights.words + 1)
        self.has_word = self.shared.has_beat
        self.writer = Engine(
            m, "weights", {"beat": beats}, pops=[(source, lambda turn: 1)], conditions=(self.shared.has_room,)
        )
        self._written = self._masked_word(source.payload)

    def _masked_word(self, payload: Any) -> Value:
        """Return a word in stage 2, with 0 in lanes without an input, where the vector may hold anything."""
        m, lacking = self.m, self.beats * self.in_lanes - self.weights.inputs
        last = delayed(m, self.writer.decode(self.writer.is_last("beat"), 1, "last"), 1, "last")
        lanes = [delayed(m, Value.cast(payload[k]).as_unsigned(), 1, f"word{k}") for k in range(self.weights.lanes)]
        beyond = range(self.in_lanes - lacking, self.in_lanes)
        clean = [Mux(last, 0, lane) if k % self.in_lanes in beyond else lane for k, lane in enumerate(lanes)]
        return delayed(m, Cat(clean), self.WRITE_STAGE - 1, "clean")

    def read(self, reader: Engine, lanes: int) -> list[Value]:
        """Return the weight of every lane for the operation of the reader that fired ``LATENCY + 1`` cycles ago.

        Lanes for which no weight comes have 0.
        """
        m, shared, words = self.m, self.shared, self.weights.words
        again = reader.decode(self._again, 1, "again")
        group_ends = reader.decode(self._group_ends, 1, "group_ends")
        further = Signal(range(-words, 2))
        m.d.comb += further.eq(Mux(again, 1 - words, 1))
        shared.count(m, self.writer, reader, further=further, released=Mux(group_ends, self.beats, 0))
        address = self._address(reader, again)
        into = delayed(m, self._address(self.writer, None), self.WRITE_STAGE - 1, "into")
        write = delayed(m, self.writer.fire, self.WRITE_STAGE - 1, "write_word", strobe=True)
        write = Mux(ResetSignal(allow_reset_less=True), 0, write)
        width = self.weight.width
        per_memory = max(1, memory_reach(self.depth) // width) * width
        parts = range(0, len(self._written), per_memory)
        controls = copies(m, Cat(write, into, delayed(m, address, 1, "address")), len(parts), "control")
        lane_weights: list[Value] = []
        for k, (first, control) in enumerate(zip(parts, controls, strict=True)):
            part = self._written[first : first + per_memory]
            m.submodules[f"weights{k}"] = ring = memory.Memory(shape=len(part), depth=max(2, self.depth), init=[])
            write_port, read_port = ring.write_port(), ring.read_port()
            m.d.comb += [
                write_port.addr.eq(control[1 : 1 + len(into)]),
                write_port.data.eq(part),
                write_port.en.eq(control[0]),
                read_port.addr.eq(control[1 + len(into) :]),
            ]
            data = delayed(m, read_port.data, 2, f"weights{k}")
            lane_weights += [data[at : at + width] for at in range(0, len(part), width)]
        return lane_weights + [Value.cast(0)] * (lanes - len(lane_weights))

    def _ends(self, turn: Turn) -> Any:
        return turn["beat"] == self.beats - 1

    def _group_ends(self, turn: Turn) -> Any:
        """Return whether the operation gives a group's words back."""
        return self._ends(turn) & (turn["tile"] == self.weights.tiles - 1)

    def _again(self, turn: Turn) -> Any:
        """Return whether the first word comes again after the operation."""
        last_group = turn["group"] == self.weights.words // self.beats - 1
        return self._ends(turn) & last_group & (turn["tile"] != self.weights.tiles - 1)

    def _address(self, engine: Engine, again: Value | None) -> Signal:
        """Return the address of the word of an engine's current operation."""
        m, depth, words = self.m, self.depth, self.weights.words
        address = Signal(range(max(2, depth)), name=f"{engine.name}_address")
        following: Value = Mux(address == depth - 1, 0, address + 1)
        if again is not None and self.weights.tiles > 1:
            back = Mux(address < words - 1, address + (depth - words + 1), address - (words - 1))
            following = Mux(again, back, following)
        with m.If(engine.fire):
            m.d.sync += address.eq(following)
        return address
