"""The solver of the firing law in C: the same answers as the loop in ``timing.py``, some hundred times faster.

Compiled once per machine with whatever compiler there is; without one, the loop in Python serves.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from onnx_hw.timing import Track

SOURCE = Path(__file__).with_name("law.c")


class _Wait(ctypes.Structure):
    _fields_ = [("other", ctypes.c_int64), ("index", ctypes.c_void_p), ("delay", ctypes.c_int64)]


class _Track(ctypes.Structure):
    _fields_ = [
        ("count", ctypes.c_int64),
        ("done", ctypes.c_int64),
        ("times", ctypes.c_void_p),
        ("ready", ctypes.c_void_p),
        ("ready_length", ctypes.c_int64),
        ("waits", ctypes.c_int64),
        ("wait", ctypes.POINTER(_Wait)),
    ]


def solve(tracks: Sequence[Track]) -> bool:
    """Advance every track as far as possible; False if there is no compiler and nothing was done.

    ``tracks`` must contain every track that another one waits for.
    """
    library = _library()
    if library is None:
        return False
    number = {id(track): k for k, track in enumerate(tracks)}
    table = (_Track * len(tracks))()
    keep: list[object] = []
    for entry, track in zip(table, tracks, strict=True):
        waits = (_Wait * max(1, len(track.waits)))()
        for wait, (other, index, delay, _) in zip(waits, track.waits, strict=False):
            wait.other, wait.index, wait.delay = number[id(other)], index.ctypes.data, delay
        entry.count, entry.done = track.count, track.done
        entry.times = track.times.ctypes.data
        if track.ready is not None:
            ready = np.ascontiguousarray(track.ready, dtype=np.uint8)
            keep.append(ready)
            entry.ready, entry.ready_length = ready.ctypes.data, len(ready)
        entry.waits, entry.wait = len(track.waits), waits
        keep.append(waits)
    library.law_solve(table, ctypes.c_int64(len(tracks)))
    for entry, track in zip(table, tracks, strict=True):
        track.done = entry.done
    return True


@cache
def _library() -> ctypes.CDLL | None:
    """The compiled solver, from the user's cache; None without a compiler."""
    from onnx_hw_sim import tools
    from onnx_hw_sim.process import ToolFailed
    from onnx_hw_sim.user_cache import user_cache

    try:
        compiler = tools.find("c++")
    except tools.ToolMissing:
        return None
    name = hashlib.sha256(SOURCE.read_bytes() + compiler.version.encode()).hexdigest()[:20]
    place = user_cache() / f"law-{name}.so"
    if not place.exists():
        with tempfile.TemporaryDirectory(dir=place.parent) as folder:
            made = Path(folder) / "law.so"
            arguments = ["-x", "c++", "-O2", "-fPIC", "-shared", "-o", str(made), str(SOURCE)]
            try:
                tools.run(compiler, arguments, cwd=Path(folder), log=Path(folder) / "law.log")
            except ToolFailed:
                return None
            os.replace(made, place)
    library = ctypes.CDLL(str(place))
    library.law_solve.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.law_solve.restype = None
    return library
