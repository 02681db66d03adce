"""Seconds and memory of a verdict on hardware, for what is large in one way or another: it may not grow without bound.

    python benchmarks/check_bounds.py [--limit SECONDS] [--memory MIB] [--json FILE] [MODEL.onnx ...]

Without a MODEL: networks that are drawn here (large images, large layers, moves of data that no chip holds). Each has a
process of its own, which reads it and schedules it for a board; it is ended at ``--limit`` seconds, and gets no more
than ``--memory``. The import of the program is not counted.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

Facts = dict[str, Any]
STEP = 0.05
"""The scale of all data."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--limit", type=float, default=120, help="seconds for each model")
    parser.add_argument("--memory", type=int, default=8192, help="MiB of addresses for each model")
    parser.add_argument("--json", type=Path, help="file for everything that was measured")
    options = parser.parse_args()
    rows: dict[str, Facts] = {}
    print(f"{'':44}{'seconds':>9}{'CPU':>7}{'MiB':>7}  verdict")
    with tempfile.TemporaryDirectory() as folder:
        for path in options.models or drawn_models(Path(folder)):
            facts = rows[str(path)] = watch(path, options.limit, options.memory)
            name = path.parent.name if path.stem == "model" else path.stem
            print(
                f"{name:44.44}{facts['seconds']:9.1f}{facts['cpu']:7.1f}{facts['mib']:7.0f}  {facts['verdict'][:150]}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def watch(path: Path, limit: float, memory: int) -> Facts:
    """What one model's process found out, or that it did not."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=measure, args=(there, path, memory), daemon=True)
    begin = time.perf_counter()
    process.start()
    there.close()
    facts: Facts = {"seconds": limit, "cpu": float("nan"), "mib": float("nan"), "verdict": "none in time"}
    try:
        if here.poll(limit + 5):  # it takes seconds to begin
            facts = here.recv()
    except EOFError:
        facts |= {"seconds": time.perf_counter() - begin, "verdict": "the process died"}
    process.terminate()
    process.join()
    return facts


def measure(pipe: Connection, path: Path, memory: int) -> None:
    from onnx_hw import flow
    from onnx_hw.runtime.options import BuildOptions

    resource.setrlimit(resource.RLIMIT_AS, (memory << 20, memory << 20))
    begin, begin_cpu = time.perf_counter(), time.process_time()
    try:
        error = flow.check_hardware(BuildOptions(path))
        verdict = "can be built" if error is None else " ".join(str(error).split())
    except MemoryError as failure:
        verdict = f"MemoryError: {failure}"
    seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    pipe.send(
        {
            "seconds": seconds,
            "cpu": cpu,
            "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "verdict": verdict,
        }
    )


# ---- the networks ---------------------------------------------------------------------------------------------------


def drawn_models(folder: Path) -> list[Path]:
    """Each kind, in the sizes that matter."""
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
    kinds: dict[str, Callable[[Path], Path]] = {
        **{f"convolutions_{n}": lambda path, n=n: convolutions(path, n) for n in (128, 256, 512, 1024)},
        **{f"image_to_image_{n}": lambda path, n=n: image_to_image(path, n) for n in (112, 224)},
        **{f"fully_connected_{n}": lambda path, n=n: fully_connected(path, n) for n in (1024, 4096)},
        **{f"enlarged_{n}": lambda path, n=n: enlarged(path, n) for n in (256, 65504)},
        **{f"broadcast_{n}": lambda path, n=n: broadcast(path, n) for n in (16, 64, 128)},
    }
    return [draw(folder / f"{name}.onnx") for name, draw in kinds.items()]


def convolutions(path: Path, size: int) -> Path:
    """Four of 3 × 3, on images of eight channels."""
    net = _sketch()
    value, channels = net.through_integers("x", STEP, 0), 3
    for outputs in (8, 8, 8, 3):
        value = net.through_integers(net.node("Relu", _conv(net, value, outputs, channels, 3)), STEP, -128)
        channels = outputs
    return net.write(path, (1, 3, size, size), value)


def image_to_image(path: Path, size: int) -> Path:
    """Super-resolution: four convolutions, and every pixel becomes nine."""
    net = _sketch()
    value, channels = net.through_integers("x", STEP, 0), 1
    for outputs, kernel in ((32, 5), (32, 3), (16, 3), (9, 3)):
        value = net.through_integers(net.node("Relu", _conv(net, value, outputs, channels, kernel)), STEP, -128)
        channels = outputs
    return net.write(path, (1, 1, size, size), net.node("DepthToSpace", value, blocksize=3))


def fully_connected(path: Path, size: int) -> Path:
    net = _sketch()
    integers = np.random.default_rng(size).integers(-128, 128, (size, size)).astype(np.int8)
    value = net.node("MatMul", net.through_integers("x", STEP, 0), net.dequantized(integers, np.float32(STEP)))
    return net.write(path, (1, size), net.through_integers(value, STEP, 0), rank=2)


def enlarged(path: Path, times: int) -> Path:
    """A Resize that makes very much of very little."""
    net = _sketch()
    scales = net.constant(np.float32([times, 1, 2, 2]))
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    value = net.node("Resize", net.through_integers("x", STEP, 0), "", scales, **how)
    return net.write(path, (1, 4, 4, 4), net.through_integers(value, STEP, 0))


def broadcast(path: Path, size: int) -> Path:
    """A matrix and its transpose, added to a tensor of four axes."""
    net = _sketch()
    value = net.through_integers("x", STEP, 0)
    value = net.node("Add", value, net.node("Transpose", value, perm=[3, 2, 1, 0]))
    return net.write(path, (1, 1, size, size), net.through_integers(value, STEP, 0))


def _sketch():  # type: ignore[no-untyped-def]
    from support.qdq_models import Sketch

    return Sketch()


def _conv(net, value: str, outputs: int, channels: int, kernel: int) -> str:  # type: ignore[no-untyped-def]
    generator = np.random.default_rng(outputs)
    integers = generator.integers(-128, 128, (outputs, channels, kernel, kernel)).astype(np.int8)
    weights = net.dequantized(integers, np.float32(0.01))
    return str(net.node("Conv", value, weights, pads=[kernel // 2] * 4))


if __name__ == "__main__":
    main()
