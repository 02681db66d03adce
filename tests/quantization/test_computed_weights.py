"""Convolutions whose weights are computed from data: all of them are named, before anything is quantized."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.helper import make_node

from onnx import TensorProto
from onnx_hw.commands import check
from onnx_hw.messages.errors import UserError
from onnx_hw.quantization.quantize import prepare_model
from onnx_hw.runtime.options import BuildOptions
from support.onnx_files import model, tensor, value, write

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


def test_all_of_them_are_named_before_anything_is_quantized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quantize = check.quantize_model
    seen: list[str] = []

    def seen_and_quantized(*given: object) -> object:
        seen.append("quantized")
        return quantize(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(check, "quantize_model", seen_and_quantized)
    refused = check.check_hardware(BuildOptions(model=mixed(tmp_path, 4)))
    assert isinstance(refused, UserError) and not seen
    assert [problem.code for problem in refused.problems] == ["weights-not-constant"] * 4
    for k, problem in enumerate(refused.problems):
        assert problem.message == f"the weights `w{k}` must be constant; they are computed from data"
        assert problem.where.endswith(f'(Conv "mixed{k}")')
    assert "--cut-at" in refused.problems[-1].hint  # what stands before can be built


def test_weights_computed_of_constants_are_constant(tmp_path: Path) -> None:
    assert check.check_hardware(BuildOptions(model=mixed(tmp_path, 2, computed=False))) is None


def test_the_python_way_refuses_them_too(tmp_path: Path) -> None:
    from onnx_hw import flow

    read = flow.read(mixed(tmp_path, 1))
    with pytest.raises(UserError, match="computed from data"):
        prepare_model(read.frame.model)
