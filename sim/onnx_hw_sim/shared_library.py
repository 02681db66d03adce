"""Compilation of a netlist to a shared library: yosys writes Verilog, Verilator C++, and a compiler does the rest.

It needs neither make nor perl: Verilator's own program is called directly, and its files are compiled here, several at
a time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from onnx_hw_sim.circuit import Circuit, Stream
from onnx_hw_sim.memory_contents import as_constants
from onnx_hw_tools import tools
from onnx_hw_tools.compiled_files import compile_once
from onnx_hw_tools.process import Command, execute
from onnx_hw_tools.tools import Tool, ToolFailed
from onnx_hw_tools.user_cache import user_cache

HERE = Path(__file__).parent
LIBRARY = "simulation.so"
VERILOG, FLAT = "yosys.v", "flat.v"

# One second of yosys makes the simulation a fifth faster; waveforms need every signal. Cleaning comes first and leaves
# one name where a signal has two: for a flip-flop that never changes, yosys removes the initial value under one name
# and stumbles over the other.
OPTIMISATION = "opt_clean; opt -fast"
OPTIMISATION_FOR_WAVES = "opt_clean"
# The simulated circuit is one module: cores compute some things alike, and their inner wires need no names. This saves
# a tenth of the code and a sixth of the time. The Verilog for readers has one module per core.
FLATTENING = "flatten; opt_merge; opt_clean -purge"
# -O3 here is Verilator's own optimisation. Its lint is for hand-written Verilog.
VERILATOR_FLAGS = ["-cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--no-timing", "--no-assert"]
VERILATOR_FLAGS += ["--threads", "1", "-Wno-lint", "-Wno-style", "-Wno-fatal"]
# Functions per file and statements per function: small enough that all processors have work.
VERILATOR_FLAGS += ["--output-split", "3000", "--output-split-cfuncs", "3000"]

# zig checks for undefined behaviour unless this is set.
COMMON_FLAGS = ["-std=c++17", "-fPIC", "-w", "-fno-sanitize=undefined"]
COMMON_FLAGS += ["-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TIMING=0"]
# Two circuits in one process must not share symbols of the same name: a C++ compiler marks static members as unique in
# the whole process, and the second circuit would compute with the weights of the first.
COMMON_FLAGS += ["-fvisibility=hidden"]
# The code of a circuit is one long straight line. -O2 takes twice as long and finds nothing in it that would run faster
# than with -O1 (tables are data, not code).
CIRCUIT_FLAGS = ["-O1"]
# Nor do these passes of GCC help; each of them searches the whole line again for every statement: 45 % of -O1.
SLOW_PASSES_OF_GCC = ["-fno-tree-dse", "-fno-tree-fre", "-fno-tree-sink"]
ONCE_FLAGS = ["-O0"]  # for code that runs once: constructors, initial values
MIN_BYTES_RUN_ONCE = 1_000_000  # code that runs once gets a compiler of its own above this size
RUNTIME_FLAGS = ["-O2"]
USER_HOOKS = ["-DVL_USER_FATAL", "-DVL_USER_STOP", "-DVL_USER_FINISH"]


@dataclass(frozen=True)
class CppToolchain:
    """Tools of a compiled simulation."""

    yosys: Tool
    verilator: Tool
    compiler: Tool

    @classmethod
    def find(cls) -> CppToolchain:
        """Find the three tools.

        Raises:
            ToolMissing: the compiler first: without a compiler, ``interpreted`` is the alternative.
        """
        return cls(compiler=tools.find("c++"), verilator=tools.find("verilator"), yosys=tools.find("yosys"))

    @property
    def include(self) -> Path:
        """Folder of Verilator's headers and runtime."""
        return Path(dict(self.verilator.environment)["VERILATOR_ROOT"]) / "include"

    @property
    def versions(self) -> dict[str, str]:
        return {tool.name: tool.version for tool in (self.yosys, self.verilator, self.compiler)}


@dataclass(frozen=True)
class BoundDriver:
    """Driver that moves the ports of a circuit.

    Attributes:
        text: the C++ file that tells the driver the addresses of the ports.
        driver, header: files of this folder: the driver, compiled once per machine, and its interface to the ports.
    """

    text: str
    driver: str = "driver.cpp"
    header: str = "bench.h"


