"""Structure of a netlist, without names: two netlists with the same structure are the same circuit.

Every net gets a signature, a number that is made of the part that drives it and of the signatures of its inputs. Round
by round a signature looks one register further back. The order of a table's inputs does not count, and tables are made
as small as constants allow, so that a netlist may be compared with what place and route made of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, permutations, product

from onnx_hw_sim.gates.cell_models import Block, FlipFlop, LutCell, MultiplierCell, Parts, SmallMemory
from onnx_hw_sim.gates.netlist import ONE, RUBBISH, ZERO
from onnx_hw_sim.gates.program import combinational_order, smaller_table

ROUNDS = 12
"""Registers between a net and the farthest that its signature sees."""

_MASK = (1 << 61) - 1
_Settling = tuple[int, list[int], int] | MultiplierCell | SmallMemory
"""Part that settles within a cycle; a table is its output, its inputs and its function."""


def structure(
    parts: Parts, ports: Mapping[str, Sequence[int]], inputs: frozenset[str], rounds: int = ROUNDS
) -> Counter[int]:
    """Return the signatures of all outputs, registers and memories that an output depends on.

    Args:
        ports: nets of the ports, by name.
        inputs: names of those that are driven from outside.

    Raises:
        UnmodelledCell: some parts wait for each other within a cycle, or drive one net.
    """
    driven = [net for name in inputs for net in ports[name]]
    place = list(range(parts.nets))
    place[RUBBISH] = ZERO  # what is open reads as 0, as place and route ties it
    tables: list[_Settling] = []
    for part in combinational_order(parts, driven):
        if isinstance(part, LutCell):
            ins, function = smaller_table([place[net] for net in part.ins], part.function)
            if len(ins) == 0 or (len(ins) == 1 and function == 0b10):
                place[part.out] = ins[0] if ins else (ZERO, ONE)[function & 1]
            else:
                tables.append((part.out, ins, function))
        else:
            tables.append(part)
    known = [0] * parts.nets
    known[ONE] = 1
    for name in inputs:
        for bit, net in enumerate(ports[name]):
            known[net] = hash((2, name, bit)) & _MASK
    cone = _cone(parts, tables, place, [net for name in ports if name not in inputs for net in ports[name]])
    registers = [flip_flop for flip_flop in parts.flip_flops if flip_flop.out in cone]
    blocks = [(block, hash(tuple(block.words)) & _MASK) for block in parts.blocks if _read(block) & cone]
    for _ in range(rounds):
        for table in tables:
            if isinstance(table, MultiplierCell | SmallMemory):
                _settle(table, known, place)
            elif table[0] in cone:
                known[table[0]] = _of_table([known[net] for net in table[1]], table[2])
        after = [(register.out, _of_register(register, known, place)) for register in registers]
        for block, contents in blocks:
            after += _of_block(block, contents, known, place)
        for net, signature in after:
            known[net] = signature
    signatures = Counter(known[register.out] for register in registers)
    signatures.update(known[net] for block, _ in blocks for net in _read(block) & cone)
    for name in sorted(set(ports) - inputs):
        signatures.update(hash((3, name, bit, known[place[net]])) & _MASK for bit, net in enumerate(ports[name]))
    return signatures


def _read(block: Block) -> set[int]:
    return {net for port in block.ports for net in port.out if net is not None}


def _of_table(ins: list[int], function: int) -> int:
    """Return the signature of a table whatever the order of its inputs is: that of the inputs in rising order."""
    order = sorted(range(len(ins)), key=ins.__getitem__)
    ties = [list(group) for _, group in groupby(order, key=ins.__getitem__)]
    least = min(
        _permuted(function, [place for group in choice for place in group])
        for choice in product(*(permutations(group) for group in ties))
    )
    return hash((4, least, *(ins[k] for k in order))) & _MASK


_PERMUTED: dict[tuple[int, tuple[int, ...]], int] = {}


def _permuted(function: int, order: list[int]) -> int:
    """Return a table with its inputs in another order."""
    key = function, tuple(order)
    if key not in _PERMUTED:
        _PERMUTED[key] = sum(
            (function >> sum((k >> j & 1) << old for j, old in enumerate(order)) & 1) << k
            for k in range(1 << len(order))
        )
    return _PERMUTED[key]


def _of_register(register: FlipFlop, known: Sequence[int], place: Sequence[int]) -> int:
    nets = (known[place[net]] for net in (register.d, register.enable, register.reset))
    resets = place[register.reset] != ZERO  # without a reset its value is only that at power-up, which ``begins`` is
    return hash((5, *nets, register.value if resets else -1, register.gated and resets, register.begins)) & _MASK


def _of_block(block: Block, contents: int, known: Sequence[int], place: Sequence[int]) -> Iterator[tuple[int, int]]:
    ports = []
    for port in block.ports:
        nets = [known[place[net]] for net in (*port.address, port.enable, port.write)]
        if place[port.write] != ZERO:
            nets += [known[place[net]] for net in (*port.data, *port.mask)]
        shape = hash((port.word, port.part, port.begins, port.bit_step, port.width, port.reads))
        ports.append(hash((shape, *nets)))
    everything = hash((6, contents, block.rubbish, *ports))
    for number, port in enumerate(block.ports):
        for bit, net in enumerate(port.out):
            if net is not None:
                yield net, hash((everything, number, bit)) & _MASK


def _settle(part: MultiplierCell | SmallMemory, known: list[int], place: Sequence[int]) -> None:
    def of(nets: Sequence[int]) -> list[int]:
        return [known[place[net]] for net in nets]

    if isinstance(part, MultiplierCell):
        whole = hash((7, *of(part.a), *of(part.b), *of((part.a_signed, part.b_signed))))
        ways = [hash((whole, bit)) for bit in range(len(part.out))]
    else:  # the four bits of a memory have nothing else in common
        whole = hash((8, *of(part.address), *of(part.into), *of((part.enable,))))
        ways = [hash((whole, data)) for data in of(part.data)]
    for net, signature in zip(part.out, ways, strict=False):
        if net is not None:
            known[net] = signature & _MASK


def _cone(
    parts: Parts,
    tables: Sequence[_Settling],
    place: Sequence[int],
    outputs: Sequence[int],
) -> set[int]:
    """Return the nets that outputs depend on."""
    before: dict[int, Sequence[int]] = {}
    for table in tables:
        if isinstance(table, tuple):
            before[table[0]] = table[1]
        elif isinstance(table, MultiplierCell):
            nets = (*table.a, *table.b, table.a_signed, table.b_signed)
            before |= {net: nets for net in table.out if net is not None}
        elif isinstance(table, SmallMemory):
            nets = (*table.address, *table.into, *table.data, table.enable)
            before |= {net: nets for net in table.out if net is not None}
    for register in parts.flip_flops:
        before[register.out] = (register.d, register.enable, register.reset)
    for block in parts.blocks:
        nets = tuple(
            net for port in block.ports for net in (*port.address, port.enable, port.write, *port.data, *port.mask)
        )
        before |= dict.fromkeys(_read(block), nets)
    cone: set[int] = set()
    left = [place[net] for net in outputs]
    while left:
        net = left.pop()
        if net not in cone:
            cone.add(net)
            left += [place[other] for other in before.get(net, ())]
    return cone
