"""PreviousStep: a tensor one step later, the edge of a network that leads back.

A step is a row: time runs along the height, so a recurrence over T steps works on tensors [T, 1, C]. Row 0 of the
result is the initial state, row t is row t − 1 of the operand, whose last row is dropped. The operand may therefore be
made of the result: ``feedback`` names the input that may come from a later node of the network. Everything else that
lies on such a loop works row by row (``Operator.row_by_row``).

A cell h[t] = f(x[t], h[t − 1]) as a network: the node comes before the nodes that make its operand, and names a tensor
that a later one makes.

>>> from onnx_hw.exact.grid import Grid
>>> from onnx_hw.exact.integers import Int
>>> from onnx_hw.ir.golden import trace
>>> from onnx_hw.ir.network import Boundary, Network, NetworkNode
>>> from onnx_hw.ir.verify_network import verify_network
>>> from onnx_hw.ops.add import Add
>>> from onnx_hw.ops.lookup import Lookup
>>> x, h = Tensor((4, 1, 1), Int(8), 0, 9), Tensor((4, 1, 1), Int(8), 0, 99)
>>> total = Add(x, h)
>>> clip = Lookup(total.results()[0], np.minimum(np.arange(109), 99)[None], Int(8))
>>> nodes = (
...     NetworkNode("state", PreviousStep(h, np.array([[5]])), ("h",), ("before",)),
...     NetworkNode("total", total, ("x", "before"), ("sum",)),
...     NetworkNode("clip", clip, ("sum",), ("h",)),
... )
>>> ends = [Boundary(name, name, (4, 1), np.dtype(np.int8), np.arange(4)) for name in ("x", "h")]
>>> network = verify_network(Network("sums", nodes, {"x": x}, (ends[0],), (ends[1],)))
>>> trace(network, {"x": np.array([1, 2, 3, 4]).reshape(1, 4, 1, 1)})["h"].reshape(-1).tolist()
[6, 8, 11, 15]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.blocks import copied, counted, decoded, delayed, engine, select
from onnx_hw.ops.folding import EvenFolding
from onnx_hw.ops.operator import Component, Operator, even_lanes
from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Demand, LogicFunction, Register


@dataclass(frozen=True, repr=False, eq=False)
class PreviousStep(Operator[EvenFolding]):
    """``result[0] = initial``, ``result[t] = operand[t − 1]``, in every frame.

    Attributes:
        operand: (steps, width, channels): a step is a row.
        initial: (width, channels) int64, within the operand's type; or a tensor [1, width, channels] of that type,
            which comes with every frame.
    """

    operand: Tensor
    initial: np.ndarray | Tensor = field(repr=False)

    folding_type = EvenFolding
    feedback: ClassVar[tuple[str, ...]] = ("i",)
    row_by_row = True
    LATENCY = 1

    def __post_init__(self) -> None:
        dtype, (_, *row) = self.operand.dtype, self.operand.shape
        if isinstance(self.initial, Tensor):
            if (self.initial.shape, self.initial.dtype) != ((1, *row), dtype):
                raise ValueError(
                    f"the initial state must be {Tensor((1, row[0], row[1]), dtype)!r}, not {self.initial!r}"
                )
            return
        if self.initial.shape != tuple(row):
            raise ValueError(f"the initial state must be {tuple(row)}, not {self.initial.shape}")
        if not dtype.min <= self.initial.min() <= self.initial.max() <= dtype.max:
            raise ValueError(f"the initial state must lie within {dtype!r}")

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("i", "initial") if isinstance(self.initial, Tensor) else ("i",)

    def operands(self) -> tuple[Tensor, ...]:
        return (self.operand, self.initial) if isinstance(self.initial, Tensor) else (self.operand,)

    def results(self) -> tuple[Tensor, ...]:
        (low, high), initial = self.operand.range, self.initial
        least, most = initial.range if isinstance(initial, Tensor) else (int(initial.min()), int(initial.max()))
        return (replace(self.operand, low=min(low, least), high=max(high, most)),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        operand = arrays[0]
        if isinstance(self.initial, Tensor):
            first = arrays[1]
        else:
            first = np.broadcast_to(self.initial, (len(operand), 1, *self.initial.shape))
        return (np.concatenate([first, operand[:, :-1]], axis=1),)

    def reordered(self, port: str, order: Permutation) -> tuple[PreviousStep, dict[str, Permutation]] | None:
        """Return the reordered operator, if the elements of every row change places alike."""
        steps, size = self.operand.shape[0], self.operand.size // self.operand.shape[0]
        row = order.source[: order.source.size if port == "initial" else size]
        source = (row + size * np.arange(steps)[:, None]).reshape(-1)
        if order.shape[0] != (1 if port == "initial" else steps) or (
            port != "initial" and not np.array_equal(order.source, source)
        ):
            return None
        whole = Permutation((steps, *order.shape[1:]), source)
        operand = replace(self.operand, shape=whole.shape)
        if isinstance(self.initial, Tensor):
            one = Permutation((1, *order.shape[1:]), row)
            initial: np.ndarray | Tensor = replace(self.initial, shape=one.shape)
            return PreviousStep(operand, initial), {"i": whole, "initial": one, "o": whole}
        return PreviousStep(operand, self.initial.reshape(-1)[row].reshape(order.shape[1:])), {"i": whole, "o": whole}

    def foldings(self, interval: int, given: Order | None = None, wanted: Order | None = None) -> Iterator[EvenFolding]:
        steps = self.operand.shape[0]
        yield from map(EvenFolding, even_lanes(self.operand, interval * steps // (steps + 1), given, wanted))

    def _step_beats(self, folding: EvenFolding) -> int:
        """Return the beats of a step."""
        return self.input_orders(folding)[0].beats // self.operand.shape[0]

    def schedule(self, folding: EvenFolding) -> Schedule:
        """Schedule the initial state, all steps but the last, which come and go, and the last, which only comes."""
        beats = self.input_orders(folding)[0].beats
        first = self._step_beats(folding)
        pops = {"i": AffineSequence.every(beats, first=first), "initial": AffineSequence.every(first)}
        pops = {port: pops[port] for port in self.inputs}
        return Schedule((Engine("step", first + beats, self.LATENCY, pops, {"o": AffineSequence.every(beats)}),))

    def initial_words(self, folding: EvenFolding) -> np.ndarray:
        """Return the constant initial state beat by beat, (beats of a step, lanes) int64; unused places hold 0."""
        assert isinstance(self.initial, np.ndarray)
        row = Tensor((1, self.initial.shape[0], self.initial.shape[1]), self.operand.dtype)
        return Order(row, folding.lanes).to_beats(self.initial[None, None])

    def demand(self, folding: EvenFolding) -> Demand:
        loops, kinds = (self.operand.shape[0] + 1, self._step_beats(folding)), 2
        inputs, width = len(self.inputs), folding.lanes * self.operand.dtype.bits
        demand = engine(loops, inputs=inputs, some_pop=inputs, some_push=1, exclusive=True) + delayed(1, self.LATENCY)
        if isinstance(self.initial, np.ndarray):
            distinct, numbers = np.unique(self.initial_words(folding), axis=0, return_inverse=True)
            kinds = len(distinct) + 1
            demand += select(numbers.reshape(-1).tolist(), counted(loops[1]))
        demand += decoded((0, 1), counted(loops[0])) + copied(counted(kinds), width)
        return demand + Demand.of(LogicFunction(inputs + counted(kinds), width), Register(width))

    def core(self, folding: EvenFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.previous_step import PreviousStep as Circuit

        constant = isinstance(self.initial, np.ndarray)
        return Circuit(
            self.stream_shapes(folding)["i"],
            self.initial_words(folding).tolist() if constant else self._step_beats(folding),
            steps=self.operand.shape[0],
            depth=depths["o"],
        )

    def __repr__(self) -> str:
        return "PreviousStep"
