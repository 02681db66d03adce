"""The way converters from Keras write: one node group per layer, nothing folded, Identity and Softmax at the end."""

from __future__ import annotations

import numpy as np

from support.exports.export import Export, Map
from support.exports.tensorflow_style import TensorFlowExport


class KerasExport(TensorFlowExport):
    """Normalization is a node of its own; the batch has a name, or none."""

    opsets = (11, 12, 13, 15)  # type: ignore[assignment]
    batches = ("N", "N", 1)  # type: ignore[assignment]
    graph_name = "sequential"
    producer = "keras2onnx"

    def __init__(self, random: np.random.Generator) -> None:
        super().__init__(random)
        self.lite = False
        self.each_layer = self.yes(0.3)
        self.normalization_as = self.pick("folded", "node")
        self.by_image = True
        self.normalization = {"epsilon": 1e-3, "momentum": 0.99}

    def value_name(self, op_type: str) -> str:
        k = self.numbered()
        names = {"Conv": "convolution_output", "Transpose": "adjusted_input", "Add": "biased_tensor_name"}
        return f"{names.get(op_type, op_type.lower() + '_output')}{k}"

    def node_name(self, op_type: str, output: str) -> str:
        return f"{op_type.lower()}_{len(self.nodes)}"

    def weight_name(self, what: str) -> str:
        k = self.numbered()
        return f"conv2d_{k}/{what}:0" if self.yes() else f"W{k}"

    def summary(self, x: Map) -> Map:
        pooled = Export.summary(self, x) if self.yes(0.3) else None
        if pooled is not None:
            return pooled
        axes = range(1, len(x.size) + 1) if x.last else range(2, len(x.shape))
        return Map(self.with_axes("Squeeze", self.means(x).name, axes), (1, x.channels))

    def output(self, x: Map) -> None:
        super().output(self.follow("Identity", self.behind(x)) if self.yes(0.4) else x)
