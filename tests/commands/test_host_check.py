"""Each way in which the host could compute something else than the model around the circuit ends a build."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper
from onnx_hw import flow
from onnx_hw.assemble import host_model_file
from onnx_hw.assemble.host_link import link_of
from onnx_hw.commands.build import build
from onnx_hw.commands.host_check import check_host, require_same_host
from onnx_hw.ir.design import Design
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw_link import frames, host_model, host_operators
from onnx_hw_link.host_operators import KNOWN
from support.qdq_models import Sketch
from support.small_model import small_model


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> Design:
    """A design before which the host transposes and quantizes to 4 bits; behind it are DequantizeLinear, Softmax."""
    sketch, draw = Sketch(21), np.random.default_rng(11)
    for name, offset in (("into", -2), ("out", 1)):
        sketch.constants.append(helper.make_tensor(name, TensorProto.INT4, [], [offset]))
    value = sketch.node("Transpose", "x", perm=[0, 3, 1, 2])
    weights = sketch.dequantized(draw.integers(-99, 99, (4, 3, 3, 3), dtype=np.int8), 0.01)
    for zero, scale in (("into", 1 / 3), ("out", 40.0)):
        step = sketch.constant(np.float32(scale))
        value = sketch.node("DequantizeLinear", sketch.node("QuantizeLinear", value, step, zero), step, zero)
        value = sketch.node("Conv", value, weights) if zero == "into" else value
    value = sketch.node("Softmax", value, axis=1)
    path = tmp_path_factory.mktemp("host") / "host.onnx"
    onnx.save(sketch.model((1, 5, 6, 3), TensorProto.FLOAT, value, 4, TensorProto.FLOAT), path)
    return flow.schedule(flow.quantize(flow.read(path)))


def written(design: Design, folder: Path) -> Path:
    """Write ``model.json`` as a build does."""
    file = folder / "model.json"
    file.write_text(host_model_file.host_model(design, link_of(design, 24), 10**6), encoding="utf-8")
    return file


def test_a_sound_host_agrees(design: Design, tmp_path: Path) -> None:
    """All numbers of a frame are compared; ties of the quantizer and numbers beyond its range are among them."""
    file = written(design, tmp_path)
    check = check_host(file, design, link_of(design, 24))
    assert not check.wrong and not check.difference
    link = link_of(design, 24)
    assert check.frames == 16 and check.values == 16 * (link.input_bytes + 4 * 3 * 4)
    require_same_host(tmp_path, design, link)
    require_same_host(tmp_path / "nowhere", design, None)


def other(patch: pytest.MonkeyPatch, name: str, function: Callable[..., Any]) -> None:
    """Put another function in the place of an operator of the host."""
    least, _, held = KNOWN[name]
    patch.setitem(host_operators.KNOWN, name, (least, function, held))  # type: ignore[arg-type]


def quantize(divided: Callable[..., Any], *, least: int = -8, most: int = 7) -> Callable[..., Any]:
    def function(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, *, bits: int = 0, axis: int = 1) -> np.ndarray:
        return np.clip(divided(x, scale).astype(float) + zero, least, most).astype(zero.dtype)

    return function


FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "ties away from even": (
        lambda patch: other(patch, "QuantizeLinear", quantize(lambda x, s: np.floor(x / s + np.float32(0.5)))),
        "the frame to the chip",
    ),
    "times the reciprocal": (
        lambda patch: other(patch, "QuantizeLinear", quantize(lambda x, s: np.rint(x * (np.float32(1) / s)))),
        "the frame to the chip",
    ),
    "saturation at 8 bits": (
        lambda patch: other(patch, "QuantizeLinear", quantize(lambda x, s: np.rint(x / s), least=-128, most=127)),
        "the frame to the chip",
    ),
    "one short of the greatest": (
        lambda patch: other(patch, "QuantizeLinear", quantize(lambda x, s: np.rint(x / s), most=6)),
        "the frame to the chip",
    ),
    "no transposition": (
        lambda patch: other(patch, "Transpose", lambda x, *, perm: x.reshape([x.shape[k] for k in perm])),
        "the frame to the chip",
    ),
    "bits the highest first": (
        lambda patch: patch.setattr(
            host_model,
            "in_turns",
            lambda *a: bytes(int(f"{byte:08b}"[::-1], 2) for byte in frames.in_turns(*a)),
        ),
        "the frame to the chip",
    ),
    "no sign": (lambda patch: patch.setattr(frames, "_signed", lambda port, values, bits: values), "the output"),
    "the zero point added": (
        lambda patch: other(
            patch, "DequantizeLinear", lambda x, scale, zero, *, axis=1: (x.astype(np.int64) + zero) * scale
        ),
        "the output",
    ),
    "a Softmax of large numbers": (
        lambda patch: other(patch, "Softmax", lambda x, *, axis: np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)),
        "the output",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_host_is_named(fault: str, design: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in, named = FAULTS[fault]
    file = written(design, tmp_path)
    put_in(monkeypatch)
    check = check_host(file, design, link_of(design, 24))
    assert check.wrong and named in check.difference
    with pytest.raises(UserError, match=named) as caught:
        require_same_host(tmp_path, design, link_of(design, 24))
    assert caught.value.exit_code is ExitCode.MISMATCH and caught.value.problems[0].code == "host-differs"


@pytest.mark.parametrize("side", ["streams_in", "values_out"])
def test_places_in_another_order_are_named(side: str, design: Design, tmp_path: Path) -> None:
    file = written(design, tmp_path)
    data = json.loads(file.read_text())
    data[side][0]["places"].sort()
    file.write_text(json.dumps(data))
    assert check_host(file, design, link_of(design, 24)).wrong


def test_constants_of_fewer_digits_are_named(design: Design, tmp_path: Path) -> None:
    file = written(design, tmp_path)
    data = json.loads(file.read_text())
    for constant in data["constants"].values():
        constant["data"] = [
            float(f"{number:.6g}") if isinstance(number, float) else number for number in constant["data"]
        ]
    file.write_text(json.dumps(data))
    assert check_host(file, design, link_of(design, 24)).wrong


def test_a_build_ends_with_a_wrong_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(tmp_path / "small.onnx")
    other(monkeypatch, "QuantizeLinear", quantize(lambda x, s: np.floor(x / s), least=-128, most=127))
    with pytest.raises(UserError, match="the frame to the chip"):
        build(model, board="ulx3s", out=tmp_path / "build", stop_after="assemble", witness=False, store=None)
