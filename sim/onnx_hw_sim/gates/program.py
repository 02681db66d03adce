"""Parts in the order in which they settle, as rows of numbers for the interpreter (``interpreter.h``).

Tables are first made as small as constants allow. What remains is sorted into levels: everything of a level depends on
lower ones only, so that all tables of one size stand side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_hw_sim.gates.cell_models import BlockPort, LutCell, MultiplierCell, Parts, SmallMemory, UnmodelledCell
from onnx_hw_sim.gates.netlist import ONE, RUBBISH, ZERO

PRODUCTS, READS = 5, 6
"""Kinds of segments; kinds 1 to 4 are tables with that number of inputs."""

WIDEST, ADDRESS, PARTS = 36, 14, 32

Combinational = LutCell | MultiplierCell | SmallMemory
"""Part whose outputs change within a cycle."""


@dataclass(frozen=True)
class GateProgram:
    """Rows of int32 by kind, in the order of ``interpreter.h``.

    Attributes:
        nets: number of nets, each a word.
        rows: segments, tables, flip-flops, products, reads and writes of small memories, ports, blocks.
        functions: (n,) uint16.
        contents: per block, (words,) uint64.
        place: net that stands for each net of the netlist.
    """

    nets: int
    rows: tuple[np.ndarray, ...]
    functions: np.ndarray
    contents: tuple[np.ndarray, ...]
    place: Sequence[int]

    @property
    def nanoseconds(self) -> float:
        """Estimated time of a cycle of 64 runs, for plans that must not depend on the computer."""
        _, tables, flip_flops, products, reads, writes, ports, _ = map(len, self.rows)
        return 6 * tables + 4 * flip_flops + 300 * products + 50 * reads + 100 * writes + 1500 * ports + 500


class _Levels:
    """Nets that have settled: the net that stands for each, and its level."""

    def __init__(self, nets: int) -> None:
        self.place = list(range(nets))
        self.level = [0] * nets

    def of(self, nets: Sequence[int]) -> list[int]:
        return [self.place[net] for net in nets]

    def after(self, nets: Sequence[int]) -> int:
        return 1 + max((self.level[net] for net in nets), default=0)


def program(parts: Parts, inputs: Sequence[int]) -> GateProgram:
    """Return the parts, ready to run.

    Args:
        inputs: nets that are driven from outside.

    Raises:
        UnmodelledCell: some parts wait for each other within a cycle, or drive one net.
    """
    combinational: list[Combinational] = [*parts.tables, *parts.products, *parts.small]
    waits = [_inputs_of(part) for part in combinational]
    maker = _makers(parts, combinational, inputs)
    levels = _Levels(parts.nets)
    for net in range(parts.nets):
        if net not in maker:
            levels.place[net] = RUBBISH if net not in (ZERO, ONE) else net
    ordered: dict[tuple[int, int], list[tuple[int, list[int]]]] = defaultdict(list)
    functions: dict[int, int] = {}
    for number in _in_order(combinational, waits, maker):
        part = combinational[number]
        ins = levels.of(waits[number])
        if isinstance(part, LutCell):
            ins, function = smaller_table(ins, part.function)
            if len(ins) == 0 or (len(ins) == 1 and function == 0b10):
                levels.place[part.out] = ins[0] if ins else (ZERO, ONE)[function & 1]
                continue
            level, kind = levels.after(ins), len(ins)
            row = [part.out, *ins, *[ZERO] * (4 - len(ins)), functions.setdefault(function, len(functions))]
            outs: Sequence[int | None] = (part.out,)
        else:
            level, kind, outs = levels.after(ins), PRODUCTS if isinstance(part, MultiplierCell) else READS, part.out
            row = [*ins, *[-1 if net is None else net for net in outs]]
            if kind == READS:
                row.insert(0, number - len(parts.tables) - len(parts.products))
        for out in outs:
            if out is not None:
                levels.level[out] = level
        ordered[level, kind].append((row[-1] if kind <= 4 else 0, row))
    return _rows(parts, levels, ordered, functions)


def combinational_order(parts: Parts, inputs: Sequence[int]) -> list[Combinational]:
    """Return all parts that settle within a cycle, each after those that it waits for; raise as ``program``."""
    combinational: list[Combinational] = [*parts.tables, *parts.products, *parts.small]
    maker = _makers(parts, combinational, inputs)
    order = _in_order(combinational, [_inputs_of(part) for part in combinational], maker)
    return [combinational[number] for number in order]


def _inputs_of(part: Combinational) -> tuple[int, ...]:
    if isinstance(part, LutCell):
        return part.ins
    if isinstance(part, MultiplierCell):
        return (*part.a, *part.b, part.a_signed, part.b_signed)
    return part.address


def _makers(parts: Parts, combinational: Sequence[Combinational], inputs: Sequence[int]) -> dict[int, int]:
    """Return the number of the part that drives each net within a cycle; -1 where a register or the outside does."""
    maker: dict[int, int] = {}

    def drives(net: int | None, number: int) -> None:
        if net is None:
            return
        if net in maker or net in (ZERO, ONE):
            raise UnmodelledCell(f"net {net} is driven twice")
        maker[net] = number

    for net in inputs:
        drives(net, -1)
    for flip_flop in parts.flip_flops:
        drives(flip_flop.out, -1)
    for block in parts.blocks:
        for port in block.ports:
            for out in port.out:
                drives(out, -1)
    for number, part in enumerate(combinational):
        outs: Sequence[int | None] = (part.out,) if isinstance(part, LutCell) else part.out
        for out in outs:
            drives(out, number)
    return maker


def _in_order(
    combinational: Sequence[Combinational],
    waits: Sequence[tuple[int, ...]],
    maker: dict[int, int],
) -> list[int]:
    """Return the numbers of all parts, each after those that it waits for."""
    followers: dict[int, list[int]] = defaultdict(list)
    missing = [0] * len(combinational)
    for number, nets in enumerate(waits):
        for other in {maker.get(net, -1) for net in nets}:
            if other >= 0:
                followers[other].append(number)
                missing[number] += 1
    ready = [number for number, count in enumerate(missing) if count == 0]
    for number in ready:  # grows
        for follower in followers[number]:
            missing[follower] -= 1
            if missing[follower] == 0:
                ready.append(follower)
    if len(ready) < len(combinational):
        raise UnmodelledCell(f"{len(combinational) - len(ready)} cells wait for each other within a cycle")
    return ready


def smaller_table(ins: Sequence[int], function: int) -> tuple[list[int], int]:
    """Return the same table without inputs that are constant, come twice, or change nothing."""
    ins = list(ins)
    entries = [function >> k & 1 for k in range(1 << len(ins))]
    j = len(ins)
    while j:
        j -= 1
        step, net = 1 << j, ins[j]
        low = [entries[k] for k in range(len(entries)) if not k & step]
        high = [entries[k] for k in range(len(entries)) if k & step]
        first = ins.index(net)
        if net == ZERO or low == high:
            entries = low
        elif net == ONE:
            entries = high
        elif first < j:  # its twin has a lower place, and so the same in both halves
            entries = [(low, high)[k >> first & 1][k] for k in range(len(low))]
        else:
            continue
        del ins[j]
        j = len(ins)  # one that stayed may change nothing now
    return ins, sum(bit << k for k, bit in enumerate(entries))


def _rows(
    parts: Parts,
    levels: _Levels,
    ordered: dict[tuple[int, int], list[tuple[int, list[int]]]],
    functions: dict[int, int],
) -> GateProgram:
    segments: list[list[int]] = []
    by_kind: dict[int, list[list[int]]] = {1: [], PRODUCTS: [], READS: []}
    for (_, kind), found in sorted(ordered.items()):
        of_kind = by_kind[1 if kind <= 4 else kind]
        segments.append([kind, len(of_kind), len(found)])
        of_kind += [row for _, row in sorted(found, key=lambda entry: entry[0])]
    at = levels.place
    flip_flops = [
        [f.out, at[f.d], at[f.enable], at[f.reset], f.value, int(f.gated), f.begins] for f in parts.flip_flops
    ]
    flip_flops.sort(key=lambda row: row[2:6])
    writes = [[*levels.of(m.into), *levels.of(m.data), at[m.enable]] for m in parts.small]
    ports = [_port_row(number, port, at) for number, block in enumerate(parts.blocks) for port in block.ports]
    blocks = [[len(b.words), int(b.shared), int(b.rubbish)] for b in parts.blocks]
    rows = (
        (segments, 3),
        (by_kind[1], 6),
        (flip_flops, 7),
        (by_kind[PRODUCTS], 18 + 18 + 2 + 36),
        (by_kind[READS], 1 + 4 + 4),
        (writes, 4 + 4 + 1),
        (ports, 1 + ADDRESS + 4 + PARTS + 2 + 3 + 3 * WIDEST),
        (blocks, 3),
    )
    return GateProgram(
        nets=parts.nets,
        rows=tuple(np.array(part, dtype=np.int32).reshape(-1, width) for part, width in rows),
        functions=np.array(list(functions), dtype=np.uint16),
        contents=tuple(np.array(block.words, dtype=np.uint64) for block in parts.blocks),
        place=at,
    )


def _port_row(block: int, port: BlockPort, at: Sequence[int]) -> list[int]:
    def padded(nets: Sequence[int | None], length: int, missing: int) -> list[int]:
        return [missing if net is None else net for net in nets] + [missing] * (length - len(nets))

    return [
        block,
        *padded([at[net] for net in port.address], ADDRESS, ZERO),
        *port.word,
        *port.part,
        *padded(port.begins, PARTS, 0),
        port.bit_step,
        port.width,
        at[port.enable],
        at[port.write],
        port.reads if any(net is not None for net in port.out) else 0,
        *padded([at[net] for net in port.data], WIDEST, ZERO),
        *padded([at[net] for net in port.mask], WIDEST, ONE),
        *padded(port.out, WIDEST, -1),
    ]
