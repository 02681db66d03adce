"""Quantized ONNX models drawn by seed whose nodes on the host, before and after the hardware, share values.

Scales are powers of two, so that float32 is exact and whoever computes the model gets the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import onnx
from onnx import TensorProto, helper
from support.qdq_models import Sketch

CHANNELS, HEIGHT, WIDTH = 2, 3, 4
IMAGE = (1, CHANNELS, HEIGHT, WIDTH)
WORDS = 5  # rows of the embedding


@dataclass
class Cut:
    """A model under construction, quantized or of floats alone.

    The pools hold names of float values [1, 2, 3, 4] that may still be read.

    Attributes:
        host: what the host computes from graph inputs and constants.
        hard: what comes from the hardware: real numbers that integers stand for.
        outputs: everything that may be a graph output: name and element type.
    """

    seed: int
    quantized: bool = True
    sketch: Sketch = field(default_factory=Sketch)
    host: list[str] = field(default_factory=lambda: ["x"])
    hard: list[str] = field(default_factory=list)
    outputs: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.inputs = {"x": (TensorProto.FLOAT, IMAGE)}

    def one_of(self, names: list[str]) -> str:
        return names[self.random.integers(len(names))]

    def yes(self, share: float = 0.5) -> bool:
        return bool(self.random.random() < share)

    def node(self, op_type: str, *inputs: str, element: int = TensorProto.FLOAT, **attributes: object) -> str:
        name = self.sketch.node(op_type, *inputs, **attributes)
        self.outputs[name] = element
        return name

    def ints(self, *numbers: int) -> str:
        return self.sketch.constant(np.array(numbers, dtype=np.int64))

    # ---- on the host, before ----------------------------------------------------------------------------------------

    def before(self) -> None:
        makers = [self.embedded, self.scaled, self.stretched, self.of_shape, self.of_quantized_constant, self.chosen]
        for k in self.random.permutation(len(makers))[: self.random.integers(0, 4)]:
            makers[k]()

    def embedded(self) -> None:
        """Rows of quantized weights, looked up."""
        self.inputs["ids"] = (TensorProto.INT64, (1, CHANNELS * HEIGHT))  # type: ignore[assignment]
        rows = self.random.integers(-128, 128, (WORDS, WIDTH)).astype(np.int8)
        scale = np.float32(2**-3) if self.yes() else np.float32([2**-3, 2**-4, 1, 2**-2, 2**-5])
        table = self.sketch.dequantized(rows, scale, axis=0)
        found = self.sketch.node("Gather", table, "ids")
        self.host.append(self.node("Reshape", found, self.ints(*IMAGE)))

    def scaled(self) -> None:
        """By a graph input that is one number."""
        self.inputs["s"] = (TensorProto.FLOAT, ())  # type: ignore[assignment]
        self.host.append(self.node("Mul", self.one_of(self.host), "s"))

    def stretched(self) -> None:
        largest = self.node("ReduceMax", self.one_of(self.host), keepdims=0)
        self.host.append(self.node("Add", self.one_of(self.host), largest))

    def of_shape(self) -> None:
        """Constants, computed from shapes."""
        size = self.node("Shape", self.one_of(self.host), element=TensorProto.INT64)
        self.node("Cast", size, to=TensorProto.FLOAT)
        filled = self.node("ConstantOfShape", size)
        self.host.append(self.node("Sub", filled, self.one_of(self.host)))

    def of_quantized_constant(self) -> None:
        stored = self.random.integers(-128, 128, IMAGE).astype(np.int8)
        constant = self.sketch.dequantized(stored, np.float32(2**-4))
        self.outputs[constant] = TensorProto.FLOAT
        self.host.append(self.node("Neg", self.node("Add", self.one_of(self.host), constant)))

    def chosen(self) -> None:
        """By an If whose branches take values from around it."""
        self.host.append(self.branch(self.one_of(self.host), self.one_of(self.host)))

    def branch(self, yes: str, no: str) -> str:
        total = self.sketch.node("ReduceSum", self.one_of(self.host), keepdims=0)
        condition = self.node("Greater", total, self.sketch.constant(np.float32(0)), element=TensorProto.BOOL)
        graphs = {}
        for name, value in (("then_branch", yes), ("else_branch", no)):
            result = f"{name}{len(self.sketch.nodes)}"
            inner = helper.make_node("Abs", [value], [result])
            graphs[name] = helper.make_graph(
                [inner], name, [], [helper.make_tensor_value_info(result, TensorProto.FLOAT, IMAGE)]
            )
        return self.node("If", condition, **graphs)

    # ---- in hardware ------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Integers of a value of the host."""
        self.hard.append(self.through_integers(self.one_of(self.host)))

    def through_integers(self, value: str) -> str:
        if not self.quantized:
            return value
        scale, zero = 2.0 ** -self.random.integers(1, 4), int(self.random.integers(-9, 10))
        result = self.sketch.through_integers(value, scale, zero)
        self.outputs[self.sketch.nodes[-2].output[0]] = TensorProto.INT8
        self.outputs[result] = TensorProto.FLOAT
        return result

    def layer(self) -> None:
        weights = self.random.integers(-9, 10, (CHANNELS, CHANNELS, 1, 1)).astype(np.int8)
        if self.quantized:
            weights = self.sketch.dequantized(weights, np.float32(2**-3))  # type: ignore[assignment]
        else:
            weights = self.sketch.constant((weights / 8).astype(np.float32))  # type: ignore[assignment]
        sums = self.node("Conv", self.one_of(self.hard), weights)
        sums = self.node("Relu", sums) if self.yes(0.3) else sums
        self.hard.append(self.through_integers(sums))

    # ---- on the host, after -----------------------------------------------------------------------------------------

    def after(self) -> None:
        kind = self.random.integers(0, 7)
        value = self.one_of(self.hard)
        if kind == 0:
            value = self.node("Softmax", value, axis=-1)
        elif kind == 1:
            value = self.node("Where", self.node("Greater", value, self.one_of(self.host), element=TensorProto.BOOL),
                              value, self.one_of(self.host))  # fmt: skip
        elif kind == 2:
            value = self.node("Softmax", self.node("Add", value, self.one_of(self.hard)), axis=1)
        elif kind == 3:
            value = self.branch(value, self.one_of(self.host))
        elif kind == 4:
            places = self.sketch.node("NonZero", self.one_of(self.host))  # how many is known when the model runs
            count = self.node("Shape", places, element=TensorProto.INT64)
            value = self.node("Sub", value, self.sketch.node("ReduceMax", self.node("Cast", count, to=1), keepdims=0))
        elif kind == 5:
            value = self.node("CumSum", value, self.sketch.constant(np.int64(1)))
        else:
            value = self.node("Softmax", self.node("Concat", value, self.one_of(self.host), axis=1), axis=1)
            value = self.sketch.node("Slice", value, self.ints(1), self.ints(1 + CHANNELS), self.ints(1))
        self.node("Identity", value)

    # ---- the whole --------------------------------------------------------------------------------------------------

    def model(self) -> onnx.ModelProto:
        self.before()
        for _ in range(self.random.integers(1, 3)):
            self.enter()
        for _ in range(self.random.integers(1, 4)):
            self.layer()
        for _ in range(self.random.integers(0, 3)):
            self.after()
        kept = [name for name in self.outputs if self.yes(0.3)]
        last = self.hard[-1]
        names = [*kept, *([] if last in kept else [last])]
        self.random.shuffle(names)
        graph = helper.make_graph(
            self.sketch.nodes,
            "cut",
            [helper.make_tensor_value_info(name, *of) for name, of in self.inputs.items()],
            [helper.make_tensor_value_info(name, self.outputs[name], None) for name in names],
            self.sketch.constants,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made)

    def frames(self, count: int) -> dict[str, np.ndarray]:
        """Eighths, some of which saturate."""
        drawn = {}
        for name, (element, shape) in self.inputs.items():
            if element == TensorProto.INT64:
                drawn[name] = self.random.integers(0, WORDS, (count, *shape))
            else:
                drawn[name] = (self.random.integers(-200, 200, (count, *shape)) / 8).astype(np.float32)
        return drawn
