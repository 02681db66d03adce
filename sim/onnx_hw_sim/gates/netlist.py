"""The netlist that yosys writes for nextpnr, as JSON: cells of a chip, all modules taken apart."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ZERO, ONE, RUBBISH = 0, 1, 2
"""Nets of every netlist: 0, 1, and a net that may be either."""

_CONSTANTS = {"0": ZERO, "1": ONE, "x": RUBBISH, "z": RUBBISH}


@dataclass(frozen=True)
class ChipCell:
    """One cell.

    Attributes:
        name: path of the cell.
        kind: the vendor's name of the kind.
        parameters: values as yosys writes them: bits as texts of 0 and 1, highest first; texts as such.
        pins: per port, its nets, lowest first.
    """

    name: str
    kind: str
    parameters: Mapping[str, str]
    pins: Mapping[str, tuple[int, ...]]

    def pin(self, name: str) -> int:
        """Return the net of a port of one bit; RUBBISH where it is left open."""
        return self.pins.get(name, (RUBBISH,))[0]

    def tied(self, name: str, otherwise: int = ZERO) -> int:
        """Return the net of a port of one bit; ``otherwise`` where it is left open."""
        return self.pins[name][0] if name in self.pins else otherwise

    def bits(self, name: str, width: int) -> tuple[int, ...]:
        """Return the nets of a port; RUBBISH where it is left open."""
        nets = self.pins.get(name, ())
        return (*nets, *[RUBBISH] * (width - len(nets)))

    def pins_of(self, name: str, width: int) -> tuple[int, ...]:
        """Return the nets of the ports ``name0``, ``name1`` ..., each of one bit."""
        return tuple(self.pin(f"{name}{k}") for k in range(width))

    def driven(self, name: str, width: int) -> tuple[int | None, ...]:
        """Return the nets of the outputs ``name0``, ``name1`` ...; None where one is left open."""
        return tuple(self.pins[f"{name}{k}"][0] if f"{name}{k}" in self.pins else None for k in range(width))

    def number(self, name: str, default: int = 0) -> int:
        """Return a parameter that is a number; bits left open are 0, as nextpnr takes them."""
        text = self.parameters.get(name)
        return default if text is None else int(text.translate({ord("x"): "0", ord("z"): "0"}), 2)

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter that is a word: yosys marks one that reads like bits with a space."""
        return self.parameters.get(name, default).strip()


@dataclass(frozen=True)
class FlatNetlist:
    """Cells on nets.

    Attributes:
        nets: number of nets.
        cells: cells of all modules.
        ports: nets of the ports of the top module, lowest first.
        inputs: those of them that are driven from outside.
        named: nets by the names that were looked for, with their paths; RUBBISH where nobody reads one.
    """

    nets: int
    cells: tuple[ChipCell, ...]
    ports: Mapping[str, tuple[int, ...]]
    inputs: frozenset[str]
    named: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def read_netlist(path: Path) -> Mapping[str, Any]:
    """Return the modules by name."""
    modules: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))["modules"]
    return modules


Wires = Mapping[str, tuple[str, str | int]]
"""Kinds of cells that only join a net with another one, or with a constant: names of their pins."""


class _Flattener:
    """Nets are numbered as they appear; a module that connects two of its ports makes one of two."""

    def __init__(self, modules: Mapping[str, Any], wires: Wires, names: re.Pattern[str] | None) -> None:
        self.modules, self.wires, self.names = modules, wires, names
        self.named: dict[str, tuple[int, ...]] = {}
        self.same: list[int] = [ZERO, ONE, RUBBISH]

    def fresh(self) -> int:
        self.same.append(len(self.same))
        return len(self.same) - 1

    def of(self, net: int) -> int:
        """Return the net that stands for a net."""
        while self.same[net] != net:
            self.same[net] = self.same[self.same[net]]
            net = self.same[net]
        return net

    def join(self, one: int, other: int) -> int:
        low, high = sorted((self.of(one), self.of(other)))
        if high != low:
            self.same[high] = low
        return low

    def cells_of(
        self, module: Mapping[str, Any], prefix: str, outside: Mapping[str, tuple[int, ...]]
    ) -> Iterator[ChipCell]:
        here: dict[Any, int] = dict(_CONSTANTS)
        for name, port in module["ports"].items():
            for bit, net in zip(port["bits"], outside.get(name, ()), strict=False):
                here[bit] = self.join(here[bit], net) if bit in here else net
        for name, cell in module["cells"].items():
            if cell["type"] == "$scopeinfo":
                continue
            pins = {}
            for port, bits in cell["connections"].items():
                for bit in bits:
                    if bit not in here:
                        here[bit] = self.fresh()
                pins[port] = tuple(here[bit] for bit in bits)
            inner, wire = self.modules.get(cell["type"]), self.wires.get(cell["type"])
            if wire is not None:
                out, other = wire
                self.join(pins[out][0], other if isinstance(other, int) else pins[other][0])
            elif inner is not None and not _is_library(inner):
                yield from self.cells_of(inner, f"{prefix}{name}.", pins)
            else:
                yield ChipCell(f"{prefix}{name}", cell["type"], cell["parameters"], pins)
        for name, net in module["netnames"].items():
            if self.names is not None and self.names.search(name):
                self.named[f"{prefix}{name}"] = tuple(here.get(bit, RUBBISH) for bit in net["bits"])


def flatten(
    modules: Mapping[str, Any], top: str = "top", *, wires: Wires | None = None, names: re.Pattern[str] | None = None
) -> FlatNetlist:
    """Return all cells of the chip on nets of one numbering.

    Args:
        wires: kinds of cells that only join nets.
        names: pattern of the names of nets that the caller looks for.
    """
    flattener = _Flattener(modules, wires or {}, names)
    outer = {name: tuple(flattener.fresh() for _ in port["bits"]) for name, port in modules[top]["ports"].items()}
    flat = list(flattener.cells_of(modules[top], "", outer))
    number = {flattener.of(net): 0 for net in range(len(flattener.same))}
    number = {net: k for k, net in enumerate(sorted(number))}
    one_of = [number[flattener.of(net)] for net in range(len(flattener.same))]

    def renamed(pins: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return {port: tuple(one_of[net] for net in nets) for port, nets in pins.items()}

    cells = tuple(ChipCell(c.name, c.kind, c.parameters, renamed(c.pins)) for c in flat)
    inputs = frozenset(name for name, port in modules[top]["ports"].items() if port["direction"] == "input")
    return FlatNetlist(len(number), cells, renamed(outer), inputs, renamed(flattener.named))


def _is_library(module: Mapping[str, Any]) -> bool:
    attributes = module["attributes"]
    return any(int(str(attributes.get(name, "0")), 2) for name in ("blackbox", "whitebox"))
