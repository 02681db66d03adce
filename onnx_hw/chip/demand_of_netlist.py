"""What a circuit demands of a chip, counted in its netlist: for one that is no operator's, such as a board's link."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onnx_hw_boards.demand import Adder, Comparison, Demand, Function, Memory, Multiplexer, Register

__all__ = ["demand_of_netlist"]

INPUTS, GATES = 4, 3
"""Of a look-up table; gates of two inputs each that it takes."""

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
_CONSTANT = re.compile(r"\d+'[01]*|{  }")
_RESET = re.compile(r"^    switch \\rst \[0\]\n(?:.*\n)*", re.M)


def demand_of_netlist(rtlil: str) -> Demand:
    """Of all modules together.

    A value that a register keeps is none that it chooses from, and its reset is its own: flip-flops have both.

    Args:
        rtlil: as Amaranth writes it.
    """
    return sum((part for module in rtlil.split("\nmodule ") for part in _parts(module)), Demand())


def _parts(module: str) -> Iterator[Demand]:
    for width, words in _MEMORY.findall(module):
        yield Demand.of(Memory(int(width), int(words)))
    gates, kept = 0, dict[str, str]()
    for kind, body in _CELL.findall(module):
        numbers = {name: int(value) for name, value in _PARAMETER.findall(body)}
        ports = dict(_PORT.findall(body))
        match kind:
            case "dff":
                kept[_wire(ports["D"])] = _wire(ports["Q"])
                yield Demand.of(Register(numbers["WIDTH"]))
            case "add" | "sub" | "neg":
                yield Demand.of(Adder(max(map(_variable, (ports["A"], ports.get("B", "{  }"))))))
            case "lt" | "le" | "gt" | "ge":
                yield Demand.of(Comparison(max(numbers["A_WIDTH"], numbers["B_WIDTH"])))
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
    yield Demand.of(Function(INPUTS, -(-gates // GATES)))
    for body in _PROCESS.findall(module):
        yield _choice(_RESET.sub("", body), kept)


def _choice(body: str, kept: dict[str, str]) -> Demand:
    """One of several values, by what tells which."""
    (target, _, _, usual), *others = _ASSIGNMENT.findall(body)
    tests = len({bit for test in _SWITCH.findall(body) for bit in _bits(test)})
    parts: dict[int, set[str]] = {}
    width_of: dict[int, int] = {}
    for _, top, bottom, value in others:
        first = int(bottom or top)
        width_of[first] = max(width_of.get(first, 0), int(top) - first + 1)
        parts.setdefault(first, {usual}).add(value)
    found, width = Demand(), sum(width_of.values())
    for first, values in parts.items():
        values -= {value for value in values if _wire(value) == kept.get(target)}
        known = sum(1 for value in values if _CONSTANT.fullmatch(value))
        found += Demand.of(Multiplexer(len(values) - known, width_of[first]))
        if known > FEW:
            found += Demand.of(Function(tests, width_of[first]))
        elif known and len(values) == known + 1 and target not in kept:
            found += Demand.of(Function(INPUTS, width_of[first]))
    return found + Demand.of(Function(tests, 1 if width > 1 or target in kept else 0))


def _wire(value: str) -> str:
    return value.partition(" [")[0]


def _variable(value: str) -> int:
    """Bits that are no constants."""
    return len(_bits(value)) if "[" in value else 0


def _bits(value: str) -> list[tuple[str, int]]:
    found = []
    for wire, top, bottom in _BITS.findall(value):
        found += [(wire, bit) for bit in range(int(bottom or top), int(top) + 1)]
    return found
