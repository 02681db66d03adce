"""Lookup: the circuit against its table and against the firing law."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import ElementFolding, Folding
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.cores import requantize as rtl
from support.design_bench import Bench, assert_proven, no_stall
from support.hand_built_designs import alone
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, few
from support.random_cores import random_integers


def random_lookup(draw: Random) -> Operator:
    operand = Tensor((6, 6, draw.choice((1, 4, 8))), Int(draw.randint(4, 8)))
    each = draw.choice((1, 1, operand.channels))
    made = Int(draw.choice((4, 8)))
    return Lookup(operand, random_integers(draw, (each, 1 << operand.dtype.bits), made.bits), made)


FIVE_BITS = Int(5)


def lookup(operand: Tensor, rows: int, dtype: Int = FIVE_BITS, seed: int = 0) -> Lookup:
    """Values drawn from the whole type."""
    first, last = operand.range
    values = np.random.default_rng(seed).integers(dtype.min, dtype.max + 1, (rows, last - first + 1))
    return Lookup(operand, values, dtype)


@st.composite
def lookups(draw: st.DrawFn) -> tuple[Lookup, Folding]:
    """Operands of a part of their type's range among them."""
    dtype = Int(draw(st.integers(1, 8)), draw(st.booleans()))
    low, high = sorted((draw(st.integers(dtype.min, dtype.max)), draw(st.integers(dtype.min, dtype.max))))
    channels = draw(st.integers(1, 6))
    operand = Tensor((draw(st.integers(1, 3)), draw(st.integers(1, 4)), channels), dtype, low, high)
    result = Int(draw(st.integers(1, 9)), draw(st.booleans()))
    rows = draw(st.sampled_from([1, channels]))
    return lookup(operand, rows, result, draw(st.integers(0, 99))), ElementFolding(draw(st.integers(1, channels)))


@few
@given(lookups())
def test_any_lookup(drawn: tuple[Lookup, Folding]) -> None:
    operator, folding = drawn
    Case(operator, folding).check()
    assert_facts(operator, folding)
    assert_foldings_keep_up(operator)


@pytest.mark.parametrize("signed", [True, False])
def test_every_argument(signed: bool) -> None:
    dtype = Int(8, signed)
    operator = lookup(Tensor((16, 16, 1), dtype), 1)
    design = alone(operator, (1, 1), 16)
    every = np.arange(dtype.min, dtype.max + 1).reshape(1, 16, 16, 1)
    run = Bench(design).prove(no_stall(design, 1), frames=1, inputs={"i": every})
    assert_proven(run)
    assert run.outputs["node.o"].reshape(-1).tolist() == operator.values[0].tolist()


@pytest.mark.parametrize("lanes", [1, 2, 3, 5])
def test_a_table_per_channel_at_every_cut(lanes: int) -> None:
    Case(lookup(Tensor((3, 2, 5), Int(4)), 5), ElementFolding(lanes)).check()


@pytest.mark.parametrize(
    ("rows", "count", "value", "message"),
    [(2, 16, 0, "1 or 3 rows of 16"), (1, 15, 0, "1 or 3 rows of 16"), (1, 16, 16, "must lie within")],
)
def test_refuses_tables_that_do_not_fit(rows: int, count: int, value: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Lookup(Tensor((1, 1, 3), Int(4)), np.full((rows, count), value), Int(5))


# ---- for the tests of every core -----------------------------------------------------------------------------------


def looks_up_with(change: Callable[[Any, Any], tuple[Any, Any]]) -> Callable[[pytest.MonkeyPatch], None]:
    """Another argument, or the channels in another order."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = rtl.TableRequantizer.lane

        def lane(self: Any, m: Any, name: str, x: Any, chunk: Any, channels: Any, constants: Any) -> Any:
            x, channels = change(x, channels)
            return original(self, m, name, x, chunk, channels, constants)

        patch.setattr(rtl.TableRequantizer, "lane", lane)

    return apply


DRAWS = {"lookup": random_lookup}
STRATEGIES = {"lookup": lookups()}
CASES = {"lookup": Case(lookup(Tensor((3, 2, 4), Int(4)), 4), ElementFolding(2), depth=2, seed=1)}
FAULTS = [
    Fault("a lane has the table of another channel", looks_up_with(lambda x, channels: (x, channels[::-1]))),
    Fault("the entry is that of another argument", looks_up_with(lambda x, channels: (x ^ 1, channels))),
]
NARROW_CORES = {
    "lookup": (Lookup(NARROW_IMAGE, np.arange(256)[None] % 7, Int(4)), ElementFolding(4)),
}
WIDE_CORES = {
    "lookup": (Lookup(WIDE_IMAGE, np.arange(256)[None] % 7, Int(4)), ElementFolding(8)),
}
