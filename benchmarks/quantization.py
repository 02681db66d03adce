"""What quantization of float models costs: signal to noise against float, beside onnxruntime's quantizer.

    nice python benchmarks/quantization.py MODELS [--models NAME ...] [--weights N] [--data N] [--document FILE]

MODELS holds a folder per model (``model.onnx``, ``inputs.npz``), ``_data`` with sets of samples, and
``ptq_anchor.json``: for each float model which samples calibrate and which evaluate, and what onnxruntime's quantizer
reaches by six methods, and with outputs in floats. A final Softmax is cut; the signal is that of the first output over
all evaluation samples, as onnxruntime computes it in floats. Accumulators leave, then integers of eight bits. Of the
requantizers it tells what share of the channels multiplies by at most ten bits, and the look-up tables of all of them
with one lane each. ``--plain`` takes ranges from the least and greatest number and rounds weights to nearest.
``--sqnr DB`` searches for the widths that reach so much. ``--document`` puts the table into a Markdown file, between
the lines ``<!-- table -->``. ``--divisions N`` divides the samples anew, N times, into as many that calibrate and as
many that evaluate, and tells what that leaves of int8 outputs, beside ranges from the least and greatest number.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime

import onnx
from onnx_hw import flow
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.requantization import choose, costs, weight_in_luts
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.onnx.graph.model import Model
from onnx_hw.ops.requantize import Requantize
from onnx_hw.quantization.goal import Goal
from onnx_hw.quantization.ranges.calibrate import RangeMethod
from onnx_hw.quantization.scheme import Precision, Scheme
from onnx_hw.runtime.options import OutputKind
from onnx_hw.samples.sqnr import NoiseStatistics

BATCH = 32
"""Frames that golden computes at a time."""

SHORT = 10
"""Bits of a multiplier that is called short."""

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
    """Of one model: decibels with accumulators out and with int8 out, onnxruntime's best of both; the rest in per cent.

    Attributes:
        agree: how often the largest output is the one in floats.
        short: channels of requantizers with a multiplier of at most ten bits.
        luts: of all requantizers, with one lane each.
        seconds: of quantization, with accumulators out.
    """

    name: str
    evaluated: int
    sums: float
    best_floats: float
    few: float
    best: float
    agree: float
    top1: float | None
    float_top1: float | None
    short: float
    luts: int
    seconds: float

    def row(self) -> str:
        top1 = "" if self.top1 is None else f"{self.top1:5.2f} of {self.float_top1:5.2f}"
        return (
            f"{self.name:33} {self.evaluated:4} {self.sums:6.2f} {self.best_floats:6.2f} {self.few:6.2f}"
            f" {self.best:6.2f} {self.agree:6.2f} {top1:14} {self.short:6.1f} {self.luts:7,} {self.seconds:6.1f}"
        )

    def line(self) -> str:
        """Of a Markdown table."""
        top1 = "" if self.top1 is None else f"{self.top1:.1f} of {self.float_top1:.1f}"
        numbers = f"{self.sums:.1f} | {self.best_floats:.1f} | {self.few:.1f} | {self.best:.1f}"
        return f"| `{self.name}` | {self.evaluated} | {numbers} | {top1} | {self.short:.0f} | {self.luts:,} |"


MARK = "<!-- table -->"

COLUMNS = (
    "| model | samples | sums out | onnxruntime | int8 out | onnxruntime | top-1, % | short, % | LUTs |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
)

HEAD = (
    f"{'model':33} {'n':>4} {'sums':>6} {'ort':>6} {'int8':>6} {'ort':>6} {'agree':>6} {'top-1':14} {'short':>6}"
    f" {'LUTs':>7} {'s':>6}"
)


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


def in_integers(case: Case, network: Network) -> np.ndarray:
    """The same as golden computes it."""
    parts = [case.evaluation[k : k + BATCH] for k in range(0, len(case.evaluation), BATCH)]
    output = case.model.graph.output[0].name
    return np.concatenate([golden.run(network, {case.input: p})[output].reshape(len(p), -1) for p in parts])


def requantizers(network: Network) -> tuple[float, int]:
    """(per cent of the channels with a multiplier of at most ten bits, look-up tables of all with one lane each)."""
    short, channels, luts = 0, 0, 0
    for node in network.nodes:
        if isinstance(node.operator, Requantize):
            circuit = choose(node.operator.exact)
            luts += weight_in_luts(costs(circuit, circuit.channels))
            channels += circuit.channels
            if isinstance(circuit, MultiplyAddShift):
                short += sum(int(m).bit_length() <= SHORT for m in circuit.multipliers)
    return 100 * short / max(channels, 1), luts


def read_model(case: Case) -> Model:
    """As from a file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{case.name}.onnx"
        onnx.save(case.model, path)
        return flow.read(path)


