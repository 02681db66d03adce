"""From a netlist to a shared library of runs in lockstep: yosys writes cells, a C++ compiler does the rest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from onnx_hw_sim.circuit import Circuit
from onnx_hw_sim.lockstep.netlist import read_netlist
from onnx_hw_sim.lockstep.program import HEADER, TABLES, program
from onnx_hw_sim.shared_library import FLATTENING, LIBRARY, OPTIMISATION, VERILOG
from onnx_hw_tools import tools
from onnx_hw_tools.process import Command, execute
from onnx_hw_tools.tools import Tool
from onnx_hw_tools.user_cache import exclusively, user_cache

HERE = Path(__file__).parent
SOURCES = ("vectors.h", "bench.h", "driver.cpp")
CELLS = "cells.json"

RUNS = 4
"""At once: vectors of 128 bits, which all processors have. Eight would be a sixth faster together, and each slower."""

FLAGS = ["-std=c++17", "-fPIC", "-w", "-fno-sanitize=undefined", "-fvisibility=hidden", "-fno-strict-aliasing"]
FLAGS += [f"-DRUNS={RUNS}"]
CIRCUIT_FLAGS, REST_FLAGS, DRIVER_FLAGS = ["-O1"], ["-O0"], ["-O2"]

SCRIPT = (
    f"read_rtlil circuit.il; proc; {OPTIMISATION}; write_verilog -noattr {VERILOG}; "
    f"{FLATTENING}; memory_collect; write_json {CELLS}"
)


def build_lockstep(
    circuit: Circuit,
    folder: Path,
    *,
    jobs: int | None = None,
    on_first_run: Callable[[Tool], None] | None = None,
) -> Path:
    """Compile ``circuit`` in ``folder/<digest>`` and return the library; at once if it is already there.

    Args:
        jobs: compilers at a time; all processors by default.

    Raises:
        NotModelled: a cell that nobody knows here.
        ToolMissing, ToolFailed: as their names say.
    """
    compiler, yosys = tools.find("c++"), tools.find("yosys")
    place = folder / _digest(circuit, compiler, yosys)
    library = place / LIBRARY
    if library.exists():
        return library
    place.mkdir(parents=True, exist_ok=True)
    jobs = jobs or os.cpu_count() or 1
    with exclusively(place / "lock"):
        if library.exists():
            return library
        (place / "circuit.il").write_text(circuit.rtlil, encoding="utf-8")
        tools.run(yosys, ["-q", "-p", SCRIPT], cwd=place, log=place / "yosys.log", on_first_run=on_first_run)
        driver = _driver(compiler)
        objects = _compile(place, circuit, compiler, jobs)
        arguments = ["-shared", "-fPIC", *map(str, [*objects, driver]), "-o", f"{LIBRARY}.new", "-pthread"]
        tools.run(compiler, arguments, cwd=place, log=place / "link.log")
        os.replace(place / f"{LIBRARY}.new", library)
    return library


def _compile(place: Path, circuit: Circuit, compiler: Tool, jobs: int) -> list[Path]:
    made = program(read_netlist(place / CELLS), circuit)
    made.tables.tofile(place / TABLES)
    (place / HEADER).write_text(made.header, encoding="utf-8")
    files = [("rest.cpp", REST_FLAGS, made.rest)]
    for number, group in enumerate(_groups(made.functions, jobs)):
        files.append((f"circuit{number}.cpp", CIRCUIT_FLAGS, "\n".join([f'#include "{HEADER}"', *group])))
    commands, objects = [], []
    for name, flags, text in files:
        (place / name).write_text(text, encoding="utf-8")
        objects.append((place / name).with_suffix(".o"))
        commands.append(_command(compiler, [*flags, f"-I{HERE}"], place / name, objects[-1]))
    execute(commands, parallel=jobs)
    return objects


def _groups(functions: Sequence[str], count: int) -> list[list[str]]:
    """About equally long, neighbours together."""
    total, groups, done = sum(map(len, functions)), [list[str]() for _ in range(count)], 0
    for function in functions:
        groups[done * count // max(1, total)].append(function)
        done += len(function)
    return [group for group in groups if group]


def _driver(compiler: Tool) -> Path:
    """The cycle loop as an object: compiled once per machine, kept in the user's cache."""
    state = hashlib.sha256()
    for part in (compiler.version, processor(), *FLAGS, *DRIVER_FLAGS):
        state.update(part.encode() + b"\0")
    for name in SOURCES:
        state.update((HERE / name).read_bytes())
    place = user_cache() / "lockstep" / state.hexdigest()[:20]
    target = place / "driver.o"
    if target.exists():
        return target
    with exclusively(place / "lock"):
        if not target.exists():
            fresh = place / "driver.new.o"
            execute([_command(compiler, [*DRIVER_FLAGS, f"-I{HERE}"], HERE / "driver.cpp", fresh)], parallel=1)
            os.replace(fresh, target)
    return target


def _command(compiler: Tool, flags: Sequence[str], source: Path, target: Path) -> Command:
    arguments = [*FLAGS, *vectors_of(processor()), *flags, "-c", str(source), "-o", str(target)]
    return tools.command(compiler, arguments, cwd=target.parent, log=target.with_suffix(".log"))


@cache
def processor() -> str:
    """What this machine's processor can do, as Linux lists it; empty where nobody says."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("flags")), "")


def vectors_of(processor: str) -> list[str]:
    """Flags for the instructions that make vectors faster, where a processor has them."""
    return [f"-m{name}" for name in ("avx2",) if name in processor.split()]


def _digest(circuit: Circuit, compiler: Tool, yosys: Tool) -> str:
    state = hashlib.sha256()
    flags = [*FLAGS, *vectors_of(processor()), *CIRCUIT_FLAGS, *REST_FLAGS, *DRIVER_FLAGS]
    for part in (circuit.rtlil, SCRIPT, f"{compiler.name} {compiler.version}", f"{yosys.name} {yosys.version}", *flags):
        state.update(part.encode() + b"\0")
    for file in (*sorted(HERE.glob("*.py")), *(HERE / name for name in SOURCES)):
        state.update(file.read_bytes())
    for stream in (*circuit.sources, *circuit.sinks, *circuit.probes):
        state.update(f"{stream.name} {stream.width}\0".encode())
    return state.hexdigest()[:20]


def tables_of(library: Path) -> np.ndarray:
    """The contents of memories, that the library reads while it runs."""
    return np.fromfile(library.parent / TABLES, dtype=np.uint32)
