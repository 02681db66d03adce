"""Faults in the netlist of a chip that no simulation of the circuit before synthesis can show, family by family."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Modules = dict[str, Any]
Cell = dict[str, Any]
Fault = Callable[[Modules], None]


def cells(modules: Modules, *kinds: str) -> Iterator[Cell]:
    for name, module in modules.items():
        if name.startswith("top"):
            yield from (cell for _, cell in sorted(module["cells"].items()) if cell["type"] in kinds)


def first(modules: Modules, kind: str, having: Callable[[Cell], bool] = lambda cell: True) -> Cell:
    return next(cell for cell in cells(modules, kind) if having(cell))


def _is_rom(cell: Cell) -> bool:
    return all(cell["connections"].get(pin, ["0"]) == ["0"] for pin in ("WEA", "WEB", "WCLKE"))


def _has_reset(cell: Cell) -> bool:
    """Whether a flip-flop of an Arora V has a reset that is not a constant 0."""
    return cell["connections"]["RESET"] != ["0"]


def _swapped(parameters: dict[str, str], prefix: str, width: int, word: Callable[[str], str]) -> None:
    """Every word of the contents, its highest bit first."""
    for name in [name for name in parameters if name.startswith(prefix)]:
        text = parameters[name]
        parameters[name] = "".join(word(text[at : at + width]) for at in range(0, len(text), width))


def _flipped(bit: str) -> str:
    return "0" if bit == "1" else "1"


def _inverted(module: Any, net: Any, kind: str) -> int:
    """A new net, the contrary of one."""
    four = ("I0", "I1", "I2", "I3")
    ins, out, table = {
        "LUT4": ("ABCD", "Z", "INIT"),
        "SB_LUT4": (four, "O", "LUT_INIT"),
        "LUT1": (four[:1], "F", "INIT"),
    }[kind]
    new = 10**6 + len(module["cells"])
    module["cells"][f"inverter{new}"] = {
        "type": kind,
        "parameters": {table: "0101010101010101"[-(2 ** len(ins)) :]},
        "connections": {ins[0]: [net], **{pin: ["0"] for pin in ins[1:]}, out: [new]},
    }
    return new


def _flip_payload(modules: Modules, kind: str) -> None:
    """Behind all that a probe shows: at the pad."""
    top = modules["top"]
    name = next(name for name, port in top["ports"].items() if port["direction"] == "output" and "payload" in name)
    bits = top["ports"][name]["bits"]
    bits[3] = _inverted(top, bits[3], kind)


class Ecp5:
    """Lattice ECP5."""

    @staticmethod
    def unsigned_operand(modules: Modules) -> None:
        first(modules, "MULT18X18D")["connections"]["SIGNEDA"] = ["0"]

    @staticmethod
    def upper_half_without_address(modules: Modules) -> None:
        pins = first(modules, "DP16KD", _is_rom)["connections"]
        highest = max(k for k in range(14) if pins[f"ADA{k}"] != ["0"])
        pins[f"ADA{highest}"] = ["0"]

    @staticmethod
    def inverted_reset(modules: Modules) -> None:
        first(modules, "TRELLIS_FF", lambda cell: cell["connections"]["LSR"] != ["0"])["parameters"]["LSRMUX"] = "INV"

    @staticmethod
    def flipped_payload(modules: Modules) -> None:
        _flip_payload(modules, "LUT4")

    @staticmethod
    def wrong_port(modules: Modules) -> None:
        """The written block is read through the port that writes it."""
        pins = first(modules, "DP16KD", lambda cell: not _is_rom(cell))["connections"]
        for k in range(18):
            pins[f"DOA{k}"], pins[f"DOB{k}"] = pins[f"DOB{k}"], pins[f"DOA{k}"]

    @staticmethod
    def swapped_bytes(modules: Modules) -> None:
        parameters = first(modules, "DP16KD", _is_rom)["parameters"]
        _swapped(parameters, "INITVAL", 20, lambda word: word[:2] + word[11:] + word[2:11])

    @staticmethod
    def flipped_weight(modules: Modules) -> None:
        parameters = first(modules, "DP16KD", _is_rom)["parameters"]
        parameters["INITVAL_02"] = parameters["INITVAL_02"][:-1] + _flipped(parameters["INITVAL_02"][-1])

    @staticmethod
    def missing_register(modules: Modules) -> None:
        first(modules, "MULT18X18D")["parameters"]["REG_PIPELINE_CLK"] = "NONE"

    @staticmethod
    def lost_enable(modules: Modules) -> None:
        """Of one register: all flip-flops that wait for one signal."""
        enabled = [cell for cell in cells(modules, "TRELLIS_FF") if cell["parameters"]["CEMUX"].strip() == "CE"]
        for cell in enabled:
            if cell["connections"]["CE"] == enabled[0]["connections"]["CE"]:
                cell["parameters"]["CEMUX"] = "1 "

    @staticmethod
    def other_reset_value(modules: Modules) -> None:
        """Where a register begins, and what a reset makes of it."""
        parameters = first(modules, "TRELLIS_FF", lambda cell: cell["connections"]["LSR"] != ["0"])["parameters"]
        parameters["REGSET"] = {"SET": "RESET", "RESET": "SET"}[parameters["REGSET"].strip()]


class Ice40:
    """Lattice iCE40 UltraPlus."""

    @staticmethod
    def unsigned_operand(modules: Modules) -> None:
        """The copies of the sign above it are lost."""
        pins = first(modules, "SB_MAC16")["connections"]["A"]
        sign = next(k for k, net in enumerate(pins) if net == pins[-1])
        pins[sign + 1 :] = ["0"] * (15 - sign)

    @staticmethod
    def upper_half_without_address(modules: Modules) -> None:
        pins = first(modules, "SB_RAM40_4K", _is_rom)["connections"]["RADDR"]
        pins[max(k for k, net in enumerate(pins) if net != "0")] = "0"

    @staticmethod
    def inverted_reset(modules: Modules) -> None:
        name, module = next(
            (name, module)
            for name, module in modules.items()
            if any(cell["type"] == "SB_DFFSR" for cell in module["cells"].values()) and name != "top"
        )
        pins = first({name: module}, "SB_DFFSR")["connections"]
        pins["R"] = [_inverted(module, pins["R"][0], "SB_LUT4")]

    @staticmethod
    def flipped_payload(modules: Modules) -> None:
        _flip_payload(modules, "SB_LUT4")

    @staticmethod
    def wrong_port(modules: Modules) -> None:
        pins = first(modules, "SB_RAM40_4K", lambda cell: not _is_rom(cell))["connections"]
        pins["RADDR"], pins["WADDR"] = pins["WADDR"], pins["RADDR"]

    @staticmethod
    def swapped_bytes(modules: Modules) -> None:
        parameters = first(modules, "SB_RAM40_4K", _is_rom)["parameters"]
        _swapped(parameters, "INIT_", 16, lambda word: word[8:] + word[:8])

    @staticmethod
    def flipped_weight(modules: Modules) -> None:
        parameters = first(modules, "SB_RAM40_4K", _is_rom)["parameters"]
        parameters["INIT_0"] = parameters["INIT_0"][:-1] + _flipped(parameters["INIT_0"][-1])

    @staticmethod
    def missing_register(modules: Modules) -> None:
        first(modules, "SB_MAC16")["parameters"]["PIPELINE_16x16_MULT_REG2"] = "0"

    @staticmethod
    def lost_enable(modules: Modules) -> None:
        enabled = list(cells(modules, "SB_DFFE", "SB_DFFESR"))
        for cell in enabled[1:]:
            if cell["connections"]["E"] == enabled[0]["connections"]["E"]:
                cell["connections"]["E"] = ["1"]
        enabled[0]["connections"]["E"] = ["1"]

    @staticmethod
    def other_reset_value(modules: Modules) -> None:
        cell = first(modules, "SB_DFFSR")
        cell["type"], cell["connections"]["S"] = "SB_DFFSS", cell["connections"].pop("R")


class GowinBlocks:
    """Faults that both families of Gowin have; ``_rom`` is the kind of their block RAMs with contents."""

    _rom: str

    @classmethod
    def swapped_bytes(cls, modules: Modules) -> None:
        """Halves of bytes, which is what a word has here."""
        parameters = first(modules, cls._rom)["parameters"]
        _swapped(parameters, "INIT_RAM_", 9, lambda word: word[:1] + word[5:] + word[1:5])

    @classmethod
    def flipped_weight(cls, modules: Modules) -> None:
        parameters = first(modules, cls._rom)["parameters"]
        parameters["INIT_RAM_00"] = parameters["INIT_RAM_00"][:-1] + _flipped(parameters["INIT_RAM_00"][-1])

    @staticmethod
    def lost_enable(modules: Modules) -> None:
        enabled = list(cells(modules, "DFFE", "DFFRE"))
        net = enabled[0]["connections"]["CE"]
        for cell in enabled:
            if cell["connections"]["CE"] == net:
                cell["connections"]["CE"] = ["1"]


class Gowin(GowinBlocks):
    """Gowin LittleBee, whose multipliers have no registers here."""

    _rom = "SPX9"

    @staticmethod
    def unsigned_operand(modules: Modules) -> None:
        first(modules, "MULT9X9")["connections"]["ASIGN"] = ["0"]

    @staticmethod
    def upper_half_without_address(modules: Modules) -> None:
        ground = first(modules, "SPX9")["connections"]["WRE"]
        pins = first(modules, "SPX9")["connections"]["AD"]
        pins[max(k for k, net in enumerate(pins) if [net] != ground)] = "0"

    @staticmethod
    def inverted_reset(modules: Modules) -> None:
        name, module = next((name, module) for name, module in modules.items() if name != "top")
        pins = first({name: module}, "DFFR")["connections"]
        pins["RESET"] = [_inverted(module, pins["RESET"][0], "LUT1")]

    @staticmethod
    def flipped_payload(modules: Modules) -> None:
        _flip_payload(modules, "LUT1")

    @staticmethod
    def wrong_port(modules: Modules) -> None:
        pins = first(modules, "DPX9B")["connections"]
        pins["DOA"], pins["DOB"] = pins["DOB"], pins["DOA"]

    @staticmethod
    def register_too_many(modules: Modules) -> None:
        """Of a block RAM, behind what it reads."""
        first(modules, "SPX9")["parameters"]["READ_MODE"] = "1"

    @staticmethod
    def other_reset_value(modules: Modules) -> None:
        cell = first(modules, "DFFR")
        cell["type"], cell["connections"]["SET"] = "DFFS", cell["connections"].pop("RESET")


class AroraV(GowinBlocks):
    """Gowin Arora V."""

    _rom = "pROMX9"

    @staticmethod
    def unsigned_operand(modules: Modules) -> None:
        """A zero takes the place of the sign."""
        first(modules, "MULT12X12")["connections"]["A"][-1] = "0"

    @staticmethod
    def upper_half_without_address(modules: Modules) -> None:
        pins = first(modules, "pROMX9")["connections"]["AD"]
        pins[max(k for k, net in enumerate(pins) if net != "0")] = "0"

    @staticmethod
    def inverted_reset(modules: Modules) -> None:
        name, module = next((name, module) for name, module in modules.items() if name != "top")
        pins = first({name: module}, "DFFRE", _has_reset)["connections"]
        pins["RESET"] = [_inverted(module, pins["RESET"][0], "LUT1")]

    @staticmethod
    def flipped_payload(modules: Modules) -> None:
        _flip_payload(modules, "LUT1")

    @staticmethod
    def wrong_port(modules: Modules) -> None:
        pins = first(modules, "SDPX9B")["connections"]
        pins["ADA"], pins["ADB"] = pins["ADB"], pins["ADA"]

    @staticmethod
    def missing_register(modules: Modules) -> None:
        first(modules, "MULT12X12")["parameters"]["PREG_CLK"] = "BYPASS"

    @staticmethod
    def other_reset_value(modules: Modules) -> None:
        cell = first(modules, "DFFRE", _has_reset)
        cell["type"], cell["connections"]["SET"] = "DFFSE", cell["connections"].pop("RESET")


def faults(family: type) -> list[Fault]:
    return [getattr(family, name) for name in dir(family) if not name.startswith("_")]


FAULTS = {"ecp5": faults(Ecp5), "ice40": faults(Ice40), "gowin": faults(Gowin), "gw5a": faults(AroraV)}
