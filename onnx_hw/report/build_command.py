"""Command line of a build, from the options that it was asked for."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from onnx_hw.report.build_request import flat
from onnx_hw.runtime.options import BuildOptions

VALUES = {
    "board": "--board",
    "out": "--out",
    "inputs": "--inputs",
    "calibration": "--calibration",
    "resize": "--resize",
    "folding": "--folding",
    "multipliers": "--multipliers",
    "fps": "--fps",
    "latency_us": "--latency",
    "fastest": "--fastest",
    "clock_mhz": "--clock",
    "weights": "--weights",
    "memory": "--memory",
    "stop_after": "--stop-after",
    "seed": "--seed",
    "store": "--store",
}
"""Options with a value, by their field; in the order of a command."""

FLAGS = {
    "random_calibration": "--random-calibration",
    "waves": "--waves",
    "witness": "--no-witness",
    "gate_level": "--no-gate-level",
    "bitstream_check": "--no-bitstream-check",
}
"""Options without a value, by the field that differs from its default where they are given."""

READING_FLAGS = ("streaming", "strict", "lenient", "newer")
QUANTIZING = {
    "output": "--output-kind",
    "precision": "--precision",
    "sqnr": "--sqnr",
    "accuracy_loss": "--accuracy-loss",
}


def build_command(options: Mapping[str, Any], *, without: tuple[str, ...] = ()) -> str:
    """Return the command that asks for a build once more; paths below the current folder are relative.

    Args:
        options: fields as ``report.json`` has them, see ``build_request.flat``; those of an older report may be fewer.
        without: fields that are left out, such as ``stop_after``.
    """
    defaults = flat(BuildOptions(model=Path(options["model"])))
    asked = {name: value for name, value in options.items() if name not in without and value != defaults[name]}
    words = ["onnx-hw", "build", spelled_value(options["model"])]
    for name, option in VALUES.items():
        if name in asked:
            words += [option, spelled_value(asked[name])]
    words += [option for name, option in FLAGS.items() if name in asked]
    words += _quantizing(asked.get("quantizing", {}))
    words += _reading(asked.get("reading", {}))
    return shlex.join(words)


def _quantizing(asked: Mapping[str, Any]) -> Iterator[str]:
    bits = ",".join(f"{name}={asked[name]}" for name in ("weights", "data") if asked.get(name) is not None)
    if bits:
        yield from ("--bits", bits)
    for name, option in QUANTIZING.items():
        if asked.get(name) is not None:
            yield from (option, spelled_value(asked[name]))


def _reading(asked: Mapping[str, Any]) -> Iterator[str]:
    for names in asked.get("cut_at", ()):
        yield from ("--cut-at", names)
    for pair in asked.get("state", ()):
        yield from ("--state", pair)
    for name, size in asked.get("dimensions", {}).items():
        yield from ("--dim", f"{name}={size}")
    yield from (f"--{name}" for name in READING_FLAGS if asked.get(name))


def spelled_value(value: Any) -> str:
    """Return a value as an argument; a path that lies below the current folder is relative to it."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if not os.path.isabs(text):
        return text
    try:
        return text.removeprefix(os.getcwd() + os.sep)
    except FileNotFoundError:  # the current folder has been removed
        return text
