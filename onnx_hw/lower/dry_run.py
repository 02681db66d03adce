"""Lowering of nodes whose data did not make it into hardware, to name *their* obstacles too.

A model with a fault in its second layer may have another in its fifth. Behind a fault every value gets a stand-in, an
int8 tensor of the right shape in the usual order, and the nodes are lowered as if nothing had happened. What this finds
is only reported; nothing of it is built.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.exact.rationals import NotFinite
from onnx_hw.lower.builder import INTEGER_TYPES, Builder
from onnx_hw.lower.layout.stream_layout import MAX_ELEMENTS, image_layout, layout_of_axes
from onnx_hw.lower.network_builder import IntegerStream
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.registry import Lowering
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.tensor import Tensor

OF_THE_STAND_INS = frozenset(("not-quantized", "not-integers", "reorder", "quantize-before"))
"""Codes of obstacles that may come from a stand-in and not from the node."""


class Rehearsal:
    """A builder in which stand-ins take the place of missing values."""

    def __init__(self, builder: Builder) -> None:
        self.real = builder
        self.stage = Builder(builder.graph, constants=builder.constants)

    def obstacle(self, node: Node, lowering: Lowering) -> Obstacle | None:
        """What the node itself has against hardware, if anything."""
        self._set_the_scene(node)
        try:
            lowering(self.stage, node)
        except Obstacle as obstacle:
            return None if obstacle.code in OF_THE_STAND_INS else obstacle
        except NotFinite as error:
            return Obstacle("not-finite", str(error))
        return None

    def stand_in(self, node: Node) -> None:
        """Give the outputs of a node something to stand for them, where it has not made them itself."""
        for name in node.outputs:
            if name and name not in self.stage.values and name not in self.stage.pending:
                with suppress(Obstacle):
                    stand_in(self.stage, name)

    def _set_the_scene(self, node: Node) -> None:
        """What the node reads and hardware has, as it is there."""
        for name in node.inputs:
            if name in self.real.values:
                value = self.stage.values[name] = self.real.values[name]
                self._bring(value.tensor)
            elif name in self.real.pending:
                pending = self.stage.pending[name] = self.real.pending[name]
                for part in pending.streams():
                    self._bring(part.tensor)

    def _bring(self, tensor: str) -> None:
        if tensor in self.real.tensors:
            self.stage.tensors[tensor] = self.real.tensors[tensor]
        if tensor in self.real.entries:
            self.stage.entries[tensor] = copy(self.real.entries[tensor])  # its order stays free in reality


def stand_in(builder: Builder, name: str) -> None:
    """Let an int8 tensor stand for an ONNX value (for integers, one of theirs).

    Raises:
        Obstacle: its shape is not known, or it has no elements or too many.
    """
    shape = builder.shape(name)
    size = int(np.prod(shape, dtype=np.int64))
    if not size:
        raise Obstacle("empty", f"`{name}` must have elements")
    if size > MAX_ELEMENTS:
        raise Obstacle("too-many-elements", f"`{name}` must have at most {MAX_ELEMENTS:,} elements, not {size:,}")
    if len(shape) in (3, 4) and shape[0] == 1:
        layout = image_layout(shape)
    else:
        layout = layout_of_axes(shape, tuple(range(len(shape))))
    element_type = builder.graph.values[name].element_type
    tensor = f"{name}/stand-in"
    builder.tensors[tensor] = Tensor(layout.shape, INTEGER_TYPES.get(element_type, Int(8)))
    builder.values[name] = (IntegerStream if element_type in INTEGER_TYPES else Real)(tensor, shape, layout.where)
