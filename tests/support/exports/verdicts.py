"""What becomes of a drawn network: accepted or refused, and how its golden numbers lie to onnxruntime's."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import onnx
from onnx import numpy_helper
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.prove.circuit.prove import Proof
from onnx_hw.runtime.options import ReadOptions
from support.onnx_oracle import by_onnxruntime
from support.random_exported_models import DrawnExport

AVERAGES = frozenset(
    ("AveragePool", "GlobalAveragePool", "ReduceMean", "QLinearAveragePool", "QLinearGlobalAveragePool")
)
LANES = 16
MOVES = frozenset(("Reshape", "Transpose", "Identity", "Squeeze", "Unsqueeze", "Flatten"))


@dataclass(frozen=True)
class Verdict:
    """Attributes:
    design: None if the network was refused.
    codes: of the problems it was refused for.
    problems: the same in words.
    seconds: for reading, quantizing and scheduling.
    """

    network: Network | None
    design: Design | None
    codes: tuple[str, ...]
    problems: tuple[str, ...]
    seconds: float


def judged(drawn: DrawnExport, *, samples: bool) -> Verdict:
    """With the calibration samples at hand, or without."""
    start = time.process_time()
    network, design, problems = None, None, []
    try:
        model = flow.read(drawn.path, ReadOptions(dimensions=drawn.dimensions))
        network = flow.quantize(model, drawn.calibration if samples else None)
        design = flow.schedule(network)
    except UserError as error:
        problems = list(error.problems)
    codes = tuple(sorted({problem.code for problem in problems}))
    told = tuple(f"{problem.where}: {problem.message}" for problem in problems)
    return Verdict(network, design, codes, told, time.process_time() - start)


@dataclass(frozen=True)
class Comparison:
    """Golden beside onnxruntime, at the outputs, in steps of the output's integers.

    Attributes:
        values: how many were compared.
        near: how many are at most one step apart.
        worst: steps.
        averages: whether the network has an average: its sums tie often, and float32 falls either way.
    """

    values: int
    near: int
    worst: float
    averages: bool


def compared(drawn: DrawnExport, network: Network) -> Comparison:
    model = onnx.load(drawn.path)
    found = golden.run(network, drawn.frames)
    values, near, worst = 0, 0, 0.0
    for name, wanted in by_onnxruntime(drawn.path, drawn.frames).items():
        assert found[name].shape == wanted.shape and found[name].dtype == wanted.dtype, name
        apart = np.abs(found[name].astype(np.float64) - wanted) / step_of(model, name, wanted)
        values += apart.size
        near += int((apart <= 1.01).sum())
        worst = max(worst, float(apart.max()))
    return Comparison(values, near, worst, any(node.op_type in AVERAGES for node in model.graph.node))


def step_of(model: onnx.ModelProto, name: str, values: np.ndarray) -> float:
    """What one step of an output's integers is worth; of an output without integers, 1/255 of its range."""
    made: dict[str, Any] = {output: node for node in model.graph.node for output in node.output}
    node = made.get(name)
    while node is not None and node.op_type in MOVES:
        node = made.get(node.input[0])
    if node is not None and node.op_type == "DequantizeLinear":
        (scale,) = (constant for constant in model.graph.initializer if constant.name == node.input[1])
        return float(numpy_helper.to_array(scale).max())
    return max(float(np.ptp(values)), 1e-3) / 255


def proven(drawn: DrawnExport, network: Network) -> Proof:
    """The proof of a small circuit of the network, which is soon compiled, for two frames."""
    try:
        design = flow.schedule(network, multipliers=LANES)
    except UserError:  # it has more products than that
        design = flow.schedule(network)
    return flow.simulate(design, {name: array[:2] for name, array in drawn.frames.items()})
