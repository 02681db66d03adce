"""Does the judge of weights and biases call sound choices faults, and faults sound?

    nice python benchmarks/judged_quantizers.py MODELS [--seeds N]

MODELS holds a folder per model (``model.onnx``, ``inputs.npz``). Each float model is quantized as in a build, and its
products are judged; so are N drawn gated blocks, spectrograms and trained networks each, these also with weights of 2
and 3 bits. Then the models of MODELS are quantized with weights that are rounded down, and towards 0.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import onnx
from onnx_hw import flow
from onnx_hw.messages.errors import UserError
from onnx_hw.prove.model.product_judge import judge_products
from onnx_hw.quantization import gptq_rounding
from onnx_hw.quantization.ranges.calibrate import SampleRanges
from onnx_hw.quantization.scheme import Precision, Scheme
from support.onnx_oracle import write
from support.random_gated_blocks import draw_gated_blocks
from support.random_spectrograms import draw_spectrogram
from support.random_trained_networks import drawn_network

SCHEMES = (None, Scheme(weights=Precision(3), data=Precision(6)), Scheme(weights=Precision(2), data=Precision(4)))

Case = tuple[Path, Mapping[str, np.ndarray], Scheme | None]


def of_the_field(folder: Path) -> Iterator[Case]:
    for model in sorted(folder.glob("*/model.onnx")):
        if (samples := model.with_name("inputs.npz")).exists():
            with np.load(samples) as opened:
                yield model, dict(opened), None


def drawn(seeds: int, folder: Path) -> Iterator[Case]:
    for seed in range(seeds):
        for draw in (draw_gated_blocks, draw_spectrogram):
            made = draw(seed)
            path = write(made.sketch, folder / f"{draw.__name__}{seed}.onnx", {"x": made.shapes["x"]}, made.output)
            yield path, {"x": made.samples}, None
        network = drawn_network(seed, 40)
        onnx.save(network.model, path := folder / f"{network}.onnx")
        yield from ((path, {"x": network.samples}, scheme) for scheme in SCHEMES)


def judge(case: Case) -> tuple[str, ...] | None:
    """Return the findings; None where the quantizer chose nothing."""
    path, samples, scheme = case
    try:
        made = flow.quantized(flow.read(path), SampleRanges(samples), scheme)
    except UserError:
        return None
    return None if made.equalized is None else judge_products(made.model, made.equalized, samples)


def tell(name: str, cases: Iterator[Case]) -> None:
    """Print how many of the cases have findings, and what is unusual about them."""
    findings = [(f"{case[0].parent.name}/{case[0].stem}", judge(case)) for case in cases]
    judged = [(case, found) for case, found in findings if found is not None]
    print(f"{name}: {sum(bool(found) for _, found in judged)} of {len(judged)} have findings", flush=True)
    for case, found in judged:
        if bool(found) == ("sound" in name):
            print(f"    {case}: {'; '.join(found) or 'none'}", flush=True)


def with_rounding(rounding: Callable[..., Any] | None) -> None:
    """Let weights be rounded otherwise; None for to nearest."""
    numpy = np if rounding is None else SimpleNamespace(**{**vars(np), "rint": rounding})
    gptq_rounding.np = numpy  # type: ignore[misc, assignment]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--seeds", type=int, default=8)
    given = parser.parse_args()
    tell("models, sound", of_the_field(given.models))
    with tempfile.TemporaryDirectory() as place:
        tell("drawn, sound", drawn(given.seeds, Path(place)))
    for name, rounding in (("rounded down", np.floor), ("rounded towards 0", np.trunc)):
        with_rounding(rounding)
        tell(f"models, {name}", of_the_field(given.models))
        with_rounding(None)


if __name__ == "__main__":
    main()
