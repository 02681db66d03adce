"""Fork: one tensor for several consumers, each with a FIFO of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import starmap

import numpy as np

from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.blocks import engine
from onnx_hw.ops.folding import ElementFolding
from onnx_hw.ops.operator import Component, Operator, even_cuts
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Demand


@dataclass(frozen=True, repr=False)
class Fork(Operator[ElementFolding]):
    """``count`` copies of the operand, on ports o0, o1, ..."""

    operand: Tensor
    count: int = 2

    folding_type = ElementFolding
    row_by_row = True
    LATENCY = 0

    @property
    def outputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"o{k}" for k in range(self.count))

    def results(self) -> tuple[Tensor, ...]:
        return (self.operand,) * self.count

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return arrays * self.count

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[ElementFolding]:
        yield from starmap(ElementFolding, even_cuts(self.operand, interval, given, wanted))

    def schedule(self, folding: ElementFolding) -> Schedule:
        beats = AffineSequence.every(self.input_orders(folding)[0].beats)
        engine = Engine("fork", len(beats), self.LATENCY, {"i": beats}, dict.fromkeys(self.outputs, beats))
        return Schedule((engine,))

    def demand(self, folding: ElementFolding) -> Demand:
        return engine((1,), outputs=self.count)

    def core(self, folding: ElementFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.fork import Fork as Circuit

        return Circuit(self.stream_shapes(folding)["i"], {name: depths[name] for name in self.outputs})

    def __repr__(self) -> str:
        return f"Fork {self.count}"
