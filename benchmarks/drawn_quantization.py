"""What quantization of drawn float networks costs, beside onnxruntime's quantizer on the same samples.

    python benchmarks/drawn_quantization.py [N] [--seed FIRST] [--calibration K]

Draws N networks (``support.random_trained_networks``): dense, convolutional, residual and depthwise ones, in turns. K
samples calibrate, others judge, 200 of them. onnxruntime's quantizer (QDQ, int8, weights symmetric with a scale per
channel, the model prepared) is tried with six ranges: minimum and maximum, entropy and a percentile of 99.99, each with
zero points and symmetric. Signal to noise of the outputs against floats, in dB: with sums out (of onnxruntime's models
the last pair of QuantizeLinear and DequantizeLinear left out), and with integers of eight bits; beside each the best of
the six, which is picked by the very samples that judge.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import onnx
from onnx import TensorProto, helper
from onnx_hw import flow
from onnx_hw.quantization.scheme import Scheme
from onnx_hw.runtime.options import OutputKind
from onnx_hw.samples.sqnr import NoiseStatistics
from quantization import Case, in_floats, in_integers, read_model
from support.exports.quantizing import Choices, quantized
from support.random_trained_networks import DrawnNetwork, drawn_network

JUDGES = 200

SIX = tuple(
    Choices(
        QuantFormat.QDQ,
        QuantType.QInt8,
        QuantType.QInt8,
        per_channel=True,
        prepared=True,
        method=method,
        options={"ActivationSymmetric": symmetric, **more},
    )
    for method, more in (
        (CalibrationMethod.MinMax, {}),
        (CalibrationMethod.Entropy, {}),
        (CalibrationMethod.Percentile, {"CalibPercentile": 99.99}),
    )
    for symmetric in (False, True)
)

HEAD = f"{'network':16} {'sums':>6} {'ort':>6} {'int8':>6} {'ort':>6}"


@dataclass(frozen=True)
class Compared:
    """Of one drawn network: decibels with sums out and with int8 out, each beside the best of onnxruntime's six."""

    kind: str
    seed: int
    sums: float
    best_sums: float
    few: float
    best_few: float

    def row(self) -> str:
        numbers = (self.sums, self.best_sums, self.few, self.best_few)
        return " ".join([f"{self.kind + str(self.seed):16}", *(f"{number:6.2f}" for number in numbers)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=20, metavar="N")
    parser.add_argument("--seed", type=int, default=0, help="of the first network")
    parser.add_argument("--calibration", type=int, default=32, metavar="K", help="samples that calibrate")
    given = parser.parse_args()
    print(HEAD)
    found = []
    for seed in range(given.seed, given.seed + given.count):
        found.append(compared(drawn_network(seed, given.calibration + JUDGES), given.calibration))
        print(found[-1].row(), flush=True)
    print("\nof them        better  by dB  least  better  by dB  least")
    for kind in dict.fromkeys(one.kind for one in found):
        print(f"{kind:13} {summary([one for one in found if one.kind == kind])}")
    print(f"{'all':13} {summary(found)}")


def summary(found: Sequence[Compared]) -> str:
    """On how many networks the best of six is surpassed, by how many decibels on average, and by how many at least."""
    told = []
    for more in ([one.sums - one.best_sums for one in found], [one.few - one.best_few for one in found]):
        told.append(f"{sum(one > 0 for one in more):3}/{len(more):<3} {np.mean(more):6.2f} {min(more):6.2f}")
    return " ".join(told)


def compared(drawn: DrawnNetwork, calibration: int, six: Sequence[Choices] = SIX) -> Compared:
    case = Case(repr(drawn), drawn.model, "x", drawn.samples[:calibration], drawn.samples[calibration:], None)
    model, wanted = read_model(case), in_floats(case)
    networks = (
        flow.quantize(model, {"x": case.calibration}, Scheme(output=leaving))
        for leaving in (OutputKind.ACCUMULATORS, OutputKind.INT8)
    )
    sums, few = (decibels(in_integers(case, network), wanted) for network in networks)
    whole = [by_onnxruntime(case, choices) for choices in six]
    best_sums, best_few = (
        max(decibels(in_floats(replace(case, model=model)), wanted) for model in models)
        for models in ([with_floats_out(model) for model in whole], whole)
    )
    return Compared(drawn.kind, drawn.seed, sums, best_sums, few, best_few)


def decibels(given: np.ndarray, wanted: np.ndarray) -> float:
    return NoiseStatistics().with_values(given, wanted).sqnr_db or np.inf


def by_onnxruntime(case: Case, choices: Choices) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "quantized.onnx"
        quantized(case.model, {case.input: case.calibration}, choices, path)
        return onnx.load(path)


def with_floats_out(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without the QuantizeLinear and DequantizeLinear before the output."""
    model = copy.deepcopy(model)
    made = {name: node for node in model.graph.node for name in node.output}
    (output,) = model.graph.output
    value = output.name
    for kind in ("DequantizeLinear", "QuantizeLinear"):
        assert made[value].op_type == kind
        value = made[value].input[0]
    output.CopyFrom(helper.make_tensor_value_info(value, TensorProto.FLOAT, None))
    return model


if __name__ == "__main__":
    main()
