"""What must hold for every operator, whatever it computes."""

from __future__ import annotations

import numpy as np

from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.schedule import SharedBuffer
from onnx_hw.ops.stream_order import Order


def assert_facts(operator: Operator, folding: Folding) -> None:
    """The schedule carries every beat of every operand and result, once and in order, as fast as ``cycles`` says."""
    schedule = operator.schedule(folding)
    assert schedule.interval == operator.cycles(folding)
    pops = {port: events for engine in schedule.engines for port, events in engine.pops.items()}
    pushes = {port: events for engine in schedule.engines for port, events in engine.pushes.items()}
    assert {port: len(events) for port, events in pops.items()} == {
        port: order.beats for port, order in zip(operator.inputs, operator.input_orders(folding), strict=True)
    }
    assert {port: len(events) for port, events in pushes.items()} == {
        port: order.beats for port, order in zip(operator.outputs, operator.output_orders(folding), strict=True)
    }
    for engine in schedule.engines:
        for events in map(np.asarray, (*engine.pops.values(), *engine.pushes.values())):
            assert np.all(np.diff(events) > 0) and events[0] >= 0 and events[-1] < engine.operations
    operations = {engine.name: engine.operations for engine in schedule.engines}
    for buffer in schedule.buffers:
        _assert_buffer(buffer, operations[buffer.writer], operations[buffer.reader])
    resources = operator.resources(folding)
    assert min(vars(resources).values()) >= 0 and resources.lut > 0


def _assert_buffer(buffer: SharedBuffer, beats: int, operations: int) -> None:
    """Beats are given back in order, and all of them by the end of the frame."""
    waits, needs, releases = map(np.asarray, (buffer.waits, buffer.needs, buffer.releases))
    assert len(waits) == len(needs) > 0 and len(releases) == beats
    assert np.all(np.diff(waits) > 0) and waits[0] >= 0 and waits[-1] < operations
    assert np.all(np.diff(needs) > 0) and needs[0] >= 0 and needs[-1] < beats
    assert np.all(np.diff(releases) >= 0) and releases[0] >= 0 and releases[-1] < operations


def assert_foldings_keep_up(operator: Operator) -> None:
    """``foldings(interval)`` keep the interval, meet the neighbours' lanes where they can, and find the slowest."""
    channels = [max(tensor.channels for tensor in side) for side in (operator.operands(), operator.results())]
    slowest = operator.cycles(operator.narrowest)
    for interval in {1, 2, 5, slowest // 3, slowest // 2, slowest}:
        for in_lanes, out_lanes in ((None, None), (2, None), (None, 3), (3, 2)):
            for folding in operator.foldings(interval, *beside(operator, in_lanes, out_lanes)):
                assert operator.cycles(folding) <= interval
                assert all(1 <= order.lanes <= channels[0] for order in operator.input_orders(folding))
                assert all(1 <= order.lanes <= channels[1] for order in operator.output_orders(folding))
    assert list(operator.foldings(slowest, *beside(operator, 1, 1))), "every operator runs on one lane"


def beside(operator: Operator, in_lanes: int | None, out_lanes: int | None) -> tuple[Order | None, Order | None]:
    """Orders of neighbours that have chosen so many lanes, or have not chosen yet."""
    (given, *_), (made, *_) = operator.operands(), operator.results()
    return (
        None if in_lanes is None else Order(given, in_lanes),
        None if out_lanes is None else Order(made, out_lanes),
    )
