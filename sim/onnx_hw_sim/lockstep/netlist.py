"""Netlist of word-wide cells as yosys writes them: flattened, before they become cells of a chip."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

Bit: TypeAlias = "int | str"
"""Bit of a signal: its number, or ``"0"``, ``"1"``, ``"x"``, ``"z"``."""

OUTPUTS = ("Y", "Q", "RD_DATA")
"""Output pins; no cell has two of them."""


class UnsupportedCircuit(Exception):
    """Circuit that this simulator cannot run: a cell is not known, or cells wait for each other."""


@dataclass(frozen=True)
class WordCell:
    """Cell of a netlist.

    Attributes:
        kind: yosys' name of it, such as ``$add``.
        parameters: bits as texts of 0 and 1, highest first.
        pins: by name of the pin, its bits, lowest first.
    """

    kind: str
    parameters: Mapping[str, str]
    pins: Mapping[str, Sequence[Bit]]

    def number(self, name: str) -> int:
        """Return a parameter as a number; a bit that is not specified counts as 0."""
        return number_of(self.parameters.get(name, "0"))

    @property
    def signed(self) -> bool:
        """Whether both operands are signed: yosys takes them as unsigned if one of them is."""
        return bool(self.number("A_SIGNED")) and ("B_SIGNED" not in self.parameters or bool(self.number("B_SIGNED")))


def number_of(bits: str) -> int:
    return int(bits.replace("x", "0").replace("z", "0") or "0", 2)


@dataclass(frozen=True)
class WordNetlist:
    """Cells on numbered bits.

    Attributes:
        cells: in yosys' order, those of one module side by side.
        inputs, outputs: bits of the ports.
        begins: bit -> its value after power-up, for the bits that have one.
    """

    cells: Sequence[WordCell]
    inputs: Mapping[str, Sequence[Bit]]
    outputs: Mapping[str, Sequence[Bit]]
    begins: Mapping[int, int]

    @cached_property
    def clock(self) -> Sequence[Bit]:
        return self.inputs["clk"]


def read_netlist(path: Path) -> WordNetlist:
    """Read the module ``top`` of a file written by ``write_json``, with no other modules inside."""
    top = json.loads(path.read_text(encoding="utf-8"))["modules"]["top"]
    begins: dict[int, int] = {}
    for name in top["netnames"].values():
        value = name["attributes"].get("init")
        if value is not None:
            begins |= {bit: int(v == "1") for bit, v in zip(name["bits"], reversed(value), strict=False) if v in "01"}
    ports = top["ports"]
    return WordNetlist(
        [
            WordCell(cell["type"], cell["parameters"], cell["connections"])
            for cell in top["cells"].values()
            if cell["type"] != "$scopeinfo"
        ],
        {name: port["bits"] for name, port in ports.items() if port["direction"] == "input"},
        {name: port["bits"] for name, port in ports.items() if port["direction"] == "output"},
        begins,
    )
