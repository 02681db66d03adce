"""An operator alone, folded, between neighbours that stall: drawn by hypothesis, small enough for a blink."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import assume, settings
from hypothesis import strategies as st

from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.outbox import DEEPEST_IN_LUTRAM
from onnx_hw.prove.circuit.run_comparison import Run
from support.design_bench import assert_proven, prove
from support.hand_built_designs import alone

few = settings(max_examples=12, derandomize=True)
"""For tests that simulate: the same examples in every run. Others are drawn in the slow tests."""

many = settings(max_examples=28)
"""For tests that do not."""

MOST_OPERATIONS = 300
"""Of an engine, per frame."""


@dataclass(frozen=True)
class Case:
    """One node, folded, between neighbours that stall."""

    operator: Operator
    folding: Folding
    depth: int = 4
    frames: int = 3
    seed: int = 0
    stalls: bool = True
    false_start: int = 0

    def check(self) -> Run:
        """Every value on every edge and every firing agrees."""
        design = alone(self.operator, self.folding, self.depth)
        run = prove(design, frames=self.frames, seed=self.seed, stalls=self.stalls, false_start=self.false_start)
        assert_proven(run)
        return run

    def __repr__(self) -> str:
        """Everything one needs to run it again."""
        parameters = ", ".join(f"{name}={value!r}" for name, value in vars(self.operator).items())
        rest = ", ".join(
            f"{name}={value!r}" for name, value in vars(self).items() if name not in ("operator", "folding")
        )
        numbers = ", ".join(f"{name}={value}" for name, value in self.folding.said().items())
        folding = f"{type(self.folding).__name__}({numbers})"
        return f"Case({type(self.operator).__name__}({parameters}), {folding}, {rest})"


FoldedOperator = st.SearchStrategy[tuple[Operator, Folding]]

depths = st.one_of(st.integers(1, 5), st.integers(1, 40), st.sampled_from([DEEPEST_IN_LUTRAM, DEEPEST_IN_LUTRAM + 1]))


@st.composite
def cases(draw: st.DrawFn, folded: FoldedOperator) -> Case:
    """Depth, frames, stalls and resets for an operator and its folding."""
    operator, folding = draw(folded)
    assume(operator.cycles(folding) <= MOST_OPERATIONS)
    return Case(
        operator,
        folding,
        depth=draw(depths),
        frames=draw(st.integers(2, 4)),
        seed=draw(st.integers(0, 999)),
        stalls=draw(st.sampled_from([True, True, False])),
        false_start=draw(st.sampled_from([0, 0, 1, 7, 40])),
    )