def build_library(
    circuit: Circuit,
    folder: Path,
    *,
    bound: BoundDriver | None = None,
    traced: bool = False,
    jobs: int | None = None,
    toolchain: CppToolchain | None = None,
    on_first_run: Callable[[Tool], None] | None = None,
) -> Path:
    """Compile ``circuit`` in ``folder/<digest>`` and return the library. Return at once if it is already there.

    Args:
        bound: the driver of the ports; None for the driver of streams.
        traced: whether the library can write waveforms; it is slower then, hence a library of its own.
        jobs: number of compilers at a time; None for one per processor.
        toolchain: the tools; None to search for them.
        on_first_run: see ``tools.run``.

    Raises:
        ToolMissing: a tool is not installed.
        ToolFailed: a tool failed.
    """
    chain = toolchain or CppToolchain.find()
    jobs = jobs or os.cpu_count() or 1
    bound = bound or BoundDriver(binding(circuit, traced))
    build_folder = folder / _digest(circuit, bound, chain, traced)

    def make() -> None:
        (build_folder / "circuit.il").write_text(circuit.rtlil, encoding="utf-8")
        _write_verilog(build_folder, chain.yosys, traced, on_first_run)
        _write_cpp(build_folder, chain.verilator, traced)
        (build_folder / "binding.cpp").write_text(bound.text, encoding="utf-8")
        runtime = _runtime_objects(chain, bound, traced, jobs)
        objects = _compile_circuit(build_folder, chain, traced, jobs)
        _link(build_folder, chain.compiler, [*objects, *runtime])

    compile_once(build_folder, (LIBRARY, VERILOG), make)
    return build_folder / LIBRARY


