"""Convolutions whose weights are computed from data, such as mixtures of kernels and templates of trackers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.helper import make_node

import onnx_hw
from onnx import TensorProto
from onnx_hw import flow
from onnx_hw.commands import check
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.requantize import Requantize
from onnx_hw.quantization.quantize import prepare_model
from onnx_hw.quantization.scheme import MAX_SCALES
from onnx_hw.runtime.options import BuildOptions
from support.onnx_files import model, tensor, value, write
from support.onnx_oracle import by_onnxruntime

EXPERTS = 3


def mixed(tmp_path: Path, convolutions: int, *, computed: bool = True) -> Path:
    """Write convolutions whose weights are sums of those of some experts, by shares that follow from the data."""
    draw, nodes, constants, x = np.random.default_rng(0), [], [], "x"

    def constant(name: str, *shape: int) -> str:
        numbers = draw.normal(size=shape).astype(np.float32)
        constants.append(tensor(name, TensorProto.FLOAT, shape, numbers.reshape(-1)))
        return name

    constants.append(tensor("form", TensorProto.INT64, (4,), np.array([4, 4, 3, 3])))
    if not computed:
        constant("shares", 1, EXPERTS)
    for k in range(convolutions):
        shares = "shares"
        if computed:
            shares = f"shares{k}"
            nodes += [
                make_node("GlobalAveragePool", [x], [f"mean{k}"]),
                make_node("Flatten", [f"mean{k}"], [f"flat{k}"]),
                make_node("Gemm", [f"flat{k}", constant(f"routes{k}", 4, EXPERTS)], [f"route{k}"]),
                make_node("Sigmoid", [f"route{k}"], [shares]),
            ]
        nodes += [
            make_node("MatMul", [shares, constant(f"experts{k}", EXPERTS, 4 * 4 * 9)], [f"kernel{k}"]),
            make_node("Reshape", [f"kernel{k}", "form"], [f"w{k}"]),
            make_node("Conv", [x, f"w{k}"], [f"y{k}"], f"mixed{k}", pads=[1, 1, 1, 1]),
        ]
        x = f"y{k}"
    shape = (1, 4, 8, 8)
    return write(tmp_path, model(nodes, inputs=[value("x", shape)], outputs=[value(x, shape)], constants=constants))


def test_mixtures_of_kernels_can_be_built(tmp_path: Path) -> None:
    assert check.check_hardware(BuildOptions(model=mixed(tmp_path, 2))) is None


def test_weights_computed_of_constants_are_constant(tmp_path: Path) -> None:
    assert check.check_hardware(BuildOptions(model=mixed(tmp_path, 2, computed=False))) is None


def test_batches_of_transposed_ones_are_named_before_anything_is_quantized(tmp_path: Path) -> None:
    nodes = [make_node("ConvTranspose", ["x", "w"], [f"y{k}"], f"wide{k}") for k in range(3)]
    shapes = {"x": (2, 3, 4, 4), "w": (3, 2, 2, 2)}
    inputs = [value(name, shape) for name, shape in shapes.items()]
    outputs = [value(f"y{k}", (2, 2, 5, 5)) for k in range(3)]
    with pytest.raises(UserError) as refused:
        prepare_model(flow.read(write(tmp_path, model(nodes, inputs=inputs, outputs=outputs))).frame.model)
    assert [problem.code for problem in refused.value.problems] == ["weights-not-constant"] * 3
    for k, problem in enumerate(refused.value.problems):
        assert problem.message == "the weights `w` must be constant; they are computed from data"
        assert problem.where.endswith(f'(ConvTranspose "wide{k}")')


def sqnr_db(wanted: np.ndarray, given: np.ndarray) -> float:
    noise = float(((wanted - given) ** 2).sum())
    return 10 * np.log10(float((wanted**2).sum()) / max(noise, 1e-30))


def test_mixtures_of_kernels_keep_their_numbers(tmp_path: Path) -> None:
    """The shares, the mixed kernels and the sums are quantized; onnxruntime is the witness."""
    path, draw = mixed(tmp_path, 2), np.random.default_rng(1)
    samples, frames = ({"x": draw.normal(size=(n, 1, 4, 8, 8)).astype(np.float32)} for n in (32, 16))
    network = onnx_hw.quantize(path, calibration=samples)
    (wanted,), (given,) = by_onnxruntime(path, frames).values(), network(frames).values()
    assert sqnr_db(wanted, given.reshape(wanted.shape)) >= 25


@pytest.mark.parametrize("group", [1, 4])
def test_a_template_finds_itself_in_a_picture(tmp_path: Path, group: int) -> None:
    """As in trackers: features of the template, made by the same layer, slide over those of the picture."""
    draw = np.random.default_rng(0)
    constants = [
        tensor("kernel", TensorProto.FLOAT, (4, 3, 3, 3), draw.normal(size=108).astype(np.float32)),
        tensor("form", TensorProto.INT64, (4,), np.array([4, 1, 4, 4] if group > 1 else [1, 4, 4, 4])),
    ]
    nodes = [
        make_node("Conv", ["picture", "kernel"], ["here"]),
        make_node("Conv", ["template", "kernel"], ["sought"]),
        make_node("Reshape", ["sought", "form"], ["weights"]),
        make_node("Conv", ["here", "weights"], ["y"], group=group),
    ]
    shapes = {"picture": (1, 3, 12, 12), "template": (1, 3, 6, 6)}
    inputs = [value(name, shape) for name, shape in shapes.items()]
    outputs = [value("y", (1, group, 7, 7))]
    path = write(tmp_path, model(nodes, inputs=inputs, outputs=outputs, constants=constants))
    samples, frames = (
        {name: draw.normal(size=(n, *shape)).astype(np.float32) for name, shape in shapes.items()} for n in (32, 16)
    )
    network = onnx_hw.quantize(path, calibration=samples)
    (wanted,), (given,) = by_onnxruntime(path, frames).values(), network(frames).values()
    assert sqnr_db(wanted, given.reshape(wanted.shape)) >= 25


def test_many_outputs_share_a_scale(tmp_path: Path) -> None:
    """Their scales and offsets would take more memory than the weights."""
    many, draw = MAX_SCALES + 2, np.random.default_rng(0)
    constants = [tensor("w", TensorProto.FLOAT, (3, many), draw.normal(size=3 * many).astype(np.float32))]
    nodes = [make_node("Sigmoid", ["x"], ["s"]), make_node("MatMul", ["s", "w"], ["k"])]
    nodes.append(make_node("MatMul", ["k", "v"], ["y"]))
    constants.append(tensor("v", TensorProto.FLOAT, (many, 2), draw.normal(size=2 * many).astype(np.float32)))
    path = write(tmp_path, model(nodes, inputs=[value("x", (1, 3))], outputs=[value("y", (1, 2))], constants=constants))
    samples, frames = ({"x": draw.normal(size=(n, 1, 3)).astype(np.float32)} for n in (32, 16))
    quantized = onnx_hw.quantize(path, calibration=samples)
    (requantized,) = (
        node.operator
        for node in quantized.network.nodes
        if isinstance(node.operator, Requantize) and node.operator.operand.channels == many
    )
    assert len(requantized.slope) == len(requantized.offset) == 1
    (wanted,), (given,) = by_onnxruntime(path, frames).values(), quantized(frames).values()
    assert sqnr_db(wanted, given.reshape(wanted.shape)) >= 25
