"""Compilation of a netlist to a shared library that runs in lockstep: yosys writes cells, then a C++ compiler takes
over.
"""

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
from onnx_hw_tools.compiled_files import compile_once
from onnx_hw_tools.process import Command, execute
from onnx_hw_tools.tools import Tool
from onnx_hw_tools.user_cache import user_cache

HERE = Path(__file__).parent
SOURCES = ("vectors.h", "bench.h", "driver.cpp")
CELLS = "cells.json"

RUNS = 4
"""Number of runs at once: vectors of 128 bits, which all processors have. With eight runs, all of them together would
be a sixth faster, but each one slower.
"""

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
    """Compile ``circuit`` in ``folder/<digest>`` and return the library. Return at once if it is already there.

    Args:
        jobs: number of compilers at a time; None for one per processor.
        on_first_run: see ``tools.run``.

    Raises:
        UnsupportedCircuit: a cell of the circuit is not known here.
        ToolMissing: yosys or a C++ compiler is not installed.
        ToolFailed: one of them failed.
    """
    compiler, yosys = tools.find("c++"), tools.find("yosys")
    build_folder = folder / _digest(circuit, compiler, yosys)
    parallel = jobs or os.cpu_count() or 1

    def make() -> None:
        (build_folder / "circuit.il").write_text(circuit.rtlil, encoding="utf-8")
        tools.run(
            yosys,
            ["-q", "-p", SCRIPT],
            cwd=build_folder,
            log=build_folder / "yosys.log",
            on_first_run=on_first_run,
            makes=[build_folder / VERILOG, build_folder / CELLS],
        )
        driver = _driver(compiler)
        objects = _compile(build_folder, circuit, compiler, parallel)
        arguments = ["-shared", "-fPIC", *map(str, [*objects, driver]), "-o", LIBRARY, "-pthread"]
        tools.run(compiler, arguments, cwd=build_folder, log=build_folder / "link.log", makes=[build_folder / LIBRARY])

    compile_once(build_folder, (LIBRARY, TABLES, VERILOG), make)
    return build_folder / LIBRARY


def _compile(build_folder: Path, circuit: Circuit, compiler: Tool, jobs: int) -> list[Path]:
    sources = program(read_netlist(build_folder / CELLS), circuit)
    sources.tables.tofile(build_folder / TABLES)
    (build_folder / HEADER).write_text(sources.header, encoding="utf-8")
    files = [("rest.cpp", REST_FLAGS, sources.rest)]
    for number, group in enumerate(_groups(sources.functions, jobs)):
        files.append((f"circuit{number}.cpp", CIRCUIT_FLAGS, "\n".join([f'#include "{HEADER}"', *group])))
    commands, objects = [], []
    for name, flags, text in files:
        (build_folder / name).write_text(text, encoding="utf-8")
        objects.append((build_folder / name).with_suffix(".o"))
        commands.append(_command(compiler, [*flags, f"-I{HERE}"], build_folder / name, objects[-1]))
    execute(commands, parallel=jobs)
    return objects


def _groups(functions: Sequence[str], count: int) -> list[list[str]]:
    """Divide the functions into groups of about equal length, with neighbours together."""
    total, groups, done = sum(map(len, functions)), [list[str]() for _ in range(count)], 0
    for function in functions:
        groups[done * count // max(1, total)].append(function)
        done += len(function)
    return [group for group in groups if group]


def _driver(compiler: Tool) -> Path:
    """Return the cycle loop as an object file, compiled once per machine and kept in the user's cache."""
    state = hashlib.sha256()
    for part in (compiler.version, processor(), *FLAGS, *DRIVER_FLAGS):
        state.update(part.encode() + b"\0")
    for name in SOURCES:
        state.update((HERE / name).read_bytes())
    cache_folder = user_cache() / "lockstep" / state.hexdigest()[:20]
    target = cache_folder / "driver.o"
    command = _command(compiler, [*DRIVER_FLAGS, f"-I{HERE}"], HERE / "driver.cpp", target)
    compile_once(cache_folder, [target.name], lambda: execute([command], parallel=1))
    return target


def _command(compiler: Tool, flags: Sequence[str], source: Path, target: Path) -> Command:
    arguments = [*FLAGS, *vectors_of(processor()), *flags, "-c", str(source), "-o", str(target)]
    return tools.command(compiler, arguments, cwd=target.parent, log=target.with_suffix(".log"))


@cache
def processor() -> str:
    """Return the processor's features as Linux lists them; empty on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("flags")), "")


def vectors_of(processor: str) -> list[str]:
    """Return compiler flags for the instructions that make vectors faster, if a processor has them."""
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
    """Return the contents of memories, which the library reads while it runs."""
    return np.fromfile(library.parent / TABLES, dtype=np.uint32)
