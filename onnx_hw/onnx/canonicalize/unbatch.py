"""Batch removal: a static batch of N becomes N frames, where the model treats all entries of the batch alike.

That is so when every node that depends on an input is of a kind that treats the entries of the first axis alike, and
when every such value has N of them, and with a batch of 1 the same shape but for a first axis of 1. So a batch that
moves to another axis, is mixed by a Reshape, reduced, or joined with N entries of a constant is noticed by its shape.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.canonicalize.decompose_fused import is_fused
from onnx_hw.onnx.evaluate.infer_shapes import infer
from onnx_hw.onnx.graph.model import Graph, Model, Node, Value
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import SCALE_EFFECTS


@dataclass(frozen=True)
class FrameModel:
    """Model of one frame, with the length of the batch that it was taken from.

    Attributes:
        model: model whose inputs and outputs hold one frame; the model as written where that has no batch.
        batch: number of frames in one sample of the model as written; 1 where that has no batch.
    """

    model: Model
    batch: int


class ReadModel(Model):
    """Model as written in its file, with inferred types, that also gives the model of one frame."""

    @cached_property
    def frame(self) -> FrameModel:
        """Model of one frame and the batch, computed once. ``replace`` makes a model that computes it anew."""
        return _frame_of(self)

    @classmethod
    def of(cls, model: Model) -> ReadModel:
        """Return a model with inferred types as one that gives the model of one frame."""
        return cls(**{field.name: getattr(model, field.name) for field in fields(model)})


def _frame_of(model: Model) -> FrameModel:
    """Return the model of one frame; values without a shape keep a model from having one."""
    whole = FrameModel(model, 1)
    graph = model.graph
    border = [value.shape for value in (*graph.inputs, *graph.outputs)]
    lengths = {shape[0] if shape and len(shape) > 1 else None for shape in border}
    batch = lengths.pop() if len(lengths) == 1 else None
    if not graph.inputs or not isinstance(batch, int) or batch < 2 or model.states:
        return whole
    framed = {value.name for value in graph.inputs}
    for node in graph.nodes:
        if framed.isdisjoint(node.inputs):
            continue
        if not _is_alike(node, graph):
            return whole
        framed.update(name for name in node.outputs if name)
    if any(name not in graph.values or (graph.values[name].shape or (0,))[0] != batch for name in framed):
        return whole
    try:
        single = infer(replace(model, graph=_with_one_frame(graph, framed, batch)))
    except UserError:
        return whole  # a shape is not the one it should be
    note = f"the first dimension, {batch}, of inputs and outputs is taken as batch: one frame is one of its entries"
    return FrameModel(replace(single, notes=(*model.notes, note)), batch)


def _is_alike(node: Node, graph: Graph) -> bool:
    facts = facts_of(node)
    known = facts.effect is not None or facts.means is not None or facts.along_axis or is_fused(node)
    data = graph.values.get(node.inputs[0])
    rank = len(data.shape) if data is not None and data.shape is not None else 0
    if facts.along_axis or facts.effect in SCALE_EFFECTS:
        scale = graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
        default = 1 if len(node.inputs) > 1 or node.version < 13 else -1
        along = scale is None or scale.size > 1
        return known and not (along and node.attributes.get("axis", default) in (0, -rank))
    if node.op_type == "Slice":
        steps = graph.constants.get(node.inputs[4]) if len(node.inputs) > 4 else np.ones(1)
        return known and steps is not None and bool((steps > 0).all())  # backwards, the entries change places
    return known


def _with_one_frame(graph: Graph, framed: set[str], batch: int) -> Graph:
    """Return the graph with a first axis of 1 in every value that depends on an input."""
    constants, values = dict(graph.constants), {name: _of_one(value, framed) for name, value in graph.values.items()}
    nodes = []
    for node in graph.nodes:
        at = facts_of(node).shape_at or len(node.inputs)
        target = graph.constants.get(node.inputs[at]) if at < len(node.inputs) else None
        if target is not None and node.inputs[0] in framed and target.ndim == 1 and target.size and target[0] == batch:
            name = f"{node.inputs[at]}/{node.label}/frame"
            constants[name] = np.concatenate([target[:1] // batch, target[1:]])
            values[name] = Value(name, "int64", target.shape)
            node = replace(node, inputs=(*node.inputs[:at], name, *node.inputs[at + 1 :]))
        nodes.append(node)
    inputs, outputs = (tuple(_of_one(value, framed) for value in border) for border in (graph.inputs, graph.outputs))
    return replace(graph, nodes=tuple(nodes), inputs=inputs, outputs=outputs, values=values, constants=constants)


def _of_one(value: Value, framed: set[str]) -> Value:
    return replace(value, shape=(1, *value.shape[1:])) if value.name in framed and value.shape else value
