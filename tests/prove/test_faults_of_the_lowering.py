"""Deliberate faults in lowering and boundary code, one at a time: every build must end with exit code 4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnx
from onnx import TensorProto
from onnx_hw.commands.build import build
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.lower import host_dequantize
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.ops import LOWERINGS, activation, conv, data_movement, matmul, pool, qdq
from onnx_hw.lower.values import concat
from onnx_hw.lower.values import sum as pending_sum
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.onnx.canonicalize import decompose_qoperators, fold_scales_into_weights
from onnx_hw.ops.window import Window
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.stage import Stage
from support.qdq_models import Sketch

Patch = Callable[[pytest.MonkeyPatch], None]
SHAPE = (1, 2, 5, 5)


class Net(Sketch):
    """A float input, integers, one operator, integers."""

    def __init__(self, shape: Sequence[int] = SHAPE, opset: int = 17) -> None:
        super().__init__(opset)
        self.random = np.random.default_rng(3)
        self.shape = shape
        self.x = self.through_integers("x", 0.05, 13)

    def weights(self, *shape: int, axis: int = 0) -> str:
        integers = self.random.integers(-90, 90, shape).astype(np.int8)
        scales = self.random.uniform(0.005, 0.02, shape[axis])
        return self.dequantized(integers, scales, np.zeros(shape[axis], dtype=np.int8), axis=axis)

    def conv(self, outputs: int, *kernel: int, bias: bool = False, **attributes: object) -> str:
        inputs = self.shape[1] // int(attributes.get("group", 1))  # type: ignore[call-overload]
        more = [self.constant(self.random.normal(0, 2, outputs).astype(np.float32))] if bias else []
        return self.node("Conv", self.x, self.weights(outputs, inputs, *kernel), *more, **attributes)

    def end(self, folder: Path, value: str, *, scale: float = 0.07, zero: int = -9, rank: int = 4) -> Path:
        dtype = np.uint8 if zero > 127 else np.int8
        return self.write(folder / "m.onnx", self.shape, self.through_integers(value, scale, zero, dtype), rank)


# ---- the models -----------------------------------------------------------------------------------------------------


def padded_conv(folder: Path) -> Path:
    net = Net()
    return net.end(folder, net.conv(3, 3, 3, bias=True, pads=[2, 0, 0, 1]))


def strided_conv(folder: Path) -> Path:
    net = Net()
    return net.end(folder, net.conv(3, 1, 1, strides=[2, 1]))


def dilated_conv(folder: Path) -> Path:
    net = Net()
    return net.end(folder, net.conv(3, 2, 2, dilations=[2, 2], pads=[0, 0, 1, 1]))


def grouped_conv(folder: Path) -> Path:
    net = Net((1, 4, 3, 3))
    return net.end(folder, net.conv(4, 2, 2, group=2))


def unsigned(folder: Path) -> Path:
    net = Net()
    return net.end(folder, net.conv(3, 3, 3), zero=130)


def relu(folder: Path) -> Path:
    net = Net()
    return net.end(folder, net.node("Relu", net.conv(3, 3, 3)))


def float_end(folder: Path) -> Path:
    net = Net()
    return net.write(folder / "m.onnx", net.shape, net.conv(3, 3, 3, bias=True), 4)


def flattened(folder: Path) -> Path:
    net = Net((1, 2, 2, 2))
    flat = net.node("Flatten", net.through_integers(net.conv(3, 1, 1), 0.05, 3))
    return net.end(folder, net.node("MatMul", flat, net.weights(12, 5, axis=1)), rank=2)


def square_product(folder: Path) -> Path:
    net = Net((1, 6))
    weights = net.dequantized(net.random.integers(-90, 90, (6, 6)).astype(np.int8), np.array(0.011))
    return net.end(folder, net.node("MatMul", net.x, weights), rank=2)


def average(folder: Path) -> Path:
    net = Net()
    return net.end(folder, net.node("AveragePool", net.x, kernel_shape=[2, 2]), scale=0.031)


def maximum(folder: Path) -> Path:
    net = Net()
    net.x = net.through_integers(net.node("Neg", net.node("Relu", net.x)), 0.05, 100)
    return net.end(folder, net.node("MaxPool", net.x, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), scale=0.05)


def residual(folder: Path) -> Path:
    net = Net()
    other = net.through_integers(net.conv(2, 3, 3, pads=[1, 1, 1, 1]), 0.11, 4)
    return net.end(folder, net.node("Add", net.x, other))


def concatenated(folder: Path) -> Path:
    net = Net()
    parts = [net.through_integers(net.conv(2, 1, 1), scale, 3) for scale in (0.05, 0.09)]
    return net.end(folder, net.node("Concat", *parts, axis=1))


def moved(
    op_type: str, *inputs: np.ndarray, shape: Sequence[int] = SHAPE, **attributes: object
) -> Callable[[Path], Path]:
    """An operator that moves elements, before a product."""

    def build(folder: Path) -> Path:
        net = Net(shape)
        names = [net.constant(array) if array.size else "" for array in inputs]
        net.x = net.through_integers(net.node(op_type, net.x, *names, **attributes), 0.05, 13)
        return net.end(folder, net.conv(3, 2, 2))

    return build


def integers_out(folder: Path) -> Path:
    """Integers go in and come out: the host only puts them in order."""
    net = Net()
    made = net.through_integers(net.conv(3, 2, 2), 0.07, -9)
    (stored,) = (node.input[0] for node in net.nodes if made in node.output)
    onnx.save(net.model(SHAPE, TensorProto.FLOAT, stored, 4), folder / "m.onnx")
    return folder / "m.onnx"


def integer_operator(folder: Path) -> Path:
    """A QLinearConv."""
    net = Sketch()
    random = np.random.default_rng(4)
    steps = [np.float32(0.05), np.int8(13)], [np.float32(0.011), np.int8(0)], [np.float32(0.09), np.int8(-9)]
    scales = [[net.constant(np.array(number)) for number in pair] for pair in steps]
    weights = net.constant(random.integers(-90, 90, (3, 2, 2, 2)).astype(np.int8))
    x = net.node("QuantizeLinear", "x", *scales[0])
    y = net.node("QLinearConv", x, *scales[0], weights, *scales[1], *scales[2])
    return net.write(folder / "m.onnx", SHAPE, net.node("DequantizeLinear", y, *scales[2]))


def float_model(folder: Path) -> Path:
    """A convolution and a factor per channel."""
    net = Sketch()
    random = np.random.default_rng(5)
    weights, factors = (net.constant(random.normal(0, 1, s).astype(np.float32)) for s in ((3, 2, 2, 2), (3, 1, 1)))
    y = net.node("Relu", net.node("Mul", net.node("Conv", "x", weights), factors))
    return net.write(folder / "m.onnx", SHAPE, y)


# ---- the faults -----------------------------------------------------------------------------------------------------


def calling(module: object, name: str, change: Callable[..., Any]) -> Patch:
    """``change(original, *arguments)`` in the place of a function."""
    original = getattr(module, name)

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, name, lambda *given, **named: change(original, *given, **named))

    return patch


def changed(module: object, name: str, **fields: Callable[[Any], Any]) -> Patch:
    """What a function returns, with fields of it changed."""

    def change(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        made = original(*given, **named)
        return replace(made, **{key: new(getattr(made, key)) for key, new in fields.items()})

    return calling(module, name, change)


def lowered(op_type: str, change: Callable[..., None]) -> Patch:
    original = LOWERINGS["", op_type]
    return lambda monkeypatch: monkeypatch.setitem(LOWERINGS, ("", op_type), lambda b, node: change(original, b, node))


def unordered(network: Network) -> Network:
    """The host takes the stream for the model's own order."""

    def plain(boundaries: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(replace(b, order=np.arange(b.order.size)) for b in boundaries)

    return replace(network, inputs=plain(network.inputs), outputs=plain(network.outputs))


def rolled(original: Callable[..., Any], *given: Any, **named: Any) -> list[np.ndarray]:
    """The elements of a moving operator, one place off."""
    return [np.roll(result, 1) for result in original(*given, **named)]


def other_perm(original: Callable[..., None], builder: Builder, node: Any) -> None:
    original(builder, replace(node, attributes={"perm": tuple(np.argsort(node.attributes["perm"]))}))


FAULTS: dict[str, tuple[Callable[[Path], Path], Patch]] = {
    "padded with 0, not with the zero point": (
        padded_conv,
        calling(conv, "Window", lambda _, *given: Window(*given[:-1], 0)),  # type: ignore[call-arg]
    ),
    "pads of top and bottom exchanged": (
        padded_conv,
        changed(conv, "kernel_of", pads=lambda p: (p[2], p[1], p[0], p[3])),
    ),
    "channels in another order after Flatten": (
        flattened,
        calling(Builder, "vector", lambda original, *given: (original(*given)[0], np.arange(12))),
    ),
    "no correction for the zero point": (
        padded_conv,
        changed(conv, "columns_of", offset=lambda numbers: (Fraction(0),) * len(numbers)),
    ),
    "an average of one more": (
        average,
        calling(pool, "_counts", lambda original, *given: original(*given) + 1),
    ),
    "parts of a Concat reversed": (
        concatenated,
        calling(
            concat, "concatenated", lambda original, b, node, parts, *given: original(b, node, parts[::-1], *given)
        ),
    ),
    "the host ignores the order of the input": (
        padded_conv,
        calling(golden, "integers_of", lambda original, network, frames: original(unordered(network), frames)),
    ),
    "the host ignores the order of the output": (
        integers_out,
        calling(golden, "outputs_of", lambda original, network, *given: original(unordered(network), *given)),
    ),
    "groups read each other's channels": (
        grouped_conv,
        calling(conv, "ungrouped", lambda original, weights, group: original(weights, group)[:, ::-1]),
    ),
    "strides exchanged": (strided_conv, changed(conv, "kernel_of", strides=lambda s: s[::-1])),
    "dilations ignored": (
        dilated_conv,
        changed(conv, "kernel_of", dilations=lambda _: (1, 1), pads=lambda p: (p[0], p[1], p[2] - 1, p[3] - 1)),
    ),
    "the bias of another channel": (
        padded_conv,
        calling(conv, "bias_of", lambda original, *given: (*original(*given)[1:], original(*given)[0])),
    ),
    "zero points of weights ignored": (
        integer_operator,
        calling(qdq, "dequantized_constant", lambda original, stored, *given: original(stored + 1, *given)),
    ),
    "weights not transposed": (square_product, calling(matmul, "_transposed", lambda _, weights: weights)),
    "a Relu without effect": (
        relu,
        calling(activation, "_bound", lambda original, builder, node, low, high: original(builder, node, None, high)),
    ),
    "scales of a sum exchanged": (
        residual,
        calling(
            pending_sum,
            "choose_weighted_sum",
            lambda original, slopes, *given, **to: original(slopes[::-1], *given, **to),
        ),
    ),
    "a maximum padded with 0": (
        maximum,
        calling(pool, "pool_of", lambda original, tensor, kind, kernel, _: original(tensor, kind, kernel, 100)),
    ),
    "a zero point of uint8 taken for int8": (
        unsigned,
        calling(qdq, "_zero_point", lambda original, *given: original(*given).astype(np.int8)),
    ),
    "a Transpose the other way": (
        moved("Transpose", perm=[0, 2, 3, 1], shape=(1, 4, 4, 4)),
        lowered("Transpose", other_perm),
    ),
    "a Slice off by one": (
        moved("Slice", *(np.array([n], dtype=np.int64) for n in (1, 5, 2))),
        calling(data_movement, "_run", rolled),
    ),
    "a Resize off by one": (
        moved("Resize", np.array([]), np.array([1, 1, 2, 2], dtype=np.float32), mode="nearest"),
        calling(data_movement, "_run", rolled),
    ),
    "the scale of another operand": (
        integer_operator,
        calling(
            decompose_qoperators._QOperatorRewriter,
            "_between_integers",
            lambda original, self, node, means, _: original(self, node, means, 1),
        ),
    ),
    "the host forgets the bias": (
        float_end,
        calling(
            host_dequantize.HostDequantizer,
            "_constant",
            lambda original, self, name, what, value: original(self, name, what, replace(value, offset=(0,))),
        ),
    ),
    "factors of other channels": (
        float_model,
        calling(
            fold_scales_into_weights._Folding,
            "_scaled_product",
            lambda original, self, node, column: original(self, node, column[::-1]),
        ),
    ),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("fault", FAULTS)
def test_the_build_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    model, patch = FAULTS[fault]
    options = BuildOptions(model=model(tmp_path), out=tmp_path / "out", stop_after=Stage.QUANTIZE)
    found = build(options).report.reference
    assert found is not None and found.frames == 4 and found.worst <= 1
    assert found.equal + found.one_step == found.values_compared
    patch(monkeypatch)
    with pytest.raises(UserError) as caught:
        build(options)
    assert caught.value.exit_code is ExitCode.MISMATCH
    assert "`" in str(caught.value)
