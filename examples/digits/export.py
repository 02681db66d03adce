"""Write the digits network as ONNX: float, and QDQ int8 with ranges seen on calibration images.

The int8 scheme is the usual one of exporters: activations per tensor, asymmetric; weights per output channel,
symmetric; biases int32 with scale (activation scale × weight scale). A max pool keeps its input's scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import onnx
from network import Activations, Array, Weights
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8


@dataclass(frozen=True)
class Range:
    """Scale and zero point of an int8 tensor."""

    scale: np.float32
    zero_point: np.int8

    @classmethod
    def of(cls, values: Array) -> Range:
        """Min–max over all values; 0 is always representable, as zero padding needs."""
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        scale = np.float32((high - low) / 255)
        return cls(scale, np.int8(np.rint(-128 - low / scale)))


class Writer:
    """Collects nodes and initializers of a graph, in order."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, array: Array) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op_type: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=f"{output}/{op_type}", **attributes))
        return output

    def model(self, name: str) -> onnx.ModelProto:
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])
        result = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])
        graph = helper.make_graph(self.nodes, name, [image], [result], self.initializers)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="digits example")
        onnx.checker.check_model(model, full_check=True)
        return model


class QdqWriter(Writer):
    """Adds the pairs of QuantizeLinear and DequantizeLinear."""

    def activation(self, name: str, range_: Range) -> str:
        """A float tensor through int8 and back."""
        parameters = [
            self.constant(f"{name}_scale", range_.scale),
            self.constant(f"{name}_zero_point", range_.zero_point),
        ]
        integers = self.node("QuantizeLinear", [name, *parameters], f"{name}_int8")
        return self.node("DequantizeLinear", [integers, *parameters], f"{name}_real")

    def weights(self, name: str, array: Array, bias: Array, input_scale: np.float32) -> list[str]:
        """Weights [out, ...] and bias [out] as dequantized constants."""
        largest = np.abs(array).reshape(len(array), -1).max(axis=1)
        scale = (largest / 127).astype(np.float32)
        integers = np.rint(array / scale.reshape(-1, *[1] * (array.ndim - 1))).astype(np.int8)
        zero_point = self.constant(f"{name}_weights_zero_point", np.zeros(len(array), dtype=np.int8))
        inputs = [self.constant(f"{name}_weights_int8", integers), self.constant(f"{name}_weights_scale", scale)]
        weights = self.node("DequantizeLinear", [*inputs, zero_point], f"{name}_weights", axis=0)
        bias_scale = input_scale * scale
        bias_integers = np.rint(bias / bias_scale).astype(np.int32)
        inputs = [
            self.constant(f"{name}_bias_int32", bias_integers),
            self.constant(f"{name}_bias_scale", bias_scale),
        ]
        return [weights, self.node("DequantizeLinear", inputs, f"{name}_bias", axis=0)]


def float_model(weights: Weights) -> onnx.ModelProto:
    """The trained network as it is."""
    w = Writer()
    x = "image"
    for k, (kernel, bias) in enumerate(((weights.conv1, weights.conv1_bias), (weights.conv2, weights.conv2_bias)), 1):
        constants = [w.constant(f"conv{k}_weights", kernel), w.constant(f"conv{k}_bias", bias)]
        x = w.node("Conv", [x, *constants], f"conv{k}_sums", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        x = w.node("Relu", [x], f"conv{k}")
        x = w.node("MaxPool", [x], f"pool{k}", kernel_shape=[2, 2], strides=[2, 2])
    x = w.node("Flatten", [x], "features")
    constants = [w.constant("dense_weights", weights.dense), w.constant("dense_bias", weights.dense_bias)]
    x = w.node("Gemm", [x, *constants], "scores", transB=1)
    w.node("Softmax", [x], "probabilities", axis=1)
    return w.model("digits_float")


def int8_model(weights: Weights, seen: Activations) -> onnx.ModelProto:
    """The network in QDQ form; ``seen`` holds the activations over the calibration images."""
    w = QdqWriter()
    image, conv1, conv2, scores = map(Range.of, (seen.image, seen.conv1, seen.conv2, seen.scores))
    x = w.activation("image", image)
    for k, kernel, bias, before, after in (
        (1, weights.conv1, weights.conv1_bias, image, conv1),
        (2, weights.conv2, weights.conv2_bias, conv1, conv2),
    ):
        constants = w.weights(f"conv{k}", kernel, bias, before.scale)
        x = w.node("Conv", [x, *constants], f"conv{k}_sums", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        x = w.activation(w.node("Relu", [x], f"conv{k}"), after)
        x = w.activation(w.node("MaxPool", [x], f"pool{k}", kernel_shape=[2, 2], strides=[2, 2]), after)
    x = w.activation(w.node("Flatten", [x], "features"), conv2)
    x = w.node("Gemm", [x, *w.weights("dense", weights.dense, weights.dense_bias, conv2.scale)], "scores", transB=1)
    w.node("Softmax", [w.activation(x, scores)], "probabilities", axis=1)
    return w.model("digits")
