"""Demand of a circuit, counted in its netlist: for circuits that are not an operator's, such as a board's link."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onnx_hw_boards.demand import Adder, Comparator, Demand, Enable, LogicFunction, Memory, Multiplexer, Register

INPUTS, GATES = 4, 3
"""Inputs of a look-up table, and the gates of two inputs each that it replaces."""

FEW = 2
"""Constants of which one is what a flip-flop is set or reset to, or a gate."""

_MEMORY = re.compile(r"^  memory width (\d+) size (\d+) ", re.M)
_CELL = re.compile(r"^  cell \$(\w+) .*\n((?:    .*\n)*?)  end$", re.M)
_PROCESS = re.compile(r"^  process .*\n((?:    .*\n)*?)  end$", re.M)
_PARAMETER = re.compile(r"parameter \\(\w+) (\d+)$", re.M)
_PORT = re.compile(r"connect \\(\w+) (.*)$", re.M)
_ASSIGNMENT = re.compile(r"assign (\S+) \[(\d+)(?::(\d+))?\] (.*)$", re.M)
_SWITCH = re.compile(r"switch (.*)$", re.M)
_BITS = re.compile(r"(\S+) \[(\d+)(?::(\d+))?\]")
_WIRE = re.compile(r"[\\$][^\s\[]+")
_CONSTANT = re.compile(r"\d+'[01]*|{  }")
_TAKEN = re.compile(r"(assign) .*$", re.M)
_RESET = re.compile(r"^    switch \\rst \[0\]\n(?:.*\n)*", re.M)


def demand_of_netlist(rtlil: str) -> Demand:
    """Return the demand of all modules together.

    A value that a register keeps is not one that it chooses from, and its reset is its own: flip-flops have both. Equal
    logic counts once.

    Args:
        rtlil: netlist as Amaranth writes it.
    """
    return sum((part for module in rtlil.split("\nmodule ") for part in _parts(module)), Demand())


def _parts(module: str) -> Iterator[Demand]:
    for width, words in _MEMORY.findall(module):
        yield Demand.of(Memory(int(width), int(words)))
    gates, kept = 0, dict[str, str]()
    cells, same = _cells(module)
    for kind, numbers, ports in cells:
        match kind:
            case "dff":
                kept[_wire(ports["D"])] = _wire(ports["Q"])
                yield Demand.of(Register(numbers["WIDTH"]))
            case "add" | "sub" | "neg":
                yield Demand.of(Adder(max(map(_variable, (ports["A"], ports.get("B", "{  }"))))))
            case "lt" | "le" | "gt" | "ge":
                yield Demand.of(Comparator(max(numbers["A_WIDTH"], numbers["B_WIDTH"])))
            case "eq" | "ne":
                gates += max(0, _variable(ports["A"]) + _variable(ports["B"]) - 1)
            case "and" | "or" | "xor":
                gates += min(map(_variable, (ports["A"], ports["B"])))
            case "reduce_or" | "reduce_and" | "reduce_xor" | "reduce_bool":
                gates += numbers["A_WIDTH"] - 1
            case "mux" if _variable(ports["S"]):
                several = min(map(_variable, (ports["A"], ports["B"]))) > 0
                yield Demand.of(Multiplexer(2, numbers["WIDTH"] if several else 0))
                gates += 0 if several else numbers["WIDTH"]
    yield Demand.of(LogicFunction(INPUTS, -(-gates // GATES)))
    conditions = set[str]()
    for body in _PROCESS.findall(module):
        yield _choice(_named(same, body), kept, conditions)


def _cells(module: str) -> tuple[list[tuple[str, dict[str, int], dict[str, str]]], dict[str, str]]:
    """Return the cells that are left when synthesis has merged those that do the same with the same inputs.

    Returns:
        (kind, parameters, ports) of each cell; and by the wire of a merged cell, the wire that has its value.
    """
    cells, same, seen = list[tuple[str, dict[str, int], dict[str, str]]](), dict[str, str](), dict[str, str]()
    for kind, body in _CELL.findall(module):
        ports = {name: value if name == "Y" else _named(same, value) for name, value in _PORT.findall(body)}
        numbers, result = {name: int(value) for name, value in _PARAMETER.findall(body)}, ports.get("Y", "")
        known = seen.setdefault(str((kind, numbers, {**ports, "Y": ""})), result) if result else result
        if known != result:
            same[result] = known
        else:
            cells.append((kind, numbers, ports))
    return cells, same


def _named(same: dict[str, str], text: str) -> str:
    return _WIRE.sub(lambda wire: same.get(wire[0], wire[0]), text)


def _choice(process: str, kept: dict[str, str], conditions: set[str]) -> Demand:
    """Return the demand of a choice of values; a bit of a register that is set or cleared is a function by itself.

    Args:
        kept: the wire of a register's output, by the wire of its input.
        conditions: conditions of the processes so far, which select a value: equal ones take nothing more.
    """
    body, resets = _RESET.subn("", process)
    (target, _, _, usual), *others = _ASSIGNMENT.findall(body)
    tests = len({bit for test in _SWITCH.findall(body) for bit in _bits(test)})
    if not tests:
        return Demand()
    parts: dict[int, set[str]] = {}
    width_of: dict[int, int] = {}
    for _, top, bottom, value in others:
        first = int(bottom or top)
        width_of[first] = max(width_of.get(first, 0), int(top) - first + 1)
        parts.setdefault(first, {usual}).add(value)
    demand, flag = Demand(), False
    for first, values in parts.items():
        values -= {value for value in values if _wire(value) == kept.get(target)}
        known = sum(1 for value in values if _CONSTANT.fullmatch(value))
        demand += Demand.of(Multiplexer(len(values) - known, width_of[first]))
        if known > FEW:
            demand += Demand.of(LogicFunction(tests, width_of[first]))
        elif known and len(values) == known + 1 and target not in kept:
            demand += Demand.of(LogicFunction(INPUTS, width_of[first]))
        flag = flag or (known > 0 and width_of[first] == 1)
    when = _TAKEN.sub(r"\1", body)
    if target in kept and flag:
        return demand + Demand.of(LogicFunction(tests))
    if when in conditions or (target not in kept and sum(width_of.values()) == 1):
        return demand
    conditions.add(when)
    return demand + Demand.of(Enable(tests, resets > 0) if target in kept else LogicFunction(tests))


def _wire(value: str) -> str:
    return value.partition(" [")[0]


def _variable(value: str) -> int:
    """Return the number of bits that are not constants."""
    return len(_bits(value)) if "[" in value else 0


def _bits(value: str) -> list[tuple[str, int]]:
    bits = []
    for wire, top, bottom in _BITS.findall(value):
        bits += [(wire, bit) for bit in range(int(bottom or top), int(top) + 1)]
    return bits
