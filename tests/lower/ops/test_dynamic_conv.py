"""Conv and ConvTranspose of two quantized tensors: exact against onnxruntime, and as circuits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.lower.lower_model import import_model
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.multiply import Multiply
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.schedule_network import schedule_network
from support.design_bench import Bench, assert_proven, random_stall
from support.onnx_oracle import by_onnxruntime, write
from support.qdq_models import Sketch
from support.random_cases import few
from support.targets import ecp5_at

STEP = 2.0**-3


@dataclass(frozen=True)
class Case:
    """A convolution of two tensors, both of which are inputs of the graph."""

    op_type: str
    data: tuple[int, ...]
    weights: tuple[int, ...]
    zeros: tuple[int, int]
    attributes: dict[str, object]
    bias: str  # of constants, of data, or empty

    @property
    def outputs(self) -> int:
        return self.weights[0] if self.op_type == "Conv" else self.weights[1] * int(str(self.attributes["group"]))


def written(case: Case, folder: Path) -> tuple[Path, dict[str, np.ndarray]]:
    """The model, whose steps are powers of two so that ties occur and float32 is exact; and some frames."""
    sketch, random = Sketch(), np.random.default_rng(0)
    shapes = {"x": case.data, "w": case.weights}
    operands = [sketch.through_integers(name, STEP, zero) for name, zero in zip(shapes, case.zeros, strict=True)]
    if case.bias == "constant":
        operands.append(sketch.constant((random.integers(-99, 99, case.outputs) * STEP).astype(np.float32)))
    elif case.bias:
        shapes["b"] = (case.outputs,)
        operands.append(sketch.through_integers("b", STEP, -3))
    sums = sketch.node(case.op_type, *operands, **case.attributes)
    path = write(sketch, folder / "m.onnx", shapes, sketch.through_integers(sums, 1.0, 5))
    zeros = dict(zip("xwb", (*case.zeros, -3), strict=True))
    frames = {
        name: ((random.integers(-128, 128, (3, *shape)) - zeros[name]) * STEP).astype(np.float32)
        for name, shape in shapes.items()
    }
    return path, frames


def assert_exact(case: Case) -> Network:
    with TemporaryDirectory() as folder:
        path, frames = written(case, Path(folder))
        network = import_model(flow.read(path))
        (golden_result,) = golden.run(network, frames).values()
        (wanted,) = by_onnxruntime(path, frames).values()
    assert np.array_equal(golden_result.reshape(wanted.shape), wanted)
    assert len(np.unique(wanted)) > 1 or wanted.size < 9
    return network


@st.composite
def cases(draw: st.DrawFn, op_type: str) -> Case:
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    group = draw(st.sampled_from([1, 1, 2, 3]))
    each = draw(st.integers(1, 3 if rank < 3 else 2))
    outputs = draw(st.integers(1, 3 if rank < 3 else 2))
    if draw(st.booleans()):
        each = outputs = 1  # every channel by itself
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    dilations = tuple(draw(st.integers(1, 2)) for _ in range(rank))
    strides = tuple(draw(st.integers(1, 3 if rank < 3 else 2)) for _ in range(rank))
    pads = tuple(draw(st.integers(0, (size - 1) * apart)) for size, apart in [*zip(kernel, dilations, strict=True)] * 2)
    reach = [(size - 1) * apart + 1 for size, apart in zip(kernel, dilations, strict=True)]
    space = tuple(size + draw(st.integers(0, 4 if rank < 3 else 1)) for size in reach)
    attributes: dict[str, object] = {"group": group, "strides": strides, "dilations": dilations, "pads": pads}
    if (
        op_type == "Conv" and set(dilations) == {1} and draw(st.booleans())
    ):  # onnxruntime has no automatic pads with dilations
        del attributes["pads"]
        attributes["auto_pad"] = draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    channels = (group * outputs, each) if op_type == "Conv" else (group * each, outputs)
    zeros = draw(st.sampled_from([(0, 0), (-128, 3), (7, 0), (0, -1)]))
    bias = draw(st.sampled_from(["", "constant", "data"]))
    return Case(op_type, (1, group * each, *space), (*channels, *kernel), zeros, attributes, bias)


@few
@given(cases("Conv"))
def test_a_convolution_is_exact(case: Case) -> None:
    assert_exact(case)


@few
@given(cases("ConvTranspose"))
def test_a_transposed_convolution_is_exact(case: Case) -> None:
    assert_exact(case)


CIRCUITS = {
    "whole": Case("Conv", (1, 3, 5, 4), (4, 3, 3, 2), (2, -1), {"group": 1, "pads": (1, 0, 1, 1)}, "constant"),
    "points": Case("Conv", (1, 5, 3, 3), (4, 5, 1, 1), (0, 3), {"group": 1}, "data"),
    "groups": Case("Conv", (1, 4, 5, 4), (6, 2, 3, 3), (1, 0), {"group": 2, "strides": (2, 1), "pads": (1,) * 4}, ""),
    "channels": Case("Conv", (1, 3, 6, 5), (3, 1, 3, 3), (-4, 2), {"group": 3, "strides": (2, 2)}, "constant"),
    "signal": Case("Conv", (1, 4, 9), (4, 1, 4), (0, 0), {"group": 4, "dilations": (2,), "pads": (3, 3)}, ""),
    "transposed": Case("ConvTranspose", (1, 2, 3, 3), (2, 3, 2, 2), (0, 1), {"group": 1, "strides": (2, 2)}, ""),
}


@pytest.mark.parametrize("name", CIRCUITS)
@pytest.mark.parametrize("lanes", [None, 1, 20])
def test_the_circuit_is_proven(name: str, lanes: int | None) -> None:
    network = assert_exact(CIRCUITS[name])
    design, _ = schedule_network(network, Budget(mac_lanes=lanes), target=ecp5_at(100))
    assert_proven(Bench(design).prove(random_stall(design, 3, 0), frames=3, seed=0))


def test_channels_by_themselves_are_no_matrix() -> None:
    """One product for each tap and channel is done, and none with a zero between groups."""
    kinds = {name: [type(node.operator) for node in assert_exact(case).nodes] for name, case in CIRCUITS.items()}
    assert Multiply in kinds["channels"] and MatMul not in kinds["channels"]
    (product,) = (node.operator for node in assert_exact(CIRCUITS["groups"]).nodes if isinstance(node.operator, MatMul))
    assert product.matrix.shape == (2, 3, 18)
