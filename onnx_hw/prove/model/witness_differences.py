"""Differences from onnxruntime that rounding explains, value by value (link 1); every other one is a fault.

onnxruntime sums in another order and has functions of its own, in float32. How far that may lead is measured: our own
float32 against double precision, times ``OTHER_ROUNDING``. An integer may be another one only where the real value lies
that near to a tie, and a position only where both elements are that near to each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.dependencies import subgraphs
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.prove.model.rounding_differences import TIE, is_rounded
from onnx_hw.prove.model.segments import SegmentRun, evaluate_in_double

OTHER_ROUNDING = 64
"""Factor by which the rounding of another order of sums may be greater than that of ours, which is measured."""

LAST_BITS = 16
"""Units in the last place by which floats may be off besides, relative to the largest value of a tensor."""

UNMEASURED = 1 << 11
"""The same for floats that no operator computes in double precision."""

EPS = float(np.finfo(np.float32).eps)

COARSE_EPS = 2.0**-10
"""Unit in the last place of float16; that of bfloat16 is below ``UNMEASURED`` of it."""

MAX_SHARE = 0.1
"""Greatest share of integers that differ in a model with subgraphs, whose inner integers nobody hands out."""

EXPOSED = frozenset(("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool"))
"""Element types of decisions that onnxruntime hands out."""

FLOATS = frozenset(("float16", "bfloat16", "float", "double"))


def decisions(model: Model) -> dict[str, Node]:
    """Return the nodes that make integers or truth values of real numbers, by the name of each such result."""
    types = {name: value.element_type for name, value in model.graph.values.items()}
    return {
        name: node
        for node in model.graph.nodes
        if facts_of(node).rounded is not None or any(types.get(entry) in FLOATS for entry in node.inputs)
        for name in node.outputs
        if types.get(name) in EXPOSED
    }


class WitnessDifferences:
    """Judge of a sample's values.

    Args:
        model: the model as it is read.
        pieces: its run from the decisions that onnxruntime made.
        decided: nodes of those decisions, by name.
    """

    def __init__(self, model: Model, pieces: SegmentRun, decided: Mapping[str, Node]) -> None:
        self.pieces, self.decided = pieces, decided
        types = {value.element_type for value in model.graph.values.values() if value.element_type in BY_NAME}
        self.is_coarse = not types.isdisjoint(("float16", "bfloat16"))
        bent = (Effect.BENDS, Effect.NORMALIZES)
        self.has_functions = any(facts_of(node).effect in bent for node in model.graph.nodes)
        self.has_subgraphs = any(any(subgraphs(node)) for node in model.graph.nodes)
        self.whole: Mapping[str, Any] = {} if decided else _whole_in_double(model, pieces.frame)

    def find_wrong(self, name: str, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        """Return a mask of the values of a tensor that differ by more than rounding explains; of its shape."""
        if ours.dtype.kind == "f" and theirs.dtype.kind == "f":
            return self._far(name, ours, theirs)
        apart = np.asarray(ours != theirs)
        if not apart.any():
            return apart
        node = self.decided.get(name)
        try:
            wrong = apart if node is None else apart & ~self._explained(name, node, ours, theirs)
        except UserError:  # an operator that has no double precision
            wrong = apart & (np.abs(ours.astype(np.float64) - theirs) > 1)
        return wrong & (not self.has_subgraphs or wrong.sum() > max(1, MAX_SHARE * wrong.size))

    # ---- integers, positions and truth values ------------------------------------------------------------------------

    def _explained(self, name: str, node: Node, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        """Find where another decision than ours is right, too."""
        facts, pieces = facts_of(node), self.pieces
        if facts.rounded is not None:
            off = self._steps_off(node, facts.rounded, theirs)
            both = (is_rounded(pieces, name, integers.astype(np.int64), TIE + off) for integers in (ours, theirs))
            return np.logical_and(*both)
        if facts.effect is Effect.PICKS or node.op_type == "TopK":
            return self._is_as_great(node, ours, theirs)
        scores = [output for output in node.outputs[1:] if pieces.graph.values[output].element_type in FLOATS]
        if scores and facts.along_axis is False and node.domain.startswith("ai.onnx.ml"):
            return self._is_close_call(scores[0], theirs.shape)
        return self._is_beside(node, node.outputs.index(name), theirs)

    def _steps_off(self, node: Node, scale_at: int, theirs: np.ndarray) -> float:
        """Return how many steps onnxruntime may be off before it rounds."""
        scale = self.pieces.constant(node.inputs[scale_at])
        zero = self.pieces.constant(node.inputs[scale_at + 1]) if len(node.inputs) > scale_at + 1 else None
        largest = float(np.abs(theirs.astype(np.float64)).max(initial=0.0))
        largest += 0.0 if zero is None else float(np.abs(np.asarray(zero, dtype=np.float64)).max(initial=0.0))
        off = LAST_BITS * EPS * largest
        if facts_of(node).effect is Effect.QUANTIZES:
            off += OTHER_ROUNDING * self.pieces.real(node.inputs[0])[1] / float(np.abs(scale).min())
        return off

    def _is_as_great(self, node: Node, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        """Find where the element at another position is as great as the one at ours."""
        data, noise = self.pieces.real(node.inputs[0])
        exact = self.pieces.is_exact(node.inputs[0]) or not any(node.inputs[0] in n.outputs for n in self._nodes)
        axis = int(node.attributes.get("axis", -1 if node.op_type == "TopK" else 0)) % data.ndim
        keeps = node.op_type == "TopK" or node.attributes.get("keepdims", 1)
        places = [index if keeps else np.expand_dims(index, axis) for index in (ours, theirs)]
        inside = (places[1] >= 0) & (places[1] < data.shape[axis])
        mine, other = (np.take_along_axis(data, np.clip(at, 0, data.shape[axis] - 1), axis) for at in places)
        if not node.attributes.get("sorted", 1):
            mine, other = np.sort(mine, axis), np.sort(other, axis)
        allowed = 0.0 if exact else 2 * self._allowed(noise, data)
        return np.asarray((inside & (np.abs(mine - other) <= allowed)).reshape(theirs.shape))

    def _is_close_call(self, scores: str, shape: tuple[int, ...]) -> np.ndarray:
        """Find where the two greatest scores of a row are the same but for their rounding; one score may be near 0."""
        data = self.pieces.real(scores)[0]
        rows = np.sort(data.reshape(*shape, -1), axis=-1)
        gap = rows[..., -1] - rows[..., -2] if rows.shape[-1] > 1 else np.abs(rows[..., -1])
        return np.asarray(gap <= LAST_BITS * EPS * max(1.0, float(np.abs(data).max(initial=0.0))))

    def _is_beside(self, node: Node, number: int, theirs: np.ndarray) -> np.ndarray:
        """Find where a decision is one that the node makes of data a little less, or a little more."""
        pieces = self.pieces
        inputs = [pieces.constant(entry) for entry in node.inputs]
        found = []
        for at, entry in enumerate(node.inputs):
            if entry and pieces.graph.values[entry].element_type in FLOATS and entry not in pieces.graph.constants:
                data, noise = pieces.real(entry)
                moves = (side * self._allowed(noise, data) for side in (-1, 0, 1))
                found += [compute(node, [*inputs[:at], data + move, *inputs[at + 1 :]])[number] for move in moves]
        if not found:
            return np.zeros(theirs.shape, dtype=bool)
        sides = np.stack([np.asarray(one, dtype=np.float64) for one in found])
        return np.asarray((theirs >= sides.min(axis=0)) & (theirs <= sides.max(axis=0)))

    @property
    def _nodes(self) -> tuple[Node, ...]:
        return self.pieces.graph.nodes

    def _allowed(self, noise: float, data: np.ndarray) -> float:
        finite = np.abs(data[np.isfinite(data)])
        eps = COARSE_EPS if self.is_coarse else EPS
        return OTHER_ROUNDING * noise + LAST_BITS * eps * float(finite.max(initial=0.0))

    # ---- floats ------------------------------------------------------------------------------------------------------

    def _far(self, name: str, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        real, other = ours.astype(np.float64), theirs.astype(np.float64)
        with np.errstate(invalid="ignore"):
            same = (real == other) | (np.isnan(real) & np.isnan(other)) | _both_endless(real, other, ours.dtype)
        if same.all():
            return ~same
        ends = np.isfinite(real) & np.isfinite(other)
        # onnxruntime's polynomials for Sigmoid and the like are as exact as float32 next to 1, whatever the value is.
        largest = float(np.abs(other[ends]).max(initial=1.0 if self.has_functions else 0.0))
        eps = COARSE_EPS if self.is_coarse else float(np.finfo(theirs.dtype).eps)
        exact = self._exact(name)
        if exact is None:
            allowed = eps * largest * (LAST_BITS << 2 if self.is_coarse else UNMEASURED)
        else:
            measured = np.abs(real - exact)[ends & np.isfinite(exact)].max(initial=0.0)
            allowed = eps * largest * LAST_BITS + OTHER_ROUNDING * float(measured)
        with np.errstate(invalid="ignore"):
            far = np.abs(real - other) > allowed
        return np.asarray(np.where(ends, far, ~same))

    def _exact(self, name: str) -> np.ndarray | None:
        """Return an output in double precision; None where an operator does not compute in it."""
        try:
            found = self.pieces.in_double([name]).get(name) if self.decided else self.whole.get(name)
        except UserError:
            return None
        return found if isinstance(found, np.ndarray) else None


def _whole_in_double(model: Model, sample: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return evaluate_in_double(model, sample)
    except UserError:
        return {}


def _both_endless(real: np.ndarray, other: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Find where one is infinite and the other the greatest number of its type: onnxruntime masks by either."""
    most = 0.999 * float(np.finfo(dtype).max)
    endless = (np.abs(real) > most) & (np.abs(other) > most)
    return np.asarray(endless & (np.sign(real) == np.sign(other)))
