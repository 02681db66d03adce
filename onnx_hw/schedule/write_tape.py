"""Order of the weights outside the chip: that in which one complete schedule of a frame needs them.

The design is solved with a source of its own for the weights of every core, a frame alone. The groups of all cores are
sorted by the cycle in which their first word is needed, and come on the tape in this order, frame after frame.

Why no FIFO, however small, and no stall can stop it, if every core has room for a group: let the tape wait for room at
a core. Then the core has all earlier groups of its own and has not given one of them back; and all groups that the
schedule needs before this one have been dealt. So the schedule up to there can be followed, and it gives that group
back. What is still allowed to happen does not depend on time.

Words of a frame come before those of the next one. An order in which cores work on different frames at once would let a
result wait for frames that may never come.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import numpy as np

from onnx_hw.ir.design import Design, FifoSize
from onnx_hw.ir.verify_design import verify_design
from onnx_hw.ops.tape import TAPE, WEIGHTS_PORT, Tape, weights_edge
from onnx_hw.timing.prediction import Events

NEVER = np.iinfo(np.int64).max
"""Cycle of what a network that comes to a stop by itself never does: it comes last on a tape."""


def write_tape(design: Design) -> Design:
    """Return the design with the order of its weights outside the chip; the same if it has none there.

    Args:
        design: with its FIFOs.
    """
    ports = design.taped_ports()
    if not ports:
        return design
    needed = group_needs(design)
    groups = sorted(
        (int(cycle), k, group) for k, port in enumerate(ports) for group, cycle in enumerate(needed[port.node])
    )
    runs = tuple((which, len(list(run))) for which, run in groupby(which for _, which, _ in groups))
    return with_tape(design, Tape(ports, runs))


def with_tape(design: Design, tape: Tape) -> Design:
    """Return the design with a tape, and the FIFOs behind its deal and its reader."""
    reader = design.reader
    depths = {weights_edge(port.node): reader.word_depth(port.word_bytes) if reader else 1 for port in tape.ports}
    depths |= {TAPE: reader.depth} if reader else {}
    tape = replace(tape, sdram=design.sdram)
    fifos = {**design.fifos, **{tensor: FifoSize(depth, 1, depth) for tensor, depth in depths.items()}}
    return verify_design(replace(design, tape=tape, fifos=fifos), "write_tape")


def group_needs(design: Design) -> dict[str, np.ndarray]:
    """Return the cycle in which each core needs the first word of each of its groups, in a frame alone, by node; or
    ``NEVER``.

    Args:
        design: without a tape, so that each core's weights come from a source of its own, and are always there.
    """
    alone = replace(design, tape=None, flash=None, sdram=None)
    offers = {edge.tensor: np.zeros(edge.beats, dtype=np.int64) for edge in alone.edges() if edge.producer is None}
    depths = {edge.tensor: design.fifos[edge.tensor].depth for edge in alone.edges() if edge.producer}
    fires = Events(alone).solve(1, offers=offers, depths=depths).fires
    schedules, needed = alone.schedules(), {}
    for port in design.taped_ports():
        schedule = schedules[port.node]
        writer = next(engine for engine in schedule.engines if WEIGHTS_PORT in engine.pops)
        buffer = next(buffer for buffer in schedule.buffers if buffer.writer == writer.name)
        needs, waits = np.asarray(buffer.needs), np.asarray(buffer.waits)
        first = np.searchsorted(needs, np.arange(port.groups) * port.group_words)
        once = next(engine.once for engine in schedule.engines if engine.name == buffer.reader)
        fired = fires[port.node, buffer.reader]
        operation = once + waits[first]
        needed[port.node] = np.full(port.groups, NEVER)
        reached = operation < len(fired)
        needed[port.node][reached] = fired[operation[reached]]
    return needed
