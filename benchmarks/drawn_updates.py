"""Retrainings of drawn networks: how many one circuit each would accept, and the nodes for which others are refused.

    nice python benchmarks/drawn_updates.py [--networks N] [--updates N] [--kinds trained,gated,encoder]

Each network is quantized with loadable weights. Then its weights are scaled and moved by random numbers, several times;
each time it is quantized anew, with ranges of its own, and brought into the form of the first. The requantizers and the
tables of sums are proven equal to the exact functions on the way; no circuit is simulated (``updates.py`` does that).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import onnx
from onnx_hw import flow
from onnx_hw.ir.network import Network
from onnx_hw.lower.declare_loadable import declare_like, declare_loadable
from onnx_hw.messages.errors import UserError
from onnx_hw.quantization.quantize import prepare_model, quantize_model
from onnx_hw.quantization.ranges.calibrate import SampleRanges
from onnx_hw.quantization.scheme import DEFAULT
from onnx_hw.runtime.options import ReadOptions
from support.random_gated_blocks import draw_gated_blocks
from support.random_trained_networks import drawn_network
from support.retrained import retrained
from support.transformers import encoder_layer

SAMPLES = 64

Drawn = tuple[str, onnx.ModelProto, dict[str, np.ndarray]]


def networks(kind: str, count: int, place: Path) -> Iterator[Drawn]:
    """Yield name, model and samples."""
    for seed in range(count):
        if kind == "trained":  # dense, convolutions, residual and depthwise ones in turn
            drawn = drawn_network(seed, SAMPLES)
            yield drawn.kind, drawn.model, {"x": drawn.samples}
        elif kind == "gated":
            blocks = draw_gated_blocks(seed)
            shape = (1, *blocks.samples.shape[2:])
            yield kind, blocks.sketch.model(shape, 1, blocks.output, 2, 1), {"x": blocks.samples}
        else:
            model = onnx.load(encoder_layer(place / "encoder.onnx", seed=seed))
            (given,) = model.graph.input
            shape = tuple(dimension.dim_value for dimension in given.type.tensor_type.shape.dim)
            samples = np.random.default_rng(seed).normal(0, 1, (SAMPLES, *shape)).astype(np.float32)
            yield kind, model, {given.name: samples}


def quantized(model: onnx.ModelProto, samples: dict[str, np.ndarray], place: Path) -> Network:
    """Return the integer network of a model, with constants that can be loaded."""
    onnx.save(model, place / "model.onnx")
    prepared = prepare_model(flow.read(place / "model.onnx", ReadOptions()).frame.model)
    return quantize_model(prepared, SampleRanges(samples, DEFAULT.ranges, None), DEFAULT, loadable=True).network


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=24)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--kinds", default="trained,gated,encoder")
    given = parser.parse_args()
    accepted, total, refused = Counter[str](), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for kind in given.kinds.split(","):
            for name, model, samples in networks(kind, given.networks, Path(folder)):
                built = declare_loadable(quantized(model, samples, Path(folder)))
                nodes = {node.origin[0] if node.origin else node.name: node.operator for node in built.nodes}
                for seed in range(1, given.updates + 1):
                    total[name] += 1
                    try:
                        declare_like(quantized(retrained(model, seed), samples, Path(folder)), built)
                        accepted[name] += 1
                    except UserError as error:
                        refused.update(type(nodes.get(problem.where)).__name__ for problem in error.problems)
    for name, count in total.items():
        print(f"{name}: {accepted[name]} of {count} accepted")
    if refused:
        print("refused for " + ", ".join(f"{name} ({count})" for name, count in refused.most_common()))


if __name__ == "__main__":
    main()
