"""How many results of an average are one step away from onnxruntime's, where the scale is shared through it.

    python benchmarks/average_ties.py [N]

The mean of k integers is a tie in one of k cases, if k is even: exactly between two integers. Golden rounds it to the
even one before the zero point is added; float32 arithmetic falls to either side; onnxruntime's integer kernel, which
its optimizations choose, adds the zero point first. Draws N scales for each window and parity of the zero point, and
data of all integers. Says the share of ties, and of results that differ from onnxruntime's.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from onnx_hw import flow
from onnx_hw.ir import golden
from support.qdq_models import Sketch

WINDOWS = ((1, 2), (1, 3), (2, 2), (1, 5), (2, 3), (2, 4), (3, 3), (3, 4), (4, 4), (7, 7))
LEVELS = {
    "plain": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "optimized": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=12, metavar="N")
    count = parser.parse_args().count
    print(f"{'window':8} {'ties':>8} {'float32':>8} {'integer: even zero':>18} {'odd zero':>9} {'steps':>6}")
    for window in WINDOWS:
        even, odd = (np.mean([differing(window, seed, parity) for seed in range(count)], axis=0) for parity in (0, 1))
        ties, plain, _, worst = (even + odd) / 2
        name = f"{window[0]} x {window[1]}"
        print(f"{name:8} {ties:8.2%} {plain:8.2%} {even[2]:18.2%} {odd[2]:9.2%} {worst:6.1f}")


def differing(window: tuple[int, int], seed: int, parity: int) -> tuple[float, float, float, float]:
    """Shares of ties and of results unlike onnxruntime's, without and with optimizations; steps apart at most."""
    generator = np.random.default_rng(seed)
    scale, zero = np.float32(generator.uniform(0.005, 0.05)), 2 * int(generator.integers(-64, 64)) + parity
    shape = (1, 8, 24 * window[0], 24 * window[1])
    stored = generator.integers(-128, 128, shape)
    frames = {"x": ((stored - zero) * scale).astype(np.float32)[np.newaxis]}
    sketch = Sketch()
    y = sketch.node("AveragePool", sketch.through_integers("x", scale, zero), kernel_shape=window, strides=window)
    with tempfile.TemporaryDirectory() as place:
        path = sketch.write(Path(place) / "m.onnx", shape, sketch.through_integers(y, scale, zero))
        network = flow.quantize(flow.read(path))
        (exact,) = golden.run(network, frames).values()
        steps = [np.abs(np.rint((exact[0] - by_onnxruntime(path, frames["x"][0], level)) / scale)) for level in LEVELS]
    sums = stored.reshape(1, 8, 24, window[0], 24, window[1]).sum(axis=(3, 5))
    taps = window[0] * window[1]
    ties = (2 * (sums % taps) == taps).mean()
    return float(ties), *(float((apart > 0).mean()) for apart in steps), float(max(apart.max() for apart in steps))


def by_onnxruntime(path: Path, frame: np.ndarray, level: str) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": frame})
    return np.asarray(result)


if __name__ == "__main__":
    main()
