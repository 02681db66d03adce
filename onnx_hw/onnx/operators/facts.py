"""Facts about an operator besides what it computes: one row per (domain, operator).

The row stands at the operator's function (``@operator(..., facts=Facts(...))``); it answers whether a node is a
product, where its weights are and what it does to integers. No other module keeps a list of names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.tensor_type import Types


class Effect(Enum):
    """Effect of an operator on the integers that stand for its data: it says where a float model wants new ones.

    Members:
        KEEPS: the result has some of them, with the same meaning.
        SUMS: adds up many of them.
        ADDS: they stand for numbers plus a constant; of two tensors, for sums.
        SCALES: they stand for numbers times a constant; of two tensors, for products.
        AFFINE: both of these, with constants.
        BOUNDS: they stand for numbers within bounds.
        BENDS: they stand for any function of the numbers.
        JOINS: the result has those of several tensors.
        NORMALIZES: all of them along some axes decide by what each is divided, by more than their order of magnitude.
        PICKS: the result is the position of the greatest or the least of them.
        DECIDES: the result says by 0 and 1 which conditions hold for them, whatever scale they have.
        QUANTIZES: real numbers become integers of a scale.
        DEQUANTIZES: and integers real numbers.
        SNAPS: both at once: real numbers become others, those that integers of a scale stand for.
    """

    KEEPS = auto()
    SUMS = auto()
    ADDS = auto()
    SCALES = auto()
    AFFINE = auto()
    BOUNDS = auto()
    BENDS = auto()
    JOINS = auto()
    NORMALIZES = auto()
    PICKS = auto()
    DECIDES = auto()
    QUANTIZES = auto()
    DEQUANTIZES = auto()
    SNAPS = auto()


LINEAR_EFFECTS = frozenset((Effect.ADDS, Effect.SCALES, Effect.AFFINE))
"""Effects of functions whose graph is a line, where all operands but one are constant."""

SCALE_EFFECTS = frozenset((Effect.QUANTIZES, Effect.DEQUANTIZES, Effect.SNAPS))
"""Effects that involve scales: from real numbers to integers of a scale, back, and both."""

Macs = Callable[[Node, Types, Types], int]
"""Function (node, types of its inputs, types of its results) -> multiply-accumulates; all types are known."""


@dataclass(frozen=True)
class Weights:
    """Position of the weights of a product.

    Attributes:
        at: the number of the input.
        axis: the axis of the weights along which the outputs lie. Where it has only those of one group, the first axis
            has the inputs group by group.
        channel: the axis of the result along which the outputs lie.
        rank: the rank of weights that hold one number per input and output; None: any.
        turned: the attribute that says that the axes are reversed; "" without one.
        constant: whether hardware takes constants alone, and no weights that are computed from data.
    """

    at: int
    axis: int
    channel: int
    rank: int | None = None
    turned: str = ""
    constant: bool = False

    def axis_of_outputs(self, node: Node, rank: int) -> int:
        """Return the axis of weights of a rank along which a node's outputs lie."""
        axis = self.axis % rank
        return rank - 1 - axis if self.turned and node.attributes.get(self.turned, 0) else axis

    def broadcast(self, node: Node, shape: Sequence[int], column: np.ndarray) -> np.ndarray:
        """Broadcast one number, or one per output, to weights of a shape."""
        if column.size == 1:
            return column.reshape(())
        axis = self.axis_of_outputs(node, len(shape))
        groups = column.size // shape[axis]
        spread = np.repeat(column.reshape(groups, -1), shape[0] // groups if groups > 1 else 1, axis=0)
        ones = [1] * len(shape)
        ones[axis] = shape[axis]
        if groups > 1:  # the inputs of a group meet its own outputs
            ones[0] = shape[0]
        return spread.reshape(ones)


@dataclass(frozen=True)
class Means:
    """Meaning of an operator on integers: one on real numbers, between DequantizeLinear and QuantizeLinear.

    Attributes:
        operator: the operator on real numbers, and the opset whose meaning it has.
        data: inputs that hold the integers of an operand, each before its scale and zero point.
        bias: input with int32 integers whose scale is the product of the operands'.
    """

    operator: tuple[str, int]
    data: tuple[int, ...]
    bias: int | None = None


@dataclass(frozen=True)
class Facts:
    """Row of facts about an operator.

    Attributes:
        effect: the effect that quantization uses; None: it has no effect that quantization can use.
        macs: the multiply-accumulates of a node, of data with weights or with other data; None: it is not a product.
            Products with fixed factors (of a transform, an interpolation) and element by element do not count.
        weights: the position of the weights; None: it has no weights, or not of one kind.
        inverts: whether the second operand counts by its inverse.
        rounded: for an operator that rounds to integers, the input with the scale of the result, which its zero point
            follows; None for all others.
        means: the operator on real numbers that one on integers stands for.
        jumps: whether it is a function with jumps: on one, the last bit of an argument decides.
        compares: whether it tells which of two operands is greater, by integers that need no scale from samples.
        moves: whether the results consist of unchanged elements of its first input; the other inputs and the attributes
            say where each of them goes.
        along_axis: whether a batch is treated entry by entry unless the attribute ``axis`` names the axis of the batch.
        shape_at: the input that may state the lengths of the result's axes.
        random: whether equal inputs give other results each time.
        chooses_scale: whether it rounds to integers whose scale each input chooses anew.
        within: the least and the greatest number that a function comes near to or gives; None without both.
        of_no_data: whether the results depend on shapes, attributes and constants alone, so that they are constants.
    """

    effect: Effect | None = None
    macs: Macs | None = None
    weights: Weights | None = None
    inverts: bool = False
    rounded: int | None = None
    means: Means | None = None
    jumps: bool = False
    compares: bool = False
    moves: bool = False
    along_axis: bool = False
    shape_at: int | None = None
    random: bool = False
    chooses_scale: bool = False
    within: tuple[int, int] | None = None
    of_no_data: bool = False

    @property
    def takes_integers(self) -> bool:
        """Whether it takes integers with their scales, and rounds to integers of a scale."""
        return self.rounded is not None and self.effect is not Effect.QUANTIZES


OF_NO_DATA = Facts(of_no_data=True)
"""Row of an operator whose results are constants."""
