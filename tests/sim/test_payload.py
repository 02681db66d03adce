"""Lanes to bits and back, against Python's unbounded integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw_sim.payload import MAX_BITS, check_range, idle, pack, unpack


@given(lanes=st.integers(1, 40), bits=st.integers(1, MAX_BITS), is_signed=st.booleans(), data=st.data())
def test_packs_lane_zero_lowest_and_unpacks_again(lanes: int, bits: int, is_signed: bool, data: st.DataObject) -> None:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    rows = data.draw(st.lists(st.lists(st.integers(low, high), min_size=lanes, max_size=lanes), max_size=4))
    tokens = np.array(rows, dtype=np.int64).reshape(len(rows), lanes)

    payload = pack(tokens, bits)

    as_numbers = [sum((value & (1 << bits) - 1) << k * bits for k, value in enumerate(row)) for row in rows]
    assert [int.from_bytes(row.tobytes(), "little") for row in payload] == as_numbers
    assert payload.shape == (len(rows), -(-lanes * bits // 8))
    assert np.array_equal(unpack(payload, lanes, bits, is_signed), tokens)


def test_ignores_what_stands_above_the_payload() -> None:
    payload = np.array([[0x25, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]], dtype=np.uint8)
    assert unpack(payload, 3, 3, signed=False).tolist() == [[5, 4, 0]]
    assert unpack(payload, 3, 3, signed=True).tolist() == [[-3, -4, 0]]


@pytest.mark.parametrize("bits", [0, MAX_BITS + 1])
def test_refuses_a_lane_it_cannot_hold(bits: int) -> None:
    with pytest.raises(ValueError, match=f"must have 1 to {MAX_BITS} bits"):
        pack(np.zeros((1, 1), dtype=np.int64), bits)


def test_an_idle_source_drives_alternating_bits() -> None:
    assert idle(3, 3).tolist() == [0b10101010, 0]


@pytest.mark.parametrize(("value", "is_signed"), [(8, True), (-9, True), (-1, False), (16, False)])
def test_a_value_that_would_be_cut_is_refused(value: int, is_signed: bool) -> None:
    with pytest.raises(ValueError, match=r"tokens of `x` must lie in -?\d+\.\.\d+"):
        check_range(np.array([[0, value]]), 4, is_signed, "x")