def binding(circuit: Circuit, traced: bool = False) -> str:
    """Return the C++ file that tells the driver the addresses of this circuit's ports."""
    streams = (*circuit.sources, *circuit.sinks, *circuit.probes)
    fires = "&top.fires, sizeof(top.fires)" if circuit.engines else "nullptr, 0"
    counts = f"{len(circuit.sources)}, {len(circuit.sinks)}, {len(circuit.probes)}"
    open_wave = [
        "        if (!file || !*file) return;",
        "        context.traceEverOn(true);",
        "        top.trace(&wave, 99);",
        "        wave.open(file);",
        "        bench.dump = [](void* self, uint64_t time) { static_cast<Binding*>(self)->wave.dump(time); };",
    ]
    lines = [
        '#include "Vtop.h"',
        '#include "bench.h"',
        '#include "verilated_vcd_c.h"' if traced else "",
        "struct Binding {",
        "    VerilatedContext context;",
        "    Vtop top{&context};",
        "    VerilatedVcdC wave;" if traced else "",
        f"    Port ports[{len(streams)}] = {{",
        *(f"        {_port(stream)}," for stream in streams),
        "    };",
        "    Bench bench{[](void* self) { static_cast<Binding*>(self)->top.eval(); }, nullptr, this,",
        f"        &top.clk, &top.rst, {fires}, {counts}, ports}};",
        "    explicit Binding(const char* file) {",
        *(open_wave if traced else []),
        "    }",
        "    ~Binding() {",
        "        if (bench.dump) wave.close();" if traced else "",
        "        top.final();",
        "    }",
        "};",
        "const Bench* bench_open(const char* wave_file) { return &(new Binding(wave_file))->bench; }",
        "void bench_close(const Bench* bench) { delete static_cast<Binding*>(bench->model); }",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _port(stream: Stream) -> str:
    payload, valid, ready = (_member(f"{stream.name}_{signal}") for signal in ("payload", "valid", "ready"))
    return f"{{&top.{payload}, sizeof(top.{payload}), &top.{valid}, &top.{ready}}}"


def _member(port: str) -> str:
    """Return Verilator's name of a port in C++, where ``__`` would clash with its own names."""
    return port.replace("__", "___05F")


def _digest(circuit: Circuit, bound: BoundDriver, chain: CppToolchain, traced: bool) -> str:
    state = hashlib.sha256()
    for part in (
        circuit.rtlil,
        bound.text,
        _script(traced),
        *(f"{name} {version}" for name, version in chain.versions.items()),
        *(VERILATOR_FLAGS + COMMON_FLAGS + CIRCUIT_FLAGS + SLOW_PASSES_OF_GCC + ONCE_FLAGS),
        (HERE / bound.driver).read_text(encoding="utf-8"),
        (HERE / bound.header).read_text(encoding="utf-8"),
        (HERE / "memory_contents.py").read_text(encoding="utf-8"),
    ):
        state.update(part.encode() + b"\0")
    return state.hexdigest()[:20]


def _write_verilog(build_folder: Path, yosys: Tool, traced: bool, on_first_run: Callable[[Tool], None] | None) -> None:
    arguments = ["-q", "-p", _script(traced)]
    tools.run(yosys, arguments, cwd=build_folder, log=build_folder / "yosys.log", on_first_run=on_first_run)
    netlist = as_constants((build_folder / (VERILOG if traced else FLAT)).read_text(encoding="utf-8"))
    (build_folder / "circuit.v").write_text(netlist, encoding="utf-8")


def _script(traced: bool) -> str:
    if traced:
        return f"read_rtlil circuit.il; proc; {OPTIMISATION_FOR_WAVES}; write_verilog -noattr {VERILOG}"
    named = f"read_rtlil circuit.il; proc; {OPTIMISATION}; write_verilog -noattr {VERILOG}"
    return f"{named}; {FLATTENING}; write_verilog -noattr {FLAT}"


def _write_cpp(build_folder: Path, verilator: Tool, traced: bool) -> None:
    arguments = [*VERILATOR_FLAGS, "--top-module", "top", "--prefix", "Vtop", "--Mdir", "cpp"]
    if traced:
        arguments += ["--trace-vcd", "--timescale", "1ns/1ns"]
    tools.run(verilator, [*arguments, "circuit.v"], cwd=build_folder, log=build_folder / "verilator.log")


def _compile_circuit(build_folder: Path, chain: CppToolchain, traced: bool, jobs: int) -> list[Path]:
    """Compile all files of the circuit, in one group for each compiler at work, or in fewer for a small circuit.

    Each group pays for the headers once, which is most of the time of a small file: ``min_bytes`` bytes of C++
    compile in about the time that the headers take. GCC precompiles the headers; code that runs once then goes into the
    first group, unless it is large.
    """
    files = [build_folder / "binding.cpp", *sorted((build_folder / "cpp").glob("*.cpp"))]
    once = [file for file in files if "__Slow" in file.name]
    often = [file for file in files if file not in once]
    include = [f"-I{HERE}", *_includes(chain), *_trace_flags(traced)]
    gcc = _is_gcc(chain.compiler)
    circuit_flags = [*CIRCUIT_FLAGS, *(SLOW_PASSES_OF_GCC if gcc else [])]
    ready = _headers(chain, [*circuit_flags, *include]) if gcc and not traced else None
    with_first = ready is not None and sum(file.stat().st_size for file in once) < MIN_BYTES_RUN_ONCE
    commands, objects = [], []
    for kind, flags, min_bytes, members in (
        ("circuit", [*circuit_flags, *(["-include", str(ready)] if ready else [])], 100_000, often),
        ("once", ONCE_FLAGS, MIN_BYTES_RUN_ONCE, [] if with_first else once),
    ):
        for number, group in enumerate(_groups(members, jobs, min_bytes)):
            source, target = build_folder / f"{kind}{number}.cpp", build_folder / f"{kind}{number}.o"
            included = "".join(f'#include "{file.relative_to(build_folder)}"\n' for file in group)
            if with_first and number == 0:
                included += '#pragma GCC optimize("O0")\n'
                included += "".join(f'#include "{file.relative_to(build_folder)}"\n' for file in once)
            source.write_text(included, encoding="utf-8")
            arguments = [*flags, f"-I{build_folder}", f"-I{build_folder / 'cpp'}", *include]
            commands.append(_compile(chain.compiler, arguments, source, target))
            objects.append(target)
    execute(commands, parallel=jobs)
    return objects


def _is_gcc(compiler: Tool) -> bool:
    """Return whether a compiler is GCC, which takes a compiled header or the text next to it; others fail."""
    return compiler.version.startswith(("g++", "gcc", "c++ (GCC", "c++ (Debian", "c++ (Ubuntu"))


def _headers(chain: CppToolchain, flags: list[str]) -> Path | None:
    """Return Verilator's headers, compiled once per machine and kept in the user's cache; None if that fails."""
    state = hashlib.sha256()
    for part in (chain.compiler.version, chain.verilator.version, *COMMON_FLAGS, *USER_HOOKS, *flags):
        state.update(part.encode() + b"\0")
    cache_folder = user_cache() / "headers" / state.hexdigest()[:20]
    text, compiled = cache_folder / "headers.h", cache_folder / "headers.h.gch"

    def make() -> None:
        text.write_text('#include "verilated.h"\n', encoding="utf-8")
        execute([_compile(chain.compiler, [*flags, "-x", "c++-header"], text, compiled)], parallel=1)

    try:
        compile_once(cache_folder, [text.name, compiled.name], make)
    except (ToolFailed, OSError):
        return None
    return text


def _groups(files: list[Path], most: int, least_bytes: int) -> list[list[Path]]:
    """Divide the files into at most ``most`` groups of about equal size, of at least ``least_bytes`` if possible."""
    sizes = {file: file.stat().st_size for file in files}
    count = max(1, min(most, sum(sizes.values()) // least_bytes))
    groups: list[list[Path]] = [[] for _ in range(count)]
    for file in sorted(files, key=lambda file: (-sizes[file], file.name)):
        min(groups, key=lambda group: sum(sizes[f] for f in group)).append(file)
    return [group for group in groups if group]


def _runtime_objects(chain: CppToolchain, bound: BoundDriver, traced: bool, jobs: int) -> list[Path]:
    """Return Verilator's runtime and our driver as objects, compiled once per machine and kept in the user's cache.

    The runtime is the same for all drivers, and in all checkouts.
    """
    runtime = [chain.include / "verilated.cpp", chain.include / "verilated_threads.cpp"]
    if traced:
        runtime.append(chain.include / "verilated_vcd_c.cpp")
    flags = [*RUNTIME_FLAGS, *_includes(chain), *_trace_flags(traced)]
    ours = [*flags, f"-I{HERE}"]
    return [
        *_cached_objects(chain, flags, runtime, [], jobs),
        *_cached_objects(chain, ours, [HERE / bound.driver], [HERE / bound.header], jobs),
    ]


def _cached_objects(
    chain: CppToolchain, flags: list[str], sources: list[Path], headers: list[Path], jobs: int
) -> list[Path]:
    """Return objects in the user's cache, compiled if they are not there."""
    state = hashlib.sha256()
    for part in (chain.compiler.version, chain.verilator.version, *COMMON_FLAGS, *USER_HOOKS, *flags):
        state.update(part.encode() + b"\0")
    for file in (*sources, *headers):
        state.update(file.read_bytes())
    cache_folder = user_cache() / "runtime" / state.hexdigest()[:20]
    objects = [cache_folder / f"{file.stem}.o" for file in sources]
    commands = [_compile(chain.compiler, flags, *pair) for pair in zip(sources, objects, strict=True)]
    compile_once(cache_folder, [target.name for target in objects], lambda: execute(commands, parallel=jobs))
    return objects


def _includes(chain: CppToolchain) -> list[str]:
    return [f"-I{chain.include}", f"-I{chain.include / 'vltstd'}"]


def _trace_flags(traced: bool) -> list[str]:
    return [f"-DVM_TRACE={int(traced)}", f"-DVM_TRACE_VCD={int(traced)}", "-DVM_TRACE_FST=0"]


def _compile(compiler: Tool, flags: list[str], source: Path, target: Path) -> Command:
    arguments = [*COMMON_FLAGS, *USER_HOOKS, *flags, "-c", str(source), "-o", str(target)]
    return tools.command(compiler, arguments, cwd=target.parent, log=target.with_suffix(".log"))


def _link(build_folder: Path, compiler: Tool, objects: list[Path]) -> None:
    arguments = ["-shared", "-fPIC", *map(str, objects), "-o", LIBRARY, "-pthread"]
    tools.run(compiler, arguments, cwd=build_folder, log=build_folder / "link.log")
