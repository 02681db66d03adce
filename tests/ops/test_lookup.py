"""Lookup: the circuit against its table and against the firing law."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import ElementFolding
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.cores import requantize as rtl
from support.design_bench import Bench, assert_proven, no_stall
from support.hand_built_designs import alone
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, few

FIVE_BITS = Int(5)


def lookup(operand: Tensor, rows: int, dtype: Int = FIVE_BITS, seed: int = 0) -> Lookup:
    """Values drawn from the whole type."""
    first, last = operand.range
    values = np.random.default_rng(seed).integers(dtype.min, dtype.max + 1, (rows, last - first + 1))
    return Lookup(operand, values, dtype)


@st.composite
def lookups(draw: st.DrawFn) -> tuple[Lookup, int]:
    """(lookup, lanes), reachable ranges included."""
    dtype = Int(draw(st.integers(1, 8)), draw(st.booleans()))
    low, high = sorted((draw(st.integers(dtype.min, dtype.max)), draw(st.integers(dtype.min, dtype.max))))
    channels = draw(st.integers(1, 6))
    operand = Tensor((draw(st.integers(1, 3)), draw(st.integers(1, 4)), channels), dtype, low, high)
    result = Int(draw(st.integers(1, 9)), draw(st.booleans()))
    rows = draw(st.sampled_from([1, channels]))
    return lookup(operand, rows, result, draw(st.integers(0, 99))), draw(st.integers(1, channels))


@few
@given(lookups())
def test_any_lookup(drawn: tuple[Lookup, int]) -> None:
    operator, lanes = drawn
    Case(operator, ElementFolding(lanes)).check()
    assert_facts(operator, ElementFolding(lanes))
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


def wrong_channel(self, m, name, x, chunk, channels):
    return LANE(self, m, name, x, chunk, channels[::-1])


def wrong_entry(self, m, name, x, chunk, channels):
    return LANE(self, m, name, x ^ 1, chunk, channels)


LANE = rtl.TableRequantizer.lane


@pytest.mark.parametrize("fault", [wrong_channel, wrong_entry])
def test_faults_are_seen(monkeypatch: pytest.MonkeyPatch, fault: object) -> None:
    monkeypatch.setattr(rtl.TableRequantizer, "lane", fault)
    with pytest.raises(AssertionError):
        Case(lookup(Tensor((3, 2, 4), Int(4)), 4), ElementFolding(2)).check()
