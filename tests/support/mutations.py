"""Semantic mutants of small networks: files that are messages, and mostly nearly models.

A mutant is drawn by a number alone: a float network or a quantized one, then one to three changes that a person, an
exporter or an attacker might make.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

import onnx
from onnx import TensorProto, helper, numpy_helper
from support.random_float_models import FloatDrawing

NUMBERS = (0, 1, -1, 2, 3, 4, 5, 7, 8, -2, -3, 16, 63, 255, 1000, 65504, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-3, 1e-30, 1e30, -1e30, float("nan"), float("inf"), float("-inf"), 3.7)
LENGTHS = (0, 1, 2, 3, 5, 8, 17, 64, 300, 65504, 1 << 31, 1 << 40)
TYPES = tuple(number for number in TensorProto.DataType.values() if number)
WORDS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "linear", "nearest", "cubic", "constant", "reflect", "edge",
         "floor", "asymmetric", "align_corners", "DCR", "CRD", "none", "tanh", "")  # fmt: skip
UNARY = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Exp", "Log", "Sqrt", "Identity", "Softmax", "Erf", "Sign", "Floor",
         "Shape", "Size", "Flatten", "Squeeze", "Transpose", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean",
         "ReduceSum", "ReduceMax", "ArgMax", "Reciprocal", "Not", "NonZero", "Cast", "Dropout", "LeakyRelu", "Elu",
         "HardSwish", "Clip", "LogSoftmax", "Hardmax", "IsNaN", "CumSum", "LRN", "Det")  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "MatMul", "Concat", "PRelu", "Where", "Equal", "Greater",
          "Mod", "Sum", "Mean", "Gather", "Expand", "Reshape", "Tile", "Gemm", "Conv")  # fmt: skip


def mutant(number: int) -> onnx.ModelProto:
    """The mutant of this number."""
    draw = random.Random(number)
    model = (
        float_network(draw.randrange(1 << 30)) if draw.random() < 0.5 else quantized_network(draw.randrange(1 << 30))
    )
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        with suppress(IndexError, ValueError, TypeError, OverflowError):  # there is nothing of that kind to change
            draw.choice(CHANGES)(model, draw)
    return model


# ---- what is changed ------------------------------------------------------------------------------------------------


def float_network(seed: int) -> onnx.ModelProto:
    """One to three layers, up to some hundred elements."""
    drawing = FloatDrawing(seed)
    inputs, outputs = drawing.draw(seed % 3)
    graph = helper.make_graph(
        drawing.sketch.nodes,
        "mutant",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        drawing.sketch.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", drawing.sketch.opset)], ir_version=8)


def quantized_network(seed: int) -> onnx.ModelProto:
    """The same with QuantizeLinear and DequantizeLinear around its products."""
    model, generator = float_network(seed), np.random.default_rng(seed)
    graph = model.graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes: list[onnx.NodeProto] = []

    def constant(name: str, array: np.ndarray) -> str:
        graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def through(name: str, result: str) -> None:
        scale = constant(f"{result}/s", np.float32(generator.uniform(0.01, 0.1)))
        zero = constant(f"{result}/z", np.array(generator.integers(-20, 21), np.int8))
        nodes.append(helper.make_node("QuantizeLinear", [name, scale, zero], [f"{result}/q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{result}/q", scale, zero], [result]))

    for number, node in enumerate(graph.node):
        if node.op_type in ("Conv", "Gemm", "MatMul"):
            through(node.input[0], f"in{number}")
            node.input[0] = f"in{number}"
            weights, name = arrays[node.input[1]], f"w{number}"
            step = np.float32(max(float(np.abs(weights).max()), 1e-3) / 127)
            integers = constant(f"{name}/i", np.rint(weights / step).astype(np.int8))
            nodes.append(helper.make_node("DequantizeLinear", [integers, constant(f"{name}/s", step)], [name]))
            node.input[1] = name
        if node.op_type in ("Conv", "Gemm", "MatMul", "Add", "Sub", "Mul", "Concat", "Sigmoid"):
            result, node.output[0] = node.output[0], f"{node.output[0]}/real"
            nodes.append(node)
            through(node.output[0], result)
        else:
            nodes.append(node)
    ordered = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(ordered)
    return model


# ---- changes --------------------------------------------------------------------------------------------------------


def _number(draw: random.Random) -> int:
    """Mostly one that fits somewhere."""
    return draw.choice(NUMBERS[:7] if draw.random() < 0.8 else NUMBERS)


def _schema(node: onnx.NodeProto) -> dict[str, Any]:
    try:
        return dict(onnx.defs.get_schema(node.op_type, 18, node.domain).attributes)
    except onnx.defs.SchemaError:
        return {}


def _drawn_attribute(name: str, kind: int, draw: random.Random) -> onnx.AttributeProto | None:
    match kind:
        case onnx.AttributeProto.INT:
            return helper.make_attribute(name, _number(draw))
        case onnx.AttributeProto.INTS:
            numbers = [_number(draw) for _ in range(draw.choice((0, 1, 2, 2, 3, 4, 4)))]
            return helper.make_attribute(name, numbers, attr_type=kind)
        case onnx.AttributeProto.FLOAT:
            return helper.make_attribute(name, draw.choice(FLOATS))
        case onnx.AttributeProto.STRING:
            return helper.make_attribute(name, draw.choice(WORDS))
    return None


def attribute(model: onnx.ModelProto, draw: random.Random) -> None:
    """Another number in an attribute, or one more, or one less."""
    node = draw.choice(model.graph.node)
    if not node.attribute or draw.random() < 0.4:
        known = _schema(node)
        name = draw.choice(sorted(known))
        made = _drawn_attribute(name, int(known[name].type.value), draw)
        kept = [other for other in node.attribute if other.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, *([made] if made is not None else [])])
        return
    changed = draw.choice(node.attribute)
    if draw.random() < 0.15:
        node.attribute.remove(changed)
    elif changed.type == onnx.AttributeProto.INT:
        changed.i = _number(draw)
    elif changed.type == onnx.AttributeProto.INTS and changed.ints:
        if draw.random() < 0.1:
            changed.ints.append(_number(draw))
        else:
            changed.ints[draw.randrange(len(changed.ints))] = _number(draw)
    elif changed.type == onnx.AttributeProto.FLOAT:
        changed.f = draw.choice(FLOATS)
    else:
        changed.s = draw.choice(WORDS).encode()


def inputs(model: onnx.ModelProto, draw: random.Random) -> None:
    """A node reads something else: swapped, omitted, repeated, from elsewhere."""
    place = draw.randrange(len(model.graph.node))
    node = model.graph.node[place]
    if not node.input:
        return
    at = draw.randrange(len(node.input))
    match draw.randrange(5):
        case 0:
            other = draw.randrange(len(node.input))
            node.input[at], node.input[other] = node.input[other], node.input[at]
        case 1:
            node.input[at] = ""
        case 2:
            del node.input[at]
        case 3:
            node.input.append(draw.choice(_before(model, place)))
        case _:
            node.input[at] = draw.choice(_before(model, place))


def nodes(model: onnx.ModelProto, draw: random.Random) -> None:
    """One less, one twice, one more, one of another kind."""
    graph = model.graph
    at = draw.randrange(len(graph.node))
    node = graph.node[at]
    match draw.randrange(5):
        case 0 if node.input and len(graph.node) > 1:
            _rename(graph.node, node.output[0], node.input[0])
            del graph.node[at]
        case 1:
            copy = onnx.NodeProto.FromString(node.SerializeToString())
            copy.input[0], copy.output[0], copy.name = node.output[0], f"{node.output[0]}/again", ""
            _insert(graph, at + 1, copy, node.output[0])
        case 2:
            node.op_type = draw.choice(UNARY if len(node.input) == 1 else BINARY)
            kept = [other for other in node.attribute if other.name in _schema(node)]
            del node.attribute[:]
            node.attribute.extend(kept)
        case 3:
            extra = helper.make_node(draw.choice(BINARY), [node.output[0], draw.choice(_before(model, at))], ["extra"])
            _insert(graph, at + 1, extra, node.output[0])
        case _:
            extra = helper.make_node(draw.choice(UNARY), [node.output[0]], [f"{node.output[0]}/extra"])
            _insert(graph, at + 1, extra, node.output[0])


def constants(model: onnx.ModelProto, draw: random.Random) -> None:
    """Other numbers, another shape or another type in a constant."""
    tensor = draw.choice(model.graph.initializer)
    array = numpy_helper.to_array(tensor)
    with np.errstate(all="ignore"):
        match draw.randrange(6):
            case 0 if array.size:
                array = array.copy()
                flat = array.reshape(-1)
                number = draw.choice(FLOATS if array.dtype.kind == "f" else NUMBERS[:14])
                flat[draw.randrange(flat.size)] = np.array(number).astype(array.dtype)
            case 1:
                number = draw.choice(FLOATS if array.dtype.kind == "f" else NUMBERS[:14])
                array = np.full(array.shape, np.array(number).astype(array.dtype), array.dtype)
            case 2:
                array = array[..., None] if draw.random() < 0.5 else array.reshape(-1)
            case 3:
                array = (
                    array.reshape(-1)[:1].reshape(()) if array.size and draw.random() < 0.6 else array.reshape(-1)[:0]
                )
            case 4:
                array = np.concatenate([array.reshape(-1)] * 2) if draw.random() < 0.5 else array.T
            case _:
                array = np.nan_to_num(array).astype(
                    draw.choice((np.float16, np.float64, np.int8, np.uint8, np.int32, np.int64, np.bool_, np.float32))
                )
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), tensor.name))


def borders(model: onnx.ModelProto, draw: random.Random) -> None:
    """Another shape or type of an input, another output."""
    graph = model.graph
    value = draw.choice(graph.input)
    dims = value.type.tensor_type.shape.dim
    match draw.randrange(6):
        case 0 | 1 if dims:
            dims[draw.randrange(len(dims))].dim_value = draw.choice(LENGTHS)
        case 2 if dims:
            dims[draw.randrange(len(dims))].dim_param = draw.choice(("N", "M", "batch"))
        case 3:
            value.type.tensor_type.elem_type = draw.choice(TYPES)
        case 4:
            if dims and draw.random() < 0.5:
                del dims[draw.randrange(len(dims))]
            else:
                dims.add().dim_value = draw.choice(LENGTHS[:6])
        case _:
            name = draw.choice(_names(model))
            if all(known.name != name for known in graph.output):
                graph.output.append(helper.make_tensor_value_info(name, draw.choice((1, 1, 3, 7)), None))


def versions(model: onnx.ModelProto, draw: random.Random) -> None:
    model.opset_import[0].version = draw.randrange(6, 27)
    model.ir_version = draw.choice((7, 8, 9, 10, 11, 12, 13))


def cut(model: onnx.ModelProto, draw: random.Random) -> None:
    """An input becomes a constant, or a constant an input."""
    graph = model.graph
    if draw.random() < 0.5:
        value = draw.choice(graph.input)
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if np.prod(shape, dtype=object) <= 4096 and value.type.tensor_type.elem_type == 1:
            graph.initializer.append(numpy_helper.from_array(np.full(shape, 0.25, np.float32), value.name))
            graph.input.remove(value)
        return
    tensor = draw.choice(graph.initializer)
    graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    graph.initializer.remove(tensor)


CHANGES: tuple[Callable[[onnx.ModelProto, random.Random], None], ...] = (
    attribute, attribute, attribute, inputs, inputs, nodes, nodes, constants, constants, borders, versions, cut
)  # fmt: skip


def _names(model: onnx.ModelProto) -> list[str]:
    graph = model.graph
    names = [value.name for value in (*graph.input, *graph.initializer)]
    return names + [name for node in graph.node for name in node.output if name]


def _before(model: onnx.ModelProto, at: int) -> list[str]:
    """What a node at this place may read."""
    graph = model.graph
    made = [name for node in graph.node[:at] for name in node.output if name]
    return [value.name for value in graph.input] * 2 + made * 2 + [tensor.name for tensor in graph.initializer]


def _rename(nodes: Any, old: str, new: str) -> None:
    for node in nodes:
        for k, name in enumerate(node.input):
            if name == old:
                node.input[k] = new


def _insert(graph: onnx.GraphProto, at: int, node: onnx.NodeProto, behind: str) -> None:
    """A node at a place; who has read what it stands behind reads its result."""
    _rename(graph.node[at:], behind, node.output[0])
    graph.node.insert(at, node)
