"""The simulator of netlists as a library: C++ that is compiled once per computer, and what every run passes to it."""

from __future__ import annotations

import ctypes
import hashlib
import platform
from functools import cache
from pathlib import Path

import numpy as np

from onnx_hw_sim.gates.cell_models import CellLibrary
from onnx_hw_sim.gates.program import GateProgram
from onnx_hw_tools import tools
from onnx_hw_tools.compiled_files import compile_once
from onnx_hw_tools.user_cache import user_cache

RUNS = 64
HERE = Path(__file__).parent
FLAGS = ["-std=c++17", "-O3", "-march=native", "-fPIC", "-shared", "-fvisibility=hidden", "-w"]
FLAGS += ["-fno-sanitize=undefined"]  # which ziglang switches on


def load(c: ctypes.CDLL, handle: int, built: GateProgram) -> list[np.ndarray]:
    """Pass a program to the library, and power up. The returned arrays must live as long as the run."""
    keep = []
    for kind, rows in enumerate(built.rows):
        row = np.ascontiguousarray(rows)
        c.gates_rows(handle, kind, row.ctypes.data, len(row))
        keep.append(row)
    c.gates_functions(handle, built.functions.ctypes.data, len(built.functions))
    for words in built.contents:
        c.gates_contents(handle, words.ctypes.data)
    c.gates_power_up(handle)
    return keep


def array_at(address: int | None, size: int) -> np.ndarray:
    """Return (size,) uint8 of the library's memory."""
    if not size or not address:
        return np.zeros(0, dtype=np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def fingerprint(library: CellLibrary) -> str:
    """Return the digest of all code that a result depends on: the simulator's, and that of the models of the cells."""
    state = hashlib.sha256()
    own = (file for file in sorted(HERE.glob("*")) if file.suffix in (".py", ".cpp", ".h"))
    for file in (*own, library.source):
        state.update(file.read_bytes())
    return state.hexdigest()


@cache
def native_library() -> ctypes.CDLL:
    """Return the library, compiled once per computer and kept in the user's cache."""
    compiler = tools.find("c++")
    sources = [HERE / f"{name}.cpp" for name in ("interpreter", "quiet", "simulation", "bench", "flash", "pins")]
    state = hashlib.sha256(f"{compiler.version} {FLAGS} {_processor()}".encode())
    for file in (*sources, HERE / "interpreter.h", HERE / "simulation.h", HERE / "flash.h"):
        state.update(file.read_bytes())
    folder = user_cache() / "gates" / state.hexdigest()[:20]
    library = folder / "gates.so"
    arguments = [*FLAGS, *map(str, sources), "-o", library.name]

    def make() -> None:
        tools.run(compiler, arguments, cwd=folder, log=folder / "compiler.log", makes=[folder / library.name])

    compile_once(folder, [library.name], make)
    return _declared(ctypes.CDLL(str(library)))


def _processor() -> str:
    """Return the processor's features that the compiler uses; several computers may share a cache."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    features = [line for line in lines if line.startswith(("flags", "Features", "isa"))]
    return platform.machine() + (features[0] if features else platform.processor())


def _declared(c: ctypes.CDLL) -> ctypes.CDLL:
    """Return the library with the signatures of its files."""
    pointer, i64, i32, u64 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_uint64
    signatures = {
        "open": (pointer, [i64, i32, u64]),
        "close": (None, [pointer]),
        "rows": (None, [pointer, i32, pointer, i64]),
        "functions": (None, [pointer, pointer, i64]),
        "contents": (None, [pointer, pointer]),
        "power_up": (None, [pointer]),
        "run": (None, [pointer, i64, i64, i64, i64, i32]),
        "source": (None, [pointer, pointer, i64, i32, i32, i64, i64, i64, pointer, pointer]),
        "offers": (None, [pointer, i32, pointer]),
        "sink": (None, [pointer, pointer, i64, i32, i32]),
        "ready": (None, [pointer, i32, pointer, i64, i64]),
        "watch": (None, [pointer, pointer, pointer, i64, i32, i64, i64]),
        "watched": (i64, [pointer, pointer]),
        "step": (None, [pointer, i64]),
        "transfers": (i64, [pointer, i32, i32]),
        "cycles_of": (pointer, [pointer, i32, i32]),
        "payload": (pointer, [pointer, i32, i32]),
    }
    pins = {
        "open": (pointer, [i64, u64, i64, i64, i32]),
        "uart": (None, [pointer, i32, i32]),
        "spi": (None, [pointer, i32, i32, i32, i32]),
        "pace": (None, [pointer, i32, i64]),
        "level": (i32, [pointer, i32, i32]),
        "window": (None, [pointer, i32, i32, i64, i64]),
        "watched": (None, [pointer, u64]),
        "send": (None, [pointer, i32, pointer, i64]),
        "drop": (None, [pointer, i32]),
        "word": (u64, [pointer, i32]),
        "state": (None, [pointer, pointer, pointer]),
        "take": (None, [pointer, i32, pointer]),
        "flash": (None, [pointer, pointer, i32, i64, pointer]),
        "flash_contents": (None, [pointer, i32, pointer, i64]),
        "flash_faults": (None, [pointer, pointer]),
    }
    named = {f"gates_{name}": each for name, each in signatures.items()}
    for name, (result, arguments) in (named | {f"pins_{name}": each for name, each in pins.items()}).items():
        function = getattr(c, name)
        function.restype, function.argtypes = result, arguments
    return c