def measured(case: Case, anchor: Mapping[str, Any], scheme: Scheme) -> Found:
    model = read_model(case)
    wanted, begun = in_floats(case), time.monotonic()
    sums, few = (
        flow.quantize(model, {case.input: case.calibration}, replace(scheme, output=leaving)) for leaving in OutputKind
    )
    seconds = (time.monotonic() - begun) / 2
    given = [in_integers(case, network) for network in (sums, few)]
    decibels = [NoiseStatistics().with_values(numbers, wanted).sqnr_db or np.inf for numbers in given]
    picked, best = given[0].argmax(axis=1), wanted.argmax(axis=1)
    top1 = [None, None] if case.labels is None else [100 * float((p == case.labels).mean()) for p in (picked, best)]
    bests = [anchor[f"best_sqnr{which}"]["sqnr_db"] for which in ("_float_output", "")]
    agree = 100 * float((picked == best).mean())
    columns = (decibels[0], bests[0], decibels[1], bests[1])
    return Found(case.name, len(wanted), *columns, agree, *top1, *requantizers(sums), seconds)  # type: ignore[call-arg]


def divided_anew(case: Case, times: int) -> Iterator[Case]:
    """The same samples, others of which calibrate."""
    frames, count = np.concatenate([case.calibration, case.evaluation]), len(case.calibration)
    for seed in range(times):
        order = np.random.default_rng(seed).permutation(len(frames))
        yield replace(case, calibration=frames[order[:count]], evaluation=frames[order[count:]], labels=None)


def compare_ranges(case: Case, times: int, scheme: Scheme) -> str:
    """A line: the mean and the least decibels of int8 outputs, with ranges as chosen and with those that were seen."""
    model, told = read_model(case), []
    for method in (scheme.ranges, RangeMethod.MIN_MAX):
        choice = replace(scheme, output=OutputKind.INT8, ranges=method)
        decibels = []
        for part in divided_anew(case, times):
            network = flow.quantize(model, {part.input: part.calibration}, choice)
            decibels.append(
                NoiseStatistics().with_values(in_integers(part, network), in_floats(part)).sqnr_db or np.inf
            )
        told.append(f"{np.mean(decibels):8.2f} {min(decibels):8.2f}")
    return f"{case.name:33} {len(case.calibration):4} {len(case.evaluation):4} {' '.join(told)}"


def cases_in(folder: Path, names: list[str]) -> Iterator[tuple[Case, Mapping[str, Any]]]:
    """Every model, the small ones first, and what onnxruntime reaches with it."""
    anchors = json.loads((folder / "ptq_anchor.json").read_text())["models"]
    cost = {name: anchor["macs"] * (anchor["n_calib"] + anchor["n_eval"]) for name, anchor in anchors.items()}
    for name in sorted(names or anchors, key=lambda name: cost[name]):
        yield case_of(folder, name, anchors[name]), anchors[name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="MODELS")
    parser.add_argument("--models", nargs="*", default=[], metavar="NAME", help="of these alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="for what was found")
    parser.add_argument("--document", type=Path, metavar="FILE", help="whose table is written anew")
    parser.add_argument("--weights", type=int, default=8, metavar="BITS")
    parser.add_argument("--data", type=int, default=8, metavar="BITS")
    parser.add_argument("--sqnr", type=float, metavar="DB", help="instead of bits for all")
    parser.add_argument("--plain", action="store_true", help="minimum and maximum, rounded to nearest")
    parser.add_argument("--divisions", type=int, metavar="N", help="of the samples anew")
    given = parser.parse_args()
    scheme = Scheme(
        data=Precision(given.data),
        weights=Precision(given.weights, symmetric=True, per_channel=True),
        ranges=RangeMethod.MIN_MAX if given.plain else RangeMethod.MSE,
        goal=None if given.sqnr is None else Goal(given.sqnr),
    )
    cases = cases_in(given.folder, given.models)
    if given.divisions:
        print(f"{'int8 outputs, dB':33} {'of':>4} {'n':>4} {'chosen':>8} {'least':>8} {'seen':>8} {'least':>8}")
        for case, _ in cases:
            print(compare_ranges(case, given.divisions, scheme), flush=True)
        return
    print(HEAD)
    found = []
    for case, anchor in cases:
        one = measured(case, anchor, scheme)
        found.append(one)
        print(one.row(), flush=True)
        if given.json:
            given.json.write_text(json.dumps([asdict(row) for row in found], indent=1))
    totals = []
    for kind, ours, best in (("sums", "sums", "best_floats"), ("int8", "few", "best")):
        mean, theirs = (float(np.mean([getattr(row, of) for row in found])) for of in (ours, best))
        above = sum(getattr(row, ours) > getattr(row, best) for row in found)
        totals.append(
            f"{kind}: mean {mean:.2f} dB, onnxruntime's best {theirs:.2f} dB; above it on {above} of {len(found)}"
        )
    print("\n".join(totals))
    if given.document:
        before, _, after = given.document.read_text("utf-8").split(MARK)
        table = "\n".join([COLUMNS, *(row.line() for row in found)])
        given.document.write_text(f"{before}{MARK}\n{table}\n\n{'. '.join(totals)}.\n{MARK}{after}", "utf-8")


if __name__ == "__main__":
    main()
