"""Comparisons of what a build made, kept beside it: of an identical build they need not be done again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np

from onnx_hw.messages.version import __version__
from onnx_hw.runtime.build_folder import BuildFolder

_STORED = "found.json"


class Comparison(Protocol):
    """Interface of a dataclass that says whether something agrees, and whether an earlier build knew it."""

    @property
    def cached(self) -> bool: ...
    @property
    def agrees(self) -> bool: ...


T = TypeVar("T", bound=Comparison)

PACKAGES = ("onnx_hw", "onnx_hw_link", "onnx_hw_sim", "onnx_hw_boards")
"""Packages that state, make or compare results: golden, the law of timing, the driver, hosts, the models of cells."""


def compared_once(
    build: BuildFolder,
    stage: str,
    inputs: Mapping[str, Any],
    integers: Mapping[str, np.ndarray],
    kind: type[T],
    compare: Callable[[], T],
) -> T:
    """Return a comparison, or the stored one of an earlier, identical build; only agreement is stored.

    Args:
        stage: folder in the build.
        inputs: everything that the result depends on besides the frames and the code of onnx-hw.
        integers: frames by input tensor, (frames, height, width, channels).
        kind: the dataclass of the result.
        compare: compares; what it raises is passed on.
    """
    results: list[T] = []

    def make(folder: Path) -> None:
        results.append(compare())
        if not results[0].agrees:
            raise _Differs
        (folder / _STORED).write_bytes(msgspec.json.encode(results[0]))

    frames = {tensor: hashlib.sha256(array.tobytes()).hexdigest() for tensor, array in integers.items()}
    try:
        made = build.stage(stage, {**inputs, "frames": frames, "onnx-hw": __version__, "code": code_digest()}, make)
    except _Differs:
        return results[0]
    stored = msgspec.json.decode((made.folder / _STORED).read_bytes(), type=kind)
    return replace(stored, cached=made.cached)  # type: ignore[type-var]


@cache
def code_digest() -> str:
    """Return the digest of all code of ``PACKAGES``.

    A netlist may stay as it is while golden or the driver changes, so agreement is that of one code alone.
    """
    state = hashlib.sha256()
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None
        for file in sorted(Path(spec.origin).parent.rglob("*.py")):
            state.update(file.read_bytes())
    return state.hexdigest()


class _Differs(Exception):
    """Something differs, so the result is not stored."""
