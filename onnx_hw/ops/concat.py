"""Concat: tensors side by side, along the rows, the columns or the channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence, LoopTurns
from onnx_hw.ops.demand.blocks import counted, delayed, engine
from onnx_hw.ops.folding import EvenFolding
from onnx_hw.ops.operator import Component, Operator
from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Demand, LogicFunction, Multiplexer, Register

ROWS, COLUMNS, CHANNELS = range(3)

MAX_ALTERNATIVES = 3
"""Number of foldings offered in addition to those that the neighbours ask for."""


@dataclass(frozen=True, repr=False)
class Concat(Operator[EvenFolding]):
    """Two tensors or more, on ports i0, i1, ..., joined in this order.

    The result keeps the operands' type if they have one; otherwise it has the narrowest that holds their values.

    Attributes:
        operands_: equal in shape but for the joined axis.
        axis: 0, 1, 2: the rows, the columns, the channels.
    """

    operands_: tuple[Tensor, ...]
    axis: int

    folding_type = EvenFolding
    LATENCY = 1

    def __post_init__(self) -> None:
        if self.axis not in (ROWS, COLUMNS, CHANNELS):
            raise ValueError(f"the axis must be 0, 1 or 2, not {self.axis}")
        if len(self.operands_) < 2:
            raise ValueError(f"two tensors or more can be joined, not {len(self.operands_)}")
        shapes = [operand.shape for operand in self.operands_]
        if len({shape[: self.axis] + shape[self.axis + 1 :] for shape in shapes}) > 1:
            raise ValueError(f"the operands must have one shape but for axis {self.axis}, not {shapes}")

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"i{k}" for k in range(len(self.operands_)))

    def operands(self) -> tuple[Tensor, ...]:
        return self.operands_

    @property
    def row_by_row(self) -> bool:  # type: ignore[override]
        return self.axis != ROWS

    def results(self) -> tuple[Tensor, ...]:
        first, *others = self.operands_
        shape = list(first.shape)
        shape[self.axis] += sum(operand.shape[self.axis] for operand in others)
        low = min(operand.range[0] for operand in self.operands_)
        high = max(operand.range[1] for operand in self.operands_)
        alike = all(operand.dtype == first.dtype for operand in others)
        height, width, channels = shape
        return (Tensor((height, width, channels), first.dtype if alike else Int.holding(low, high), low, high),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.concatenate(arrays, axis=1 + self.axis),)

    def reordered(self, port: str, order: Permutation) -> tuple[Concat, dict[str, Permutation]] | None:
        """Return the reordered operator: an operand that keeps its shape changes within its part; a result, where its
        parts remain slabs in line.
        """
        shapes, (result,) = [operand.shape for operand in self.operands_], self.results()
        part = np.concatenate([np.full(shape, k) for k, shape in enumerate(shapes)], axis=self.axis)
        positions = np.concatenate([np.arange(np.prod(shape)).reshape(shape) for shape in shapes], axis=self.axis)
        if port != "o":
            k = self.inputs.index(port)
            if order.shape != shapes[k]:
                return None
            source = np.arange(result.size).reshape(result.shape)
            source[part == k] = source[part == k][order.source]
            return self, {port: order, "o": Permutation(result.shape, source.reshape(-1))}
        part, positions = (numbers.reshape(-1)[order.source].reshape(order.shape) for numbers in (part, positions))
        for axis in (ROWS, COLUMNS, CHANNELS):
            slabs = np.moveaxis(part, axis, 0).reshape(order.shape[axis], -1)
            if (slabs == slabs[:, :1]).all() and (np.diff(slabs[:, 0]) >= 0).all():
                pieces = [positions.compress(slabs[:, 0] == k, axis) for k in range(len(shapes))]
                orders = [Permutation(_shape(piece), piece.reshape(-1)) for piece in pieces]
                operands = (replace(t, shape=o.shape) for t, o in zip(self.operands_, orders, strict=True))
                return Concat(tuple(operands), axis), dict(zip(self.inputs, orders, strict=True)) | {"o": order}
        return None

    def turns(self, folding: EvenFolding) -> tuple[int, tuple[int, ...]]:
        """Return (how often all operands have their turn in a frame, the beats that each one gives in its turn)."""
        turns = (1, self.operands_[0].shape[0], self.operands_[0].pixels)[self.axis]
        return turns, tuple(order.beats // turns for order in self.input_orders(folding))

    def cycles(self, folding: EvenFolding) -> int:
        turns, beats = self.turns(folding)
        return turns * sum(beats)

    def _cut(self, lanes: int) -> int | None:
        """Return the first operand whose pixels end within a beat though more channels follow, or None."""
        if self.axis != CHANNELS:
            return None
        return next((k for k, operand in enumerate(self.operands_[:-1]) if operand.channels % lanes), None)

    def aligned(self, lanes: int) -> bool:
        """Return whether the result's beats are those of its operands."""
        return self._cut(lanes) is None

    def illegal(self, folding: EvenFolding) -> str:
        reason = super().illegal(folding)
        if reason or (cut := self._cut(folding.lanes)) is None:
            return reason
        return f"the lanes must divide {self.operands_[cut].channels}, the channels of i{cut}, which others follow"

    def foldings(self, interval: int, given: Order | None = None, wanted: Order | None = None) -> Iterator[EvenFolding]:
        """Yield foldings that neighbours ask for, and the narrowest few, each of fewer cycles than the one before."""
        least = -(-self.results()[0].size // interval)
        beside = [order.lanes for order in (given, wanted) if order is not None]
        fewest, count = 0, 0
        for lanes in range(least, self.operands_[0].channels + 1):
            folding = EvenFolding(lanes)
            if not self.aligned(lanes) or (cycles := self.cycles(folding)) > interval:
                continue
            faster = not fewest or cycles < fewest
            if faster:
                fewest, count = cycles, count + 1
            if lanes in beside or (faster and count <= MAX_ALTERNATIVES):
                yield folding

    def schedule(self, folding: EvenFolding) -> Schedule:
        turns, beats = self.turns(folding)
        of_a_turn = sum(beats)
        pops, first = {}, 0
        for port, count in zip(self.inputs, beats, strict=True):
            part = LoopTurns(first, turns, of_a_turn, np.arange(count, dtype=np.int64))
            pops[port] = AffineSequence((part,)) if turns > 1 else AffineSequence.every(count, first=first)
            first += count
        pushes = {"o": AffineSequence.every(turns * of_a_turn)}
        return Schedule((Engine("concat", turns * of_a_turn, self.LATENCY, pops, pushes),))

    def demand(self, folding: EvenFolding) -> Demand:
        inputs, (_, beats) = len(self.operands_), self.turns(folding)
        index, width = counted(sum(beats)), folding.lanes * self.results()[0].dtype.bits
        demand = engine((sum(beats),), inputs=inputs, some_pop=inputs, exclusive=True) + delayed(1, 1)
        chosen = Demand.of(Register(counted(inputs)))
        demand += chosen + chosen.copied(folding.lanes) + Demand.of(LogicFunction(index, inputs))
        return demand + Demand.of(Multiplexer(inputs, width), Register(width))

    def core(self, folding: EvenFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.concat import Concat as Circuit

        if not self.aligned(folding.lanes):
            raise ValueError(self.illegal(folding))
        shapes = self.stream_shapes(folding)
        o = shapes.pop("o")
        return Circuit(*shapes.values(), o=o, beats=self.turns(folding)[1], depth=depths["o"])

    def __repr__(self) -> str:
        return f"Concat {len(self.operands_)} along {('rows', 'columns', 'channels')[self.axis]}"


def _shape(image: np.ndarray) -> tuple[int, int, int]:
    height, width, channels = image.shape
    return height, width, channels
