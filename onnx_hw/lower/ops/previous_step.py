"""PreviousStep: the way back of a loop over time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.layout.stream_layout import layout_of_axes
from onnx_hw.lower.network_builder import IntegerStream
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.qdq import made_on_host
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.onnx.graph.loops import DELAY, delayed_value
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of
from onnx_hw.ops.previous_step import PreviousStep
from onnx_hw.ops.tensor import Tensor


@lowers(DELAY[1], domains=[DELAY[0]])
def previous_step(builder: Builder, node: Node) -> None:
    """Delay quantized states [steps, batch, channels]; steps lie on axis 0."""
    of, shape, initial = delayed_value(node), builder.shape(node.outputs[0]), builder.constant(node.inputs[0])
    makers = {name: other for other in builder.graph.nodes for name in other.outputs if name}
    maker = makers.get(of)
    if maker is None or facts_of(maker).effect is not Effect.QUANTIZES:
        raise Obstacle("state-not-quantized", f"the state `{of}` of a recurrent layer must be quantized", needs=of)
    if initial is None or len(shape) != 3 or node.attributes["axis"] != 0:
        raise Obstacle("state-shape", f"a state must be [steps, batch, channels], not {list(shape)}")
    layout = layout_of_axes(shape, (0, 1, 2))
    known = builder.states.get(of)
    dtype = made_on_host(builder, maker, makers.get(maker.inputs[0]))
    tensor = known if known is not None else Tensor(layout.shape, dtype)
    operator = PreviousStep(tensor, initial.astype(np.int64).reshape(shape[1:]))
    result = builder.add(node.label, operator, [of], node, output=node.outputs[0])
    builder.open_loops[result] = of
    builder.values[node.outputs[0]] = IntegerStream(result, shape, np.arange(layout.order.size))


def close_loops(builder: Builder) -> dict[str, Tensor]:
    """Connect every delay with the integers of its state; return the types of these, by name.

    A type may have other bounds than the delay assumed; then the graph is to be lowered anew with ``builder.states``.

    Raises:
        Obstacle: a state is not in hardware, or its elements are in another order than those of the delay.
    """
    found: dict[str, Tensor] = {}
    for k, node in enumerate(builder.nodes):
        of = builder.open_loops.get(node.outputs[0])
        if of is None:
            continue
        value = IntegerStream.cast(builder.values.get(of))
        if value is None:
            raise Obstacle("state-not-in-hardware", f"the state `{of}` of a recurrent layer must be in hardware")
        tensor, order = builder.tensors[value.tensor], builder.stream_order(value)
        in_place = order is not None and np.array_equal(order, np.arange(value.where.size))
        if tensor.shape != node.operator.results()[0].shape or not in_place:
            raise Obstacle("state-order", f"the elements of the state `{of}` must keep their order in every step")
        builder.nodes[k] = replace(node, inputs=(value.tensor,))
        found[of] = tensor
    return found
