"""Builder of a network from an ONNX graph: constants, and the inputs of a node by the kind that a lowering needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.exact.rationals import fractions
from onnx_hw.lower.network_builder import LoweredValue, NetworkBuilder, StreamValue
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.values.constant import QuantizedConstant
from onnx_hw.lower.values.real import Real
from onnx_hw.lower.values.stream_numbers import StreamNumbers
from onnx_hw.messages.errors import Problem
from onnx_hw.onnx.evaluate.macs import is_product
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.tensor import Tensor

INTEGER_TYPES = {f"{sign}int{bits}": Int(bits, signed=not sign) for bits in (2, 4, 8, 16) for sign in ("", "u")}
"""Integer types of the ONNX element types that a stream can carry."""


@dataclass(frozen=True)
class PaddedImage:
    """Result of a Pad of an image; an operator that slides a window over it can add the pads itself.

    Attributes:
        value: the image before the Pad.
        pads: (top, left, bottom, right), in pixels.
        fill: the integer of the pads.
        shape: ONNX shape of the result.
    """

    value: StreamValue
    pads: tuple[int, int, int, int]
    fill: int
    shape: tuple[int, ...]


@dataclass
class Builder(NetworkBuilder):
    """Builder that knows the constants of the ONNX graph.

    Attributes:
        constants: quantized constants by the name of the real-valued ONNX value.
        padded: hardware tensors that are images with a constant around them.
        snapped: ONNX values of real numbers whose integers the model does not name.
        problems: problems of the model, to be reported to the user.
        exact: names of values that their readers take without a quantizer, as sums and products of any width.
        states: types of the integers of the states that loops over time delay, by ONNX name; empty where not known.
        open_loops: ONNX name of the state that a hardware tensor delays, by the name of the tensor.
    """

    constants: dict[str, QuantizedConstant] = field(default_factory=dict)
    padded: dict[str, PaddedImage] = field(default_factory=dict)
    snapped: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    exact: frozenset[str] = frozenset()
    states: Mapping[str, Tensor] = field(default_factory=dict)
    open_loops: dict[str, str] = field(default_factory=dict)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an ONNX value; raise ``Obstacle`` where it is not known."""
        if (unknown := self.unknown_shape(name)) is not None:
            raise unknown
        return tuple(self.graph.values[name].shape)  # type: ignore[arg-type]

    def unknown_shape(self, name: str) -> Obstacle | None:
        """Return an obstacle if the shape of an ONNX value is not known, else None."""
        value = self.graph.values.get(name)
        if value is not None and value.shape is not None and all(isinstance(d, int) for d in value.shape):
            return None
        return Obstacle(
            "shape-unknown",
            f"the shape of `{name}` must be known, not {value!r}",
            "bind its dimensions with --dim NAME=NUMBER",
        )

    def constant(self, name: str) -> np.ndarray | None:
        """Return a plain constant of the graph; None where the value is not one."""
        return self.graph.constants.get(name)

    def exact_constant(self, name: str) -> np.ndarray | None:
        """Return a constant, plain or quantized, as an object array of exact rationals; None where it is not one."""
        if name in self.constants:
            return self.constants[name].exact()
        plain = self.constant(name)
        if plain is None:
            return None
        return np.array(fractions(plain), dtype=object).reshape(plain.shape)

    def is_read(self, name: str) -> bool:
        """Return whether a node reads an ONNX value, or the graph returns it."""
        outputs = {value.name for value in self.graph.outputs}
        return name in outputs or any(name in names_read(node) for node in self.graph.nodes)

    def leads_to_product(self, name: str) -> bool:
        """Return whether some product depends on an ONNX value, so that the host cannot compute what lies between."""
        names = {name}
        for node in self.graph.nodes:
            if not names.isdisjoint(names_read(node)):
                if is_product(node):
                    return True
                names.update(result for result in node.outputs if result)
        return False

    # ---- inputs of a node -----------------------------------------------------------------------------------------

    def real(self, node: Node, k: int = 0, *, partial: bool = False) -> Real:
        """Return an input as real numbers on a stream.

        Args:
            partial: the node does not need to know where the numbers are on the stream.

        Raises:
            Obstacle: the input is of another kind.
        """
        value = Real.cast(self.values.get(node.inputs[k]))
        if value is None or not (partial or value.is_complete):
            raise self.obstacle(node, k)
        return value

    def elements(self, node: Node, k: int = 0, *, partial: bool = False) -> StreamValue:
        """Return an input of a node that only depends on the positions of elements; ``partial`` as for ``real``."""
        value = self.values.get(node.inputs[k])
        if value is None or not (partial or value.is_complete):
            raise self.obstacle(node, k)
        return value

    def data(self, node: Node, k: int = 0) -> StreamValue:
        """Return an input as integers or as a linear function of them."""
        value = self.values.get(node.inputs[k])
        return value if value is not None and value.is_integers else self.real(node, k)

    def stream_numbers(self, node: Node, k: int = 0, *, partial: bool = False) -> StreamNumbers:
        """Return an input as real numbers on a stream, linear or not; ``partial`` as for ``real``."""
        value = StreamNumbers.cast(self.elements(node, k, partial=partial))
        if value is None:
            raise self.obstacle(node, k)
        return value

    def numbers(self, node: Node, k: int = 0) -> LoweredValue:
        """Return an input as real numbers of any kind, pending ones included."""
        return self.pending.get(node.inputs[k]) or self.stream_numbers(node, k, partial=True)

    def operand(self, node: Node, k: int = 0) -> LoweredValue:
        """Return an input on a stream or pending, for a node that can wait until its result is quantized."""
        name = node.inputs[k]
        if name in self.pending:
            return self.pending[name]
        if name in self.values:
            return self.values[name]
        raise self.obstacle(node, k)
