"""Cores to be broken on purpose: a case of each that shows every fault, and what a fault is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Signal

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ops.add import Add
from onnx_hw.ops.argmax import ArgMax, ArgMaxFolding
from onnx_hw.ops.concat import Concat
from onnx_hw.ops.depthwise import Depthwise, DepthwiseFolding
from onnx_hw.ops.folding import ElementFolding, EvenFolding, SlidingFolding
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.gearbox import Gearbox, GearboxFolding
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.multiply import Multiply, MultiplyFolding
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.reduce import Reduce
from onnx_hw.ops.regroup import Regroup, RegroupFolding
from onnx_hw.ops.requantize import RequantizeFolding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from onnx_hw.prove.circuit.check_run import Run
from onnx_hw_rtl.streams import engine
from support.design_bench import prove
from support.hand_built_designs import alone
from support.random_cases import Case
from support.random_operators import ByArithmetic

IMAGE = Tensor((4, 4, 4), Int(8))
TALL, WIDE = Tensor((5, 4, 4), Int(8)), Tensor((4, 5, 4), Int(8))
THREE = (IMAGE, Tensor((4, 4, 2), Int(6)), Tensor((4, 4, 3), Int(6, False)))
COLUMN = Tensor((9, 1, 2), Int(8))
SIXTEENTHS = tuple(Fraction(k, 16) for k in (1, 2, 1, 4))  # every step is a tie
WEIGHTS = np.random.default_rng(0).integers(-128, 128, (5, 4))
KERNELS = np.random.default_rng(0).integers(-128, 128, (4, 2, 2))

CASES = {
    "window": Case(Window(IMAGE, (3, 3), pads=(1, 1, 1, 1), pad_value=-9, capacity=16), SlidingFolding(4, 4), depth=2),
    "pool": Case(Pool(TALL, "sum", (2, 2), (2, 2), (0, 0, 1, 1), capacity=8), SlidingFolding(4, 2), depth=2, seed=1),
    "depthwise": Case(
        Depthwise(TALL, KERNELS, (2, 2), (0, 0, 1, 1), pad_value=-9, capacity=8),
        DepthwiseFolding(4, 2),
        depth=2,
        seed=1,
    ),
    "reduce": Case(Reduce(Tensor((1, 2, 6), Int(8)), "sum"), EvenFolding(2), depth=2, seed=3),
    "matmul": Case(MatMul(IMAGE, WEIGHTS), MatMulFolding(2, 2), depth=2),
    "gearbox": Case(Gearbox(Tensor((2, 2, 12), Int(8))), GearboxFolding(3, 4), depth=2),
    "regroup": Case(Regroup(Tensor((2, 5, 6), Int(8))), RegroupFolding(3, out_pixels=2), depth=2),
    "requantize": Case(
        ByArithmetic(IMAGE, SIXTEENTHS, (Fraction(0),), Grid.over(Int(4))), RequantizeFolding(2), depth=2
    ),
    "fork": Case(Fork(IMAGE), ElementFolding(2), depth=2),
    "add": Case(Add(IMAGE, IMAGE, (7, -3)), ElementFolding(2), depth=2),
    "multiply": Case(Multiply(IMAGE, IMAGE, (7, -128)), MultiplyFolding(2), depth=2),
    "argmax": Case(ArgMax(Tensor((2, 3, 7), Int(4))), ArgMaxFolding(5), depth=2, seed=2),
    "concat": Case(Concat(THREE, 2), EvenFolding(2), depth=2, seed=2),
}
EVERY = tuple(CASES)
CASES |= {  # an operation reads what was written one cycle before and is overwritten one cycle later
    "narrow window": Case(Window(COLUMN, (3, 1), capacity=4), SlidingFolding(2, 6), depth=9),
    "narrow pool": Case(Pool(COLUMN, "max", (1, 1), capacity=2), SlidingFolding(2, 2), depth=9),
    "narrow depthwise": Case(Depthwise(COLUMN, KERNELS[:2, :1, :1], capacity=2), DepthwiseFolding(2, 2), depth=9),
}
CASES |= {
    "scatter": Case(Regroup(Tensor((2, 5, 6), Int(8))), RegroupFolding(3, in_pixels=2), depth=2),
    "gearbox of pixels": Case(Gearbox(Tensor((2, 4, 12), Int(8))), GearboxFolding(3, 4, 2), depth=2),
    "matmul of pixels": Case(MatMul(IMAGE, WEIGHTS), MatMulFolding(2, 2, 2), depth=2),
    "requantize of pixels": Case(
        ByArithmetic(IMAGE, SIXTEENTHS, (Fraction(0),), Grid.over(Int(4))), RequantizeFolding(2, pixels=2), depth=2
    ),
}
CASES |= {
    "window of pixels": Case(  # the last ones of a row are ragged
        Window(WIDE, (3, 3), pads=(1, 1, 1, 1), pad_value=-9, capacity=24), SlidingFolding(2, 4, 2, 2), depth=2
    ),
    "pool of pixels": Case(
        Pool(TALL, "sum", (2, 2), (2, 2), (0, 0, 1, 1), capacity=8), SlidingFolding(4, 2, 4, 2), depth=2, seed=1
    ),
    "depthwise of pixels": Case(
        Depthwise(TALL, KERNELS, (2, 2), (0, 0, 1, 1), pad_value=-9, capacity=8),
        DepthwiseFolding(4, 2, 4, 2),
        depth=2,
        seed=1,
    ),
}
BUFFERS = ("window", "pool", "depthwise", "gearbox", "regroup")
SLIDING = ("window", "pool", "depthwise", "window of pixels", "pool of pixels", "depthwise of pixels")
NARROW = ("narrow window", "narrow pool", "narrow depthwise")
ACCUMULATORS = ("pool", "depthwise", "reduce", "matmul", "argmax")
ONE_LANE = ("argmax",)


@dataclass(frozen=True)
class Fault:
    """A patch of the circuit, at the seam of its engines and outboxes or in a core's own methods, or one of the law.

    Attributes:
        apply: breaks what is built from now on.
        cores: names of the cases that it must break.
    """

    name: str
    apply: Callable[[pytest.MonkeyPatch], None]
    cores: tuple[str, ...] = EVERY

    def check(self, name: str, patch: pytest.MonkeyPatch) -> None:
        """The proof sees it in a case."""
        self.apply(patch)
        run = prove_case(CASES[name])
        assert run.mismatches or run.firing_mismatches, "the proof does not see the fault"


def prove_case(case: Case) -> Run:
    return prove(alone(case.operator, case.folding, case.depth), frames=case.frames, seed=case.seed)


def each_in_its_cores(faults: list[Fault]) -> list[object]:
    """Parameters (fault, name of a case) of a test."""
    return [pytest.param(fault, name, id=f"{name}: {fault.name}") for fault in faults for name in fault.cores]


def looks_late(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """d off by one: the engine sees the state of the shared buffer one cycle late."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = engine.Engine.holds

        def holds(self: Any, which: int, condition: Any) -> Any:
            condition = original(self, which, condition)
            if self.name != name:
                return condition
            late = Signal(init=name == "writer")
            self.m.d.sync += late.eq(condition)
            return late

        patch.setattr(engine.Engine, "holds", holds)

    return apply
