"""Operators in a hop: what a node over a whole sequence becomes when some of the steps come at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from onnx_hw.onnx.graph.model import Node, Value
from onnx_hw.onnx.load.hop_builder import HopBuilder, IndivisibleHop, OverTime
from onnx_hw.onnx.operators.facts import SCALE_EFFECTS, Effect
from onnx_hw.onnx.operators.pooling import pool_window
from onnx_hw.onnx.operators.reduction import reduced_axes
from onnx_hw.onnx.operators.registry import facts_of
from onnx_hw.onnx.operators.softmax import softmax_axes

ELEMENTWISE = frozenset(
    (Effect.ADDS, Effect.SCALES, Effect.AFFINE, Effect.BOUNDS, Effect.BENDS, Effect.DECIDES, *SCALE_EFFECTS)
)
"""Effects of operators that treat every step alike, where their constants do not differ from step to step."""

RECURRENT = {"RNN": 1, "GRU": 1, "LSTM": 2}
"""Numbers of states of recurrent operators."""

SOFTMAXES = ("Softmax", "LogSoftmax", "Hardmax")
"""Operators with the axes of a Softmax."""

PER_CHANNEL = ("BatchNormalization", "PRelu")
"""Operators whose constants of one axis belong to axis 1."""


def elementwise(builder: HopBuilder, node: Node) -> None:
    """Stream a node that treats every element alike."""
    names, time = builder.aligned(node)
    rank = len(builder.shape_of(node.outputs[0]))
    along = node.attributes.get("axis", 1)
    for name in node.inputs:
        if not name or name in builder.over:
            continue
        shape = builder.shape_of(name)
        by_axis = facts_of(node).effect in (Effect.QUANTIZES, Effect.DEQUANTIZES) or node.op_type in PER_CHANNEL
        at = along % rank if by_axis and node.op_type not in PER_CHANNEL else 1
        if by_axis and len(shape) == 1 and shape[0] > 1 and at == time.axis:
            raise builder.refused(node, "its constants must be the same in every step")
        place = time.axis - (rank - len(shape))
        if not by_axis and place >= 0 and shape[place] != 1:
            raise builder.refused(node, "its constants must be the same in every step")
    builder.add(node, names)
    builder.gives(node, time)


def window(builder: HopBuilder, node: Node) -> None:
    """Stream a convolution or a pool: a buffer before it, and no padding over time."""
    time, shape = builder.over[node.inputs[0]], builder.shape_of(node.inputs[0])
    if len(node.inputs) > 1 and node.inputs[1] not in builder.fixed:
        raise builder.refused(node, "its weights must be constant")
    rank, at = len(shape) - 2, time.axis - 2
    if at < 0:
        raise builder.refused(node, "time must be one of its spatial axes")
    of_weights = {} if len(node.inputs) < 2 else {"kernel_shape": builder.shape_of(node.inputs[1])[2:]}
    window = pool_window(shape, **{**of_weights, **node.attributes})
    span, stride = (window.kernel[at] - 1) * window.dilations[at], window.strides[at]
    if time.rate % stride:
        raise IndivisibleHop(stride)
    behind = span + time.lag - window.begin[at] - (stride - 1)
    wait = -behind % stride
    steps = builder.with_buffer(node, node.inputs[0], span + 1 - stride, wait)
    pads = [*window.begin, *window.end]
    pads[at] = pads[at + rank] = 0
    changed = {name: value for name, value in node.attributes.items() if name != "auto_pad"}
    changed |= {"pads": tuple(pads), "kernel_shape": window.kernel}
    builder.add(replace(node, attributes=changed), (steps, *node.inputs[1:]))
    builder.gives(node, OverTime(time.axis, time.rate // stride, (behind + wait) // stride))


def recurrent(builder: HopBuilder, node: Node) -> None:
    """Stream a recurrent layer: it goes on from its last state."""
    time, names = builder.over[node.inputs[0]], [*node.inputs, *[""] * 8]
    if node.attributes.get("direction", "forward") != "forward":
        raise builder.refused(node, "a layer must not be bidirectional: its end would have to come first")
    layout = int(node.attributes.get("layout", 0))
    if time.axis != layout or any(name not in builder.constants for name in node.inputs[1:] if name):
        raise builder.refused(node, "its steps must be those of the sequence, and its weights constant")
    outputs = [*node.outputs, *[""] * 3][: 1 + RECURRENT[node.op_type]]
    outputs[1:] = [name or builder.fresh(f"{node.label}/state{k}") for k, name in enumerate(outputs[1:])]
    hidden = builder.shape_of(node.inputs[2])[-1]
    shape = (1, 1, hidden)
    names[4] = ""
    for k in range(RECURRENT[node.op_type]):
        first = builder.constants.get(names[5 + k], np.zeros(1))
        if first.min() != first.max():
            raise builder.refused(node, "its initial state must be one number")
        entering = builder.fresh(f"{node.label}/state{k}_in")
        builder.inputs.append(Value(entering, builder.types[node.inputs[0]], shape))
        names[5 + k] = entering
        leaving = builder.fresh(f"{node.label}/state{k}_out")
        builder.add_pair(entering, leaving, float(first.reshape(-1)[0]))
    read = max(len(node.inputs), 5 + RECURRENT[node.op_type])
    builder.add(replace(node, outputs=tuple(outputs)), names[:read])
    for k, pair in enumerate(builder.states[-RECURRENT[node.op_type] :]):
        builder.add_made("Identity", (outputs[1 + k],), pair.output)
    if outputs[0]:
        builder.over[outputs[0]] = replace(time, axis=time.axis)
    builder.now.update(outputs[1:])


def cut_steps(builder: HopBuilder, node: Node) -> None:
    """Stream a Slice: along time it only shifts, or takes the last step."""
    (name, *_), time = node.inputs, builder.over[node.inputs[0]]
    rank = len(builder.shape_of(name))
    if any(other not in builder.constants for other in node.inputs[1:] if other) or node.version < 10:
        raise builder.refused(node, "where it cuts must be constant")
    starts, ends = (builder.constants[k].reshape(-1) for k in node.inputs[1:3])
    given = [*node.inputs, "", ""]
    axes = builder.constants[given[3]].reshape(-1) if given[3] else np.arange(len(starts))
    steps = builder.constants[given[4]].reshape(-1) if given[4] else np.ones(len(starts), np.int64)
    where = [k for k, axis in enumerate(axes) if axis % rank == time.axis]
    if not where:
        builder.add(node, node.inputs)
        return builder.gives(node, time)
    (k,), length = where, builder.length_of(name, time.axis)
    first, step = int(starts[k]), int(steps[k])
    last = first in (-1, length - 1) and int(ends[k]) >= length
    if step != 1 or (first < 0 and not last):
        raise builder.refused(node, "it must cut steps from the beginning, or take the last one")
    starts, ends = starts.copy(), ends.copy()
    starts[k], ends[k] = (-1 if last else 0), np.iinfo(np.int32).max
    cuts = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    constants = [builder.add_constant(node, part, np.asarray(numbers)) for part, numbers in cuts.items()]
    builder.add(node, (name, *constants))
    if last:
        builder.require_last(node, name)
        builder.now.update(node.outputs)
    else:
        builder.gives(node, replace(time, lag=time.lag + first))
    return None


def gather(builder: HopBuilder, node: Node) -> None:
    """Stream a Gather: of other axes, or of the last step."""
    name, index = node.inputs
    time, indices = builder.over.get(name), builder.constants.get(index)
    if time is None or indices is None:
        raise builder.refused(node, "its indices must be constant")
    axis = int(node.attributes.get("axis", 0)) % len(builder.shape_of(name))
    if axis != time.axis:
        builder.add(node, node.inputs)
        shift = indices.ndim - 1 if axis < time.axis else 0
        return builder.gives(node, replace(time, axis=time.axis + shift))
    if not np.isin(indices, (-1, builder.length_of(name, axis) - 1)).all():
        raise builder.refused(node, "along time it must take the last step")
    builder.require_last(node, name)
    builder.add(node, (name, builder.add_constant(node, "last", np.full(indices.shape, -1))))
    builder.now.update(node.outputs)
    return None


def pad(builder: HopBuilder, node: Node) -> None:
    """Stream a Pad: along time, zeros before are those of the buffers."""
    name, time = node.inputs[0], builder.over[node.inputs[0]]
    amounts = builder.constants.get(node.inputs[1]) if len(node.inputs) > 1 else node.attributes.get("pads")
    fill = builder.constants.get(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else np.zeros(1)
    if amounts is None or len(node.inputs) > 3 or node.attributes.get("mode", "constant") != "constant":
        raise builder.refused(node, "it must pad with constants, along all axes")
    pads, rank = np.array(amounts).reshape(-1), len(builder.shape_of(name))
    before = int(pads[time.axis])
    pads[[time.axis, time.axis + rank]] = 0
    if before > 0 and (fill is None or fill.any() or node.attributes.get("value", 0.0)):
        raise builder.refused(node, "along time it must pad with zeros")
    if len(node.inputs) > 1:
        builder.add(node, (name, builder.add_constant(node, "pads", pads), *node.inputs[2:]))
    else:
        builder.add(replace(node, attributes={**node.attributes, "pads": tuple(map(int, pads))}), node.inputs)
    builder.gives(node, replace(time, lag=time.lag - before))


def transpose(builder: HopBuilder, node: Node) -> None:
    time, rank = builder.over[node.inputs[0]], len(builder.shape_of(node.inputs[0]))
    order = [int(k) for k in node.attributes.get("perm") or reversed(range(rank))]
    builder.add(node, node.inputs)
    builder.gives(node, replace(time, axis=order.index(time.axis)))


def reshape(builder: HopBuilder, node: Node) -> None:
    """Stream a change of shape that keeps the axis of time."""
    name, time = node.inputs[0], builder.over[node.inputs[0]]
    before, after = builder.shape_of(name), builder.shape_of(node.outputs[0])
    outer, length = prod(before[: time.axis]), before[time.axis]
    axes = [k for k in range(len(after)) if after[k] == length and prod(after[:k]) == outer]
    if not axes:
        raise builder.refused(node, "the axis of time must stay an axis")
    axis = axes[-1] if len(axes) > 1 and length == 1 else axes[0]
    shape = [*after]
    shape[axis] = time.rate
    made = replace(node, op_type="Reshape", version=max(node.version, 5), attributes={})
    made = replace(made, version=min(made.version, 13) if node.op_type != "Reshape" else node.version)
    builder.add(made, (name, builder.add_constant(node, "shape", np.array(shape))))
    builder.gives(node, replace(time, axis=axis))


def matmul(builder: HopBuilder, node: Node) -> None:
    """Stream a product with a constant matrix."""
    (name,) = (name for name in node.inputs if name in builder.over)
    time, rank = builder.over[name], len(builder.shape_of(name))
    other = next((n for n in node.inputs if n != name), "")
    summed = rank - 1 if node.inputs[0] == name else rank - 2
    if other not in builder.fixed or time.axis == summed or len(builder.shape_of(other)) > 2:
        raise builder.refused(node, "it must be a product with one constant matrix, and not sum over time")
    builder.add(node, node.inputs)
    builder.gives(node, time)


def gemm(builder: HopBuilder, node: Node) -> None:
    time = builder.over[node.inputs[0]]
    constant = all(name in builder.fixed for name in node.inputs[1:] if name)
    if not constant or time.axis != 0 or node.attributes.get("transA", 0):
        raise builder.refused(node, "it must be a product with one constant matrix, and not sum over time")
    builder.add(node, node.inputs)
    builder.gives(node, time)


def concat(builder: HopBuilder, node: Node) -> None:
    names, time = builder.aligned(node)
    if any(name in builder.constants for name in node.inputs):
        raise builder.refused(node, "all that it joins must be sequences")
    if int(node.attributes["axis"]) % len(builder.shape_of(node.outputs[0])) == time.axis:
        raise builder.refused(node, "it must not join along time")
    builder.add(node, names)
    builder.gives(node, time)


def along_axes(builder: HopBuilder, node: Node) -> None:
    """Stream a sum, a Softmax or a normalization over other axes than time."""
    time, rank = builder.over[node.inputs[0]], len(builder.shape_of(node.inputs[0]))
    if node.op_type in SOFTMAXES:
        axes = softmax_axes(node, rank)
    elif node.op_type == "LayerNormalization":
        axes = tuple(range(int(node.attributes.get("axis", -1)) % rank, rank))
    else:
        given = builder.constants.get(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] else None
        stated = node.attributes.get("axes") if given is None else given.reshape(-1)
        axes = reduced_axes(rank, stated, int(node.attributes.get("noop_with_empty_axes", 0)))
    if time.axis in axes:
        raise builder.refused(node, "it must not go over time: a hop has only some of the steps")
    builder.add(node, node.inputs)
    shift = rank - len(builder.shape_of(node.outputs[0]))
    builder.gives(node, replace(time, axis=time.axis - sum(axis < time.axis for axis in axes) * bool(shift)))


def over_all(builder: HopBuilder, node: Node) -> None:
    raise builder.refused(node, "there must be no pooling or normalization over all of time: a hop has only some steps")


RULES: dict[str, Callable[[HopBuilder, Node], None]] = {
    **dict.fromkeys(("Conv", "MaxPool", "AveragePool"), window),
    **dict.fromkeys(RECURRENT, recurrent),
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze", "Flatten"), reshape),
    **dict.fromkeys((*SOFTMAXES, "LayerNormalization"), along_axes),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"), along_axes),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "InstanceNormalization"), over_all),
    **dict.fromkeys(("GroupNormalization", "LpNormalization"), over_all),
    "Slice": cut_steps,
    "Gather": gather,
    "Pad": pad,
    "Transpose": transpose,
    "MatMul": matmul,
    "Gemm": gemm,
    "Concat": concat,
    "Identity": elementwise,
    "Dropout": elementwise,
    "Cast": elementwise,
}
"""Ways to stream operators, by name; all others that treat every element alike need none."""
