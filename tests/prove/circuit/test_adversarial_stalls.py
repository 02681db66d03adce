"""Outsides that mean ill: an input that stops for a frame, an output that takes nothing for one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from onnx_hw.ir.design import Design
from onnx_hw.prove.circuit.sharded import choose_stall
from onnx_hw.prove.circuit.stalls import Stall, freeze_output, full_rate, starve_input
from onnx_hw.runtime.options import Stalls
from support.design_bench import Bench, assert_proven
from support.hand_built_designs import unequal_branches


@pytest.mark.parametrize(("stall", "name"), [(starve_input, "starved"), (freeze_output, "frozen")])
def test_an_end_that_stops_for_a_frame_changes_no_value_and_no_prediction(
    stall: Callable[..., Stall], name: str
) -> None:
    design = unequal_branches(8)
    bench, frames = Bench(design), 3
    usual = bench.prove(full_rate(design, frames), frames=frames, seed=1)
    for number in range(2):
        pattern = stall(design, frames, number)
        assert any(array.any() for array in pattern.offers.values()) or not all(r.all() for r in pattern.ready.values())
        run = bench.prove(pattern, frames=frames, seed=1)
        assert_proven(run)
        assert run.stall == name
        assert all(np.array_equal(run.outputs[name], array) for name, array in usual.outputs.items())


def test_every_kind_of_stall_has_its_turn() -> None:
    design: Design = unequal_branches(8)
    kinds = [kind for kind in Stalls if kind is not Stalls.ALL]
    assert [choose_stall(design, 2, Stalls.ALL, number).name for number in range(len(kinds))] == kinds
