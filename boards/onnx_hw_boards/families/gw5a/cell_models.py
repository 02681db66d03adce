"""The cells of a Gowin Arora V: those of the LittleBee, and multipliers with registers (UG305; UG300 on memory)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from onnx_hw_boards.families.gowin.cell_models import LIBRARY as LITTLE_BEE
from onnx_hw_sim.gates.cell_models import MultiplierCell, Parts, clocked, not_modelled
from onnx_hw_sim.gates.netlist import ONE, ZERO, ChipCell

_OPERANDS = {"MULT12X12": (12, 12), "MULTALU27X18": (27, 18)}
_IDLE = ("SIA", "C", "D", "CASI", "ACCSEL", "PSEL", "ASEL", "PADDSUB", "CSEL", "CASISEL", "ADDSUB")
"""Pins of a MULTALU27X18 that are zero where it only multiplies."""

_REGISTERS = {f"{name}REG_{what}": what + "0" for name in "ABPO" for what in ("CLK", "CE", "RESET")}
"""Parameters of the registers, and the pin that each names; without the first of its three a register is not there."""

_MODEL_BITS = 18
"""Bits of the operands of the model of a product."""


@dataclass(frozen=True)
class _Operand:
    """An operand without the constant zeros below it.

    Attributes:
        nets: its bits, extended to those of the model.
        sign: net that says whether it is signed.
        below: number of zeros below it.
    """

    nets: tuple[int, ...]
    sign: int
    below: int


def _operand(cell: ChipCell, name: str, width: int) -> _Operand:
    nets = cell.bits(name, width)
    below = next((k for k, net in enumerate(nets) if net != ZERO), width - 1)
    rest = nets[below:]
    if len(rest) == _MODEL_BITS + 1 and rest[-1] == ZERO:
        return _Operand(rest[:-1], ZERO, below)
    if len(rest) > _MODEL_BITS:
        raise not_modelled(cell, f"its operand {name} has {len(rest)} bits")
    return _Operand((*rest, *[rest[-1]] * (_MODEL_BITS - len(rest))), ONE, below)


def _require_plain(cell: ChipCell) -> None:
    """Raise UnmodelledCell unless the cell only multiplies, always enabled and never reset."""
    for name, value in cell.parameters.items():
        known = {_REGISTERS[name], "BYPASS"} if name in _REGISTERS else {"SYNC"} if name == "MULT_RESET_MODE" else set()
        if value.strip() not in known:
            raise not_modelled(cell, f"its parameter {name} is {value.strip()}")
    if cell.bits("CE", 2) != (ONE, ONE) or cell.bits("RESET", 2) != (ZERO, ZERO):
        raise not_modelled(cell, "its enable or its reset is used")
    if any(net != ZERO for name in _IDLE for net in cell.pins.get(name, ())):
        raise not_modelled(cell, "it adds to its product, or takes an operand from its neighbour")


def _multiplier(cell: ChipCell, parts: Parts) -> None:
    """Add a signed multiplier, with registers at its operands, at the product and at the output, or without them."""
    _require_plain(cell)
    present = [name for name in "ABPO" if cell.text(f"{name}REG_CLK", "BYPASS") == "CLK0"]
    if present:
        clocked(cell, parts, "CLK")
    a, b = (_operand(cell, name, width) for name, width in zip("AB", _OPERANDS[cell.kind], strict=True))
    before = [
        tuple(map(parts.register, operand.nets)) if name in present else operand.nets
        for name, operand in (("A", a), ("B", b))
    ]
    product = tuple(parts.fresh() for _ in range(2 * _MODEL_BITS))
    parts.products.append(MultiplierCell(before[0], before[1], a.sign, b.sign, product))
    low, highest = a.below + b.below, 2 * _MODEL_BITS - 1  # what is above the highest bit are copies of it
    after = [name for name in "PO" if name in present]
    for k, out in enumerate(cell.pins.get("DOUT", ())):
        net = ZERO if k < low else product[min(k - low, highest)]
        if not after:
            parts.table((net,), 0b10, out)
            continue
        parts.register(parts.register(net) if len(after) == 2 else net, out)


def stored(cell: ChipCell) -> tuple[list[int], int]:
    """Return the words of a block that is only read, and their width: 512 rows of 36 bits, or of 32 (pROM)."""
    row = 36 if cell.kind == "pROMX9" else 32
    width = cell.number("BIT_WIDTH", row)
    contents = sum(cell.number(f"INIT_RAM_{k:02X}") << 8 * row * k for k in range(64))
    bits = len(cell.pins.get("DO", ()))
    words = [contents >> width * k & (1 << width) - 1 for k in range(512 * row // width)]
    return [word & (1 << bits) - 1 for word in words], min(bits, width)


LIBRARY = replace(
    LITTLE_BEE,
    models={**LITTLE_BEE.models, "MULT12X12": _multiplier, "MULTALU27X18": _multiplier},
    source=Path(__file__),
    stored={"pROM": stored, "pROMX9": stored},
    clocks={},
)
