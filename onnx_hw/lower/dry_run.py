"""Dry run of the lowering for nodes whose data is not in hardware, to report *their* obstacles, too.

A model with a fault in its second layer may have another one in its fifth. Behind a fault every value gets a stand-in,
an int8 tensor of the right shape in the usual order, and the nodes are lowered as if there were no fault. The obstacles
are only reported; nothing of a dry run is built.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.exact.rationals import NotFinite
from onnx_hw.lower.builder import INTEGER_TYPES, Builder
from onnx_hw.lower.layout.stream_layout import image_layout, layout_of_axes
from onnx_hw.lower.network_builder import IntegerStream
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.registry import Lowering
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.canonicalize.check_tensor_sizes import MAX_ELEMENTS
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.tensor import Tensor

STAND_IN_CODES = frozenset(("not-quantized", "not-integers", "reorder", "quantize-before"))
"""Codes of obstacles that may be due to a stand-in and not to the node."""


class DryRun:
    """Dry run with a second builder, in which stand-ins replace missing values.

    Attributes:
        builder: the builder of the network; it is only read.
        trial: the builder of the dry run.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.trial = Builder(builder.graph, constants=builder.constants, exact=builder.exact)

    def obstacle(self, node: Node, lowering: Lowering) -> Obstacle | None:
        """Return the obstacle of a node itself; None where its inputs alone keep it out of hardware."""
        self._copy_inputs(node)
        try:
            lowering(self.trial, node)
        except Obstacle as obstacle:
            return None if obstacle.code in STAND_IN_CODES else obstacle
        except NotFinite as error:
            return Obstacle("not-finite", str(error))
        return None

    def add_stand_ins(self, node: Node) -> None:
        """Add stand-ins for the outputs of a node that its lowering has not defined."""
        for name in node.outputs:
            if name and name not in self.trial.values and name not in self.trial.pending:
                with suppress(Obstacle):
                    add_stand_in(self.trial, name)

    def _copy_inputs(self, node: Node) -> None:
        """Copy the inputs of a node that are in hardware."""
        for name in node.inputs:
            if name in self.builder.values:
                value = self.trial.values[name] = self.builder.values[name]
                self._copy_tensor(value.tensor)
            elif name in self.builder.pending:
                pending = self.trial.pending[name] = self.builder.pending[name]
                for part in pending.streams():
                    self._copy_tensor(part.tensor)

    def _copy_tensor(self, tensor: str) -> None:
        if tensor in self.builder.tensors:
            self.trial.tensors[tensor] = self.builder.tensors[tensor]
        if tensor in self.builder.entries:
            # a copy: the order of the network's own entry stays free
            self.trial.entries[tensor] = copy(self.builder.entries[tensor])


def add_stand_in(builder: Builder, name: str) -> None:
    """Add an int8 tensor that replaces an ONNX value; where that has an integer type of streams, a tensor of its type.

    Raises:
        Obstacle: the shape of the value is not known, or it has no elements or too many.
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
