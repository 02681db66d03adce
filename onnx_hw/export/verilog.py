"""Portable Verilog, without vendor cells: what yosys writes, with plain names and only streams for ports."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_hw.messages.version import __version__

if TYPE_CHECKING:
    from onnx_hw_tools.tools import Tool

MAX_MODULE_NAME = 40  # characters

_MODULE = re.compile(r"^module (\\top\.\S+) ", re.MULTILINE)
_USED = re.compile(r"\\top\.\S+ ")
_TOP = re.compile(r"^module top\([^;]*\);\n(?P<body>.*?)^endmodule\n", re.MULTILINE | re.DOTALL)
_PORT = re.compile(r"^  (?:input|output) (?:(?:signed )?\[\d+:\d+\] |signed )?(?P<name>[^\s;]+) ?;\n", re.MULTILINE)


def module_name(name: str) -> str:
    """Return the module name for the circuit of a model; no keyword of Verilog ends with ``_core``.

    >>> module_name("ResNet-8 (int8)")
    'resnet_8_int8_core'
    """
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower())[:MAX_MODULE_NAME].strip("_")
    return f"{plain if plain[:1].isalpha() else f'model_{plain}'.rstrip('_')}_core"


def of_rtlil(
    rtlil: str,
    module: str,
    ports: Sequence[str],
    folder: Path,
    *,
    on_first_run: Callable[[Tool], None] | None = None,
) -> str:
    """Return portable Verilog of a circuit in RTLIL, module ``top``.

    Args:
        ports: as in ``portable``.
        folder: where yosys works and leaves its log.

    Raises:
        ToolMissing, ToolFailed: yosys is missing, or failed.
    """
    from onnx_hw_sim.shared_library import OPTIMISATION
    from onnx_hw_tools import tools

    yosys = tools.find("yosys")
    (folder / "circuit.il").write_text(rtlil, encoding="utf-8")
    script = f"read_rtlil circuit.il; proc; {OPTIMISATION}; write_verilog -noattr yosys.v"
    tools.run(yosys, ["-q", "-p", script], cwd=folder, log=folder / "yosys.log", on_first_run=on_first_run)
    return portable((folder / "yosys.v").read_text(encoding="utf-8"), module, ports)


def portable(text: str, module: str, ports: Sequence[str]) -> str:
    """Return the Verilog that yosys has written for a circuit, made fit for somebody else's design.

    Args:
        module: name of the top module, and prefix of the names of all others.
        ports: the ports that ``top`` keeps, in the order in which they are declared. Its other ports become wires of
            the same names, so that a bench can see them.

    Raises:
        ValueError: there is no module ``top``, or no such port.
    """
    names: dict[str, str] = {}
    for old in dict.fromkeys(_MODULE.findall(text)):
        plain = module + re.sub(r"[^A-Za-z0-9_]+", "_", old.removeprefix("\\top").replace(".", "__"))
        while plain in names.values():
            plain += "_"
        names[old] = plain
    text = _USED.sub(lambda used: f"{names.get(used[0][:-1], used[0][:-1])} ", text)
    top = _TOP.search(text)
    if top is None:
        raise ValueError("there is no module `top`")
    known = {port["name"] for port in _PORT.finditer(top["body"])}
    if missing := [port for port in ports if port not in known]:
        raise ValueError(f"`top` has no port {', '.join(missing)}")
    body = _PORT.sub(lambda port: port[0] if port["name"] in ports else "", top["body"])
    listed = ",\n  ".join(ports)
    others = text[top.end() :].lstrip("\n")
    return f"{_HEAD}\nmodule {module}(\n  {listed}\n);\n{body}endmodule\n\n{others}"


def instance(module: str, wires: Mapping[str, str]) -> str:
    """Return Verilog to copy: a wire for every port, and the instance ``network``.

    Args:
        module: name of the module.
        wires: declaration of a wire by the name of its port, for all ports but clock and reset.
    """
    head = "// Connect clk and rst yourself: rst is active high and synchronous to clk."
    declarations = "\n".join(wires.values())
    ports = ",\n  ".join(f".{name}({name})" for name in ("clk", "rst", *wires))
    return f"{head}\n{declarations}\n\n{module} network (\n  {ports}\n);\n"


_HEAD = f"""// Written by onnx-hw {__version__}. Verilog-2005, without vendor cells: synthesis infers memories and
// multipliers. README.md describes the streams and their timing.
"""
