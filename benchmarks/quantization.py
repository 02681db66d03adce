"""What quantization of float models costs: signal to noise against float, beside onnxruntime's quantizer.

    nice python benchmarks/quantization.py MODELS [--models NAME ...] [--json FILE]

MODELS holds a folder per model (``model.onnx``, ``inputs.npz``), ``_data`` with sets of samples, and
``ptq_anchor.json``: for each float model which samples calibrate and which evaluate, and what onnxruntime's quantizer
reaches by six methods. A final Softmax is cut; the signal is that of the first output over all evaluation samples, as
onnxruntime computes it in floats.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime

import onnx
from onnx_hw import flow, golden
from onnx_hw.onnx.model import Model
from onnx_hw.proof.likeness import Likeness

BATCH = 32
"""Frames that golden computes at a time."""

PIXELS = 1 / np.float32(255)
MFCC_STEP, MFCC_ZERO = np.float32(0.5847029089927673), 83


def averaged(images: np.ndarray) -> np.ndarray:
    """(n, 28, 28) pixels as (n, 14, 14) numbers of 0..1."""
    return images.reshape(-1, 14, 2, 14, 2).mean((2, 4)) * PIXELS


SETS: Mapping[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "mnist_onnxmlir_mlp": ("mnist", lambda x: x * PIXELS),
    "mnist14_atmega": ("mnist", averaged),
    "tinymaix_mnist_dw_float": ("mnist", lambda x: x * PIXELS),
    "mnist8_cntk": ("mnist", lambda x: x),
    "mlperf_tiny_kws_dscnn_float": ("kws01", lambda x: (x - MFCC_ZERO) * MFCC_STEP),
    "mlperf_tiny_ad_autoencoder_float": ("ad_toycar", lambda x: x),
    "mlperf_tiny_ic_resnet8_float": ("cifar10", lambda x: x),
}
"""Models whose samples are drawn from a set of ``_data``, and what those become."""


@dataclass(frozen=True)
class Case:
    """A model without its Softmax, and its samples.

    Attributes:
        calibration, evaluation: (n, *shape), of the only input.
        labels: of the evaluation, or None.
    """

    name: str
    model: onnx.ModelProto
    input: str
    calibration: np.ndarray
    evaluation: np.ndarray
    labels: np.ndarray | None


@dataclass(frozen=True)
class Found:
    """Of one model; decibels, top-1 in per cent."""

    name: str
    evaluated: int
    sqnr: float
    best_of_onnxruntime: float
    agree: float
    top1: float | None
    float_top1: float | None
    seconds: float

    def row(self) -> str:
        top1 = "" if self.top1 is None else f"{self.top1:6.2f} of {self.float_top1:5.2f}"
        return (
            f"{self.name:34} {self.evaluated:5} {self.sqnr:7.2f} {self.best_of_onnxruntime:7.2f}"
            f" {self.sqnr - self.best_of_onnxruntime:+7.2f} {self.agree:6.2f} {top1:15} {self.seconds:6.1f}"
        )


HEAD = f"{'model':34} {'n':>5} {'dB':>7} {'ort':>7} {'':7} {'agree':>6} {'top-1':15} {'s':>6}"


def cut(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without the Softmax before each output."""
    made = {name: node for node in model.graph.node for name in node.output}
    for output in model.graph.output:
        node = made[output.name]
        if node.op_type in ("Softmax", "LogSoftmax"):
            model.graph.node.remove(node)
            output.name = node.input[0]
    return model


def case_of(folder: Path, name: str, anchor: Mapping[str, Any]) -> Case:
    """A model of the folder with the samples that ``ptq_anchor.json`` names."""
    model = onnx.load(folder / name / "model.onnx")
    constants = {constant.name for constant in model.graph.initializer}
    (given,) = (value for value in model.graph.input if value.name not in constants)
    shape = [dimension.dim_value for dimension in given.type.tensor_type.shape.dim]
    if name in SETS:
        which, made = SETS[name]
        stored = np.load(folder / "_data" / f"{which}.npz")
        frames = made(stored["x"].astype(np.float32)).astype(np.float32).reshape(-1, *shape)
        order = np.random.default_rng(0).permutation(len(frames))
        first, rest = np.sort(order[: anchor["n_calib"]]), np.sort(order[anchor["n_calib"] :])
        labels = stored["y"][rest] if "y" in stored else None
        return Case(name, cut(model), given.name, frames[first], frames[rest], labels)
    frames = np.load(folder / name / "inputs.npz")[given.name].reshape(-1, *shape)
    first, last = anchor["n_calib"], anchor["n_calib"] + anchor["n_eval"]
    return Case(name, cut(model), given.name, frames[:first], frames[first:last], None)


def in_floats(case: Case) -> np.ndarray:
    """The first output of the evaluation, (n, elements)."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(case.model.SerializeToString(), options, ["CPUExecutionProvider"])
    (output, *_) = (value.name for value in session.get_outputs())
    return np.stack([session.run([output], {case.input: frame})[0].reshape(-1) for frame in case.evaluation])


def in_integers(case: Case, model: Model) -> np.ndarray:
    """The same as golden computes it."""
    network = flow.quantize(model, {case.input: case.calibration})
    parts = [case.evaluation[k : k + BATCH] for k in range(0, len(case.evaluation), BATCH)]
    output = case.model.graph.output[0].name
    return np.concatenate([golden.run(network, {case.input: p})[output].reshape(len(p), -1) for p in parts])


def measured(case: Case, anchor: Mapping[str, Any]) -> Found:
    begun = time.monotonic()
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{case.name}.onnx"
        onnx.save(case.model, path)
        given = in_integers(case, flow.read(path))
    seconds, wanted = time.monotonic() - begun, in_floats(case)
    likeness = Likeness().with_values(given, wanted)
    picked, best = given.argmax(axis=1), wanted.argmax(axis=1)
    top1 = [None, None] if case.labels is None else [100 * float((p == case.labels).mean()) for p in (picked, best)]
    best_of = anchor["best_sqnr"]["sqnr_db"]
    agree = 100 * float((picked == best).mean())
    return Found(case.name, len(wanted), likeness.sqnr_db or np.inf, best_of, agree, *top1, seconds)


def found_in(folder: Path, names: list[str]) -> Iterator[Found]:
    """Every model, the small ones first."""
    anchors = json.loads((folder / "ptq_anchor.json").read_text())["models"]
    cost = {name: anchor["macs"] * (anchor["n_calib"] + anchor["n_eval"]) for name, anchor in anchors.items()}
    for name in sorted(names or anchors, key=lambda name: cost[name]):
        yield measured(case_of(folder, name, anchors[name]), anchors[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="MODELS")
    parser.add_argument("--models", nargs="*", default=[], metavar="NAME", help="of these alone")
    parser.add_argument("--json", type=Path, help="file for what was found")
    given = parser.parse_args()
    print(HEAD)
    found = []
    for one in found_in(given.folder, given.models):
        found.append(one)
        print(one.row(), flush=True)
        if given.json:
            given.json.write_text(json.dumps([asdict(row) for row in found], indent=1))
    mean, best = (float(np.mean([getattr(row, of) for row in found])) for of in ("sqnr", "best_of_onnxruntime"))
    above = sum(row.sqnr > row.best_of_onnxruntime for row in found)
    print(f"mean {mean:.2f} dB, onnxruntime's best {best:.2f} dB; above it on {above} of {len(found)}")


if __name__ == "__main__":
    sys.exit(main())
