"""KeptState: a tensor one frame later, what a network remembers from frame to frame.

The first frame after a reset gets the initial value, every later one what the operand was in the frame before. The
operand may be made of the result: ``feedback`` names the input that may come from a later node of the network, and
``keeps`` says that this way back leads to the next frame, so that nothing on it has to work row by row.

>>> from onnx_hw.exact.integers import Int
>>> state = KeptState(Tensor((1, 1, 2), Int(8)), 7)
>>> state.golden(np.array([[1, 2], [3, 4], [5, 6]]).reshape(3, 1, 1, 2))[0].reshape(3, 2).tolist()
[[7, 7], [1, 2], [3, 4]]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.blocks import copied, counted, decoded, delayed, engine, memories
from onnx_hw.ops.folding import EvenFolding
from onnx_hw.ops.operator import Component, Operator, even_lanes
from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Demand, LogicFunction, Register


@dataclass(frozen=True, repr=False, eq=False)
class KeptState(Operator[EvenFolding]):
    """``result[0] = initial``, ``result[f] = operand[f − 1]``, over the frames since the last reset.

    Attributes:
        operand: (height, width, channels).
        initial: every element of the first frame, within the operand's type.
    """

    operand: Tensor
    initial: int = 0

    folding_type = EvenFolding
    inputs = ("i",)
    feedback: ClassVar[tuple[str, ...]] = ("i",)
    keeps = True
    LATENCY = 3

    def __post_init__(self) -> None:
        dtype = self.operand.dtype
        if not dtype.min <= self.initial <= dtype.max:
            raise ValueError(f"the initial state must lie within {dtype!r}, {self.initial} does not")

    def operands(self) -> tuple[Tensor, ...]:
        return (self.operand,)

    def results(self) -> tuple[Tensor, ...]:
        low, high = self.operand.range
        return (replace(self.operand, low=min(low, self.initial), high=max(high, self.initial)),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        (operand,) = arrays
        return (np.concatenate([np.full((1, *self.operand.shape), self.initial, operand.dtype), operand[:-1]]),)

    def reordered(self, port: str, order: Permutation) -> tuple[KeptState, dict[str, Permutation]]:
        """Return the reordered operator: any order is kept."""
        return replace(self, operand=replace(self.operand, shape=order.shape)), {"i": order, "o": order}

    def foldings(self, interval: int, given: Order | None = None, wanted: Order | None = None) -> Iterator[EvenFolding]:
        yield from map(EvenFolding, even_lanes(self.operand, interval // 2, given, wanted))

    def schedule(self, folding: EvenFolding) -> Schedule:
        """Schedule the beats of a frame: first all are given, then all of the next frame are taken."""
        beats = self.input_orders(folding)[0].beats
        pops, pushes = {"i": AffineSequence.every(beats, first=beats)}, {"o": AffineSequence.every(beats)}
        return Schedule((Engine("keep", 2 * beats, self.LATENCY, pops, pushes),))

    def demand(self, folding: EvenFolding) -> Demand:
        beats, width = self.input_orders(folding)[0].beats, folding.lanes * self.operand.dtype.bits
        demand = engine((2, beats), some_pop=1, some_push=1) + decoded((0, 1), 1) + delayed(3, 1)
        demand += delayed(counted(beats), 1) + copied(1 + counted(beats), width)
        demand += memories(width, max(2, beats), ports=2)
        return demand + copied(1, width) + Demand.of(LogicFunction(2, width), Register(width), LogicFunction(4, 2))

    def core(self, folding: EvenFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.kept_state import KeptState as Circuit

        beats = self.input_orders(folding)[0].beats
        return Circuit(self.stream_shapes(folding)["i"], beats, self.initial, depth=depths["o"])

    def __repr__(self) -> str:
        return "KeptState"
