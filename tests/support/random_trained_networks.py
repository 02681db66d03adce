"""Small float networks drawn by seed, whose weights and data are spread as those of trained networks are.

Weights have heavy tails (Student's t, 5 degrees of freedom), and some inputs count for more than others. Each channel
of a layer has a mean and a deviation of its own, as behind a BatchNormalization that was folded: for that the samples
are sent through the layers as they are drawn, by onnxruntime. Samples are smooth images or mixtures of a few numbers,
some of a greater contrast than others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnxruntime

import onnx
from onnx import TensorProto, helper, numpy_helper
from support.qdq_models import Sketch

OPSET = 17
EPSILON = 1e-3
"""What Keras adds to the variance in a BatchNormalization: dead outputs get large weights, not endless ones."""

ACTIVATIONS = ("Relu", "Relu", "Relu", "Relu", "Clip", "Clip", "LeakyRelu", "HardSwish")


@dataclass(frozen=True, eq=False)
class DrawnNetwork:
    """Attributes:
    model: from ``x`` to one output, with a batch of 1.
    samples: (samples, 1, *shape) float32.
    """

    kind: str
    seed: int
    model: onnx.ModelProto
    samples: np.ndarray

    def __repr__(self) -> str:
        return f"{self.kind}{self.seed}"


def drawn_network(seed: int, samples: int) -> DrawnNetwork:
    """Network ``seed``, the kinds of networks taking turns."""
    kind = KINDS[seed % len(KINDS)]
    drawing = _Drawing(seed, samples)
    output = kind(drawing)
    given = drawing.values["x"]
    outputs = drawing.values[output].shape[1]
    graph = helper.make_graph(
        drawing.sketch.nodes,
        f"{kind.__name__}{seed}",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, *given.shape[1:]))],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, (1, outputs))],
        drawing.sketch.constants,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    return DrawnNetwork(
        kind.__name__, seed, helper.make_model(graph, opset_imports=opsets, ir_version=8), given[:, None]
    )


class _Drawing:
    """A network under construction.

    Attributes:
        values: what each value is on the samples, (samples, *shape).
    """

    def __init__(self, seed: int, samples: int) -> None:
        self.random = np.random.default_rng(seed)
        self.count = samples
        self.sketch = Sketch(OPSET)
        self.values: dict[str, np.ndarray] = {}
        self.activation = ACTIVATIONS[self.number(0, len(ACTIVATIONS) - 1)]

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def yes(self, share: float = 0.5) -> bool:
        return bool(self.random.random() < share)

    # ---- samples ----------------------------------------------------------------------------------------------------

    def contrasts(self, rank: int) -> np.ndarray:
        return self.random.lognormal(0, 0.35, (self.count, *[1] * rank))

    def image(self) -> str:
        """Smooth, (1 or 3 channels, side, side): pixels of 8 bits as 0 .. 1, or numbers about 0."""
        channels, side = 1 if self.yes(0.3) else 3, 4 * self.number(3, 5)
        coarse, fine = (self.random.normal(0, 1, (self.count, channels, side // k, side // k)) for k in (4, 1))
        field = coarse.repeat(4, axis=2).repeat(4, axis=3)
        for axis in (2, 3):
            field = (np.roll(field, 1, axis) + field + np.roll(field, -1, axis)) / 3
        field = (field + 0.2 * fine) * self.contrasts(3) + 0.3 * self.random.normal(0, 1, (self.count, 1, 1, 1))
        if self.yes():
            field = np.clip(np.rint(128 + 64 * field), 0, 255) / 255
        return self.given(field)

    def vector(self) -> str:
        """A few numbers, each of which moves many."""
        width = self.number(20, 64)
        latent = self.random.normal(0, 1, (self.count, width // 4)) * self.contrasts(1)
        mixture = self.random.normal(0, (width // 4) ** -0.5, (width // 4, width))
        return self.given(latent @ mixture + 0.1 * self.random.normal(0, 1, (self.count, width)))

    def given(self, samples: np.ndarray) -> str:
        self.values["x"] = samples.astype(np.float32)
        return "x"

    # ---- layers -----------------------------------------------------------------------------------------------------

    def add(self, op_type: str, *inputs: str, **attributes: object) -> str:
        """A node, computed on the samples."""
        output = self.sketch.node(op_type, *inputs, **attributes)
        constants = [c for c in self.sketch.constants if c.name in inputs]
        self.values[output] = _computed(self.sketch.nodes[-1], self.values, constants)
        return output

    def act(self, x: str) -> str:
        if self.activation == "Clip":
            return self.add("Clip", x, *(self.sketch.constant(np.float32(bound)) for bound in (0, 6)))
        return self.add(self.activation, x)

    def weights(self, *shape: int) -> np.ndarray:
        """(outputs, inputs, ...)."""
        importance = self.random.lognormal(0, 0.5, (1, shape[1], *[1] * (len(shape) - 2)))
        return self.random.standard_t(5, shape) * importance

    def product(
        self, op_type: str, x: str, weights: np.ndarray, means: np.ndarray, spreads: np.ndarray, **how: object
    ) -> str:
        """A layer whose outputs have these means and standard deviations, (outputs,) each."""
        probe = helper.make_node(op_type, [x, "weights"], ["y"], **how)
        given = numpy_helper.from_array(weights.astype(np.float32), "weights")
        sums = _computed(probe, self.values, [given]).astype(np.float64)
        places = (0, *range(2, sums.ndim))
        factors = spreads / np.sqrt(sums.var(axis=places) + EPSILON)
        biases = means - sums.mean(axis=places) * factors
        scaled = weights * factors.reshape(-1, *[1] * (weights.ndim - 1))
        constants = (self.sketch.constant(array.astype(np.float32)) for array in (scaled, biases))
        return self.add(op_type, x, *constants, **how)

    def normalized(self, op_type: str, x: str, weights: np.ndarray, **how: object) -> str:
        """As behind a BatchNormalization."""
        spreads = self.random.lognormal(0, 0.5, len(weights))
        return self.product(op_type, x, weights, self.random.normal(-0.2, 0.6, len(weights)), spreads, **how)

    def conv(self, x: str, outputs: int, kernel: int, stride: int = 1, *, depthwise: bool = False) -> str:
        inputs = self.values[x].shape[1]
        weights = self.weights(outputs, 1 if depthwise else inputs, kernel, kernel)
        how = {"pads": [kernel // 2] * 4, "strides": [stride] * 2, "group": inputs if depthwise else 1}
        return self.normalized("Conv", x, weights, **how)

    def dense(self, x: str, outputs: int) -> str:
        return self.normalized("Gemm", x, self.weights(outputs, self.values[x].shape[1]), transB=1)

    def classes(self, x: str) -> str:
        """What is said of each of a few classes."""
        if self.values[x].ndim > 2:
            elements = int(np.prod(self.values[x].shape[1:]))
            x = x if elements < 400 and self.yes(0.4) else self.add("GlobalAveragePool", x)
            x = self.add("Flatten", x)
        outputs = self.number(2, 10)
        weights = self.weights(outputs, self.values[x].shape[1])
        return self.product("Gemm", x, weights, self.random.normal(0, 2, outputs), np.full(outputs, 3.0), transB=1)

    def channels(self) -> int:
        return 4 * self.number(2, 5)


def _computed(node: onnx.NodeProto, values: Mapping[str, np.ndarray], constants: list[onnx.TensorProto]) -> np.ndarray:
    """(samples, *shape) by onnxruntime."""
    feeds = {name: values[name] for name in node.input if name in values}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in feeds.items()]
    output = helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "node", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # others would spin on the cores of other tests
    options.intra_op_num_threads = 1
    (found,) = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)
    return found


# ---- networks -------------------------------------------------------------------------------------------------------


def dense(d: _Drawing) -> str:
    x = d.vector()
    for _ in range(d.number(1, 3)):
        x = d.act(d.dense(x, 8 * d.number(2, 6)))
    return d.classes(x)


def convolutions(d: _Drawing) -> str:
    x = d.image()
    for _ in range(d.number(2, 4)):
        x = d.act(d.conv(x, d.channels(), 5 if d.yes(0.3) else 3))
        if d.yes(0.6) and d.values[x].shape[2] > 3:
            x = d.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    return d.classes(x)


def residual(d: _Drawing) -> str:
    x = d.act(d.conv(d.image(), d.channels(), 3))
    for _ in range(d.number(2, 3)):
        inputs = d.values[x].shape[1]
        outputs, stride = (inputs, 1) if d.yes() else (inputs + 4, 2)
        y = d.conv(d.act(d.conv(x, outputs, 3, stride)), outputs, 3)
        way = x if stride == 1 else d.conv(x, outputs, 1, stride)
        x = d.act(d.add("Add", y, way))
    return d.classes(x)


def depthwise(d: _Drawing) -> str:
    """Separable convolutions, or inverted residuals, whose last product is linear."""
    x = d.act(d.conv(d.image(), d.channels(), 3, 2))
    inverted = d.yes()
    for _ in range(d.number(2, 4)):
        inputs = d.values[x].shape[1]
        y = d.act(d.conv(x, 2 * inputs, 1)) if inverted else x
        wide = d.values[y].shape[1]
        y = d.act(d.conv(y, wide, 3, depthwise=True))
        y = d.conv(y, inputs if inverted else d.channels(), 1)
        x = d.add("Add", x, y) if inverted else d.act(y)
    return d.classes(x)


KINDS: tuple[Callable[[_Drawing], str], ...] = (dense, convolutions, residual, depthwise)
