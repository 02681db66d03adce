"""Thousands of frames through a circuit: parts of them, each from reset, on all processors of the machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw import golden
from onnx_hw.design import Design
from onnx_hw.options import Engine, Stalls
from onnx_hw.proof.circuit.compare import Run, simulate_and_compare
from onnx_hw.proof.circuit.stalls import SEED, Stall, frozen, full_rate, random_stall, starved

if TYPE_CHECKING:
    from onnx_hw.assemble import Names
    from onnx_hw_sim.circuit import Simulator

CYCLES_A_PART = 50_000
"""About as many, and two frames at least: state must not leak. Parts are short so that progress is seen."""


@dataclass(frozen=True)
class Part:
    """Consecutive frames that were streamed and compared.

    Attributes:
        frames: their numbers.
        run: what was compared.
        golden: by output tensor, (frames, height, width, channels) integers.
    """

    frames: range
    run: Run
    golden: Mapping[str, np.ndarray]


def parts_of(design: Design, frames: int) -> list[range]:
    """Numbers of the frames of each part; the last one has two at least, if there are so many."""
    size = max(2, CYCLES_A_PART // design.interval)
    parts = [range(first, min(first + size, frames)) for first in range(0, frames, size)]
    if len(parts) > 1 and len(parts[-1]) < 2:
        parts[-2:] = [range(parts[-2].start, frames)]
    return parts


def stall_of(design: Design, frames: int, stalls: Stalls, number: int) -> Stall:
    """How the outside treats the part of that number: another way for each."""
    others = [kind for kind in Stalls if kind is not Stalls.ALL]
    kind = others[number % len(others)] if stalls is Stalls.ALL else stalls
    if kind is Stalls.NONE:
        return full_rate(design, frames)
    if kind in (Stalls.STARVED, Stalls.FROZEN):
        return (starved if kind is Stalls.STARVED else frozen)(design, frames, number // len(others))
    return random_stall(design, frames, kind.value, SEED + 1000 * number)


def prove_parts(
    design: Design,
    simulator: Simulator,
    names: Names,
    integers: Callable[[range], Mapping[str, np.ndarray]],
    frames: int,
    stalls: Stalls,
) -> Iterator[Part]:
    """Every part, in the order in which they are done.

    Args:
        integers: of the frames of these numbers, by input tensor, (frames, height, width, channels); called in threads.
    """

    def prove(number: int, part: range) -> Part:
        values = golden.trace(design.network, integers(part))
        count = len(next(iter(values.values())))
        run = simulate_and_compare(design, simulator, names, values, stall_of(design, count, stalls, number))
        leaving = {boundary.tensor: values[boundary.tensor] for boundary in design.network.outputs}
        return Part(part, run, leaving)

    workers = 1 if simulator.name in (Engine.INTERPRETED, Engine.GATES) else os.cpu_count() or 1
    pool = ThreadPoolExecutor(workers)
    waiting = iter(enumerate(parts_of(design, frames)))
    running: set[Future[Part]] = set()
    try:
        while True:
            while len(running) < 2 * workers and (next_part := next(waiting, None)) is not None:
                running.add(pool.submit(prove, *next_part))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)
