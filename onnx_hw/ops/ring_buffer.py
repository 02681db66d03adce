"""Operators that pass a tensor on through a ring of beats and change nothing but the order in which it travels."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.operator import F, Operator
from onnx_hw.ops.schedule import Engine, Schedule, SharedBuffer
from onnx_hw.ops.tensor import Tensor


class Ring(Operator[F]):
    """A writer and a reader around the ring; beats are given back in order.

    Attributes:
        operand: what passes through.
        capacity: input beats it stores; None for those that full rate needs.
    """

    operand: Tensor
    capacity: int | None

    LATENCY = 3

    def __post_init__(self) -> None:
        if self.capacity is not None and self.capacity < 1:
            raise ValueError(f"the ring must hold at least one beat, not {self.capacity}")

    def results(self) -> tuple[Tensor, ...]:
        return (self.operand,)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return arrays

    @abstractmethod
    def turns(self, folding: F) -> tuple[int, np.ndarray, np.ndarray]:
        """Return (turns of a frame, (output beats of a turn,) the last input beat of the turn that each needs, or one
        before it; (output beats of a turn,) how many are given back after it).
        """

    @abstractmethod
    def full_rate_capacity(self, folding: F) -> int:
        """Return the input beats with which neither engine waits for the other longer than for data."""

    def live_capacity(self, folding: F) -> int:
        """Return the input beats that are stored at once at least."""
        _, needs, released = self.turns(folding)
        return int(np.max(needs + 1 - np.concatenate([[0], released[:-1]])))

    def stored_beats(self, folding: F) -> int:
        """Return the capacity of the ring."""
        return self.full_rate_capacity(folding) if self.capacity is None else self.capacity

    def cycles(self, folding: F) -> int:
        return max(self.input_orders(folding)[0].beats, self.output_orders(folding)[0].beats)

    def schedule(self, folding: F) -> Schedule:
        written, read = self.input_orders(folding)[0].beats, self.output_orders(folding)[0].beats
        return Schedule(
            (
                Engine("writer", written, 0, pops={"i": AffineSequence.every(written)}),
                Engine("reader", read, self.LATENCY, pushes={"o": AffineSequence.every(read)}),
            ),
            (SharedBuffer.of_turns(self.stored_beats(folding), *self.turns(folding)),),
        )
