"""Stalls: behaviour of the outside in a proof (links 3 and 4), never waiting or hesitating at both ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from onnx_hw.ir.design import Design
from onnx_hw.timing.frame_times import Frames

SEED = 20
"""Seed of random stalls: two builds get the same ones."""

FULL_RATE = "none"
"""Name of a run without stalls."""


@dataclass(frozen=True)
class Stall:
    """Behaviour of the outside in one run.

    Attributes:
        name: for the report.
        offers: cycle from which each token is offered, of all frames, per input tensor.
        ready: trace of readiness per output tensor, (cycles,) or, of one that begins again, (rounds, cycles); always
            ready past its end.
    """

    name: str
    offers: Mapping[str, np.ndarray]
    ready: Mapping[str, np.ndarray]


def full_rate(design: Design, frames: int) -> Stall:
    """Return the stall of an outside that never waits."""
    offers = {e.tensor: np.zeros(frames * e.beats, dtype=np.int64) for e in design.edges() if e.producer is None}
    return Stall(FULL_RATE, offers, {})


def random_stall(design: Design, frames: int, kind: str, seed: int = SEED) -> Stall:
    """Return the stall of sources and sinks that hesitate, at random or in bursts."""
    from onnx_hw_sim import stalls

    interval = design.interval
    offers, ready = {}, {}
    for k, edge in enumerate(design.edges()):
        tokens = frames * edge.beats
        if edge.producer is None:
            pace = min(0.9, 1.2 * edge.beats / interval)  # about the circuit's own, so that both ends starve and block
            offers[edge.tensor] = (
                stalls.random_offers(tokens, pace, seed + k)
                if kind == "random"
                else stalls.burst_offers(tokens, 60, 60, seed + k)
            )
        if edge.consumer is None:
            ready[edge.tensor] = stalls.repeated(
                partial(stalls.random_ready, p=0.5, seed=seed + k)
                if kind == "random"
                else partial(stalls.burst_ready, longest=60, pause=60, seed=seed + k),
                2 * frames * interval,
            )
    return Stall(kind, offers, ready)


def starve_input(design: Design, frames: int, number: int = 0) -> Stall:
    """Stop an input in mid-frame for the time of a frame; of several inputs, the one with this number.

    So one branch before a join fills and the other one empties.
    """
    from onnx_hw_sim import stalls

    at_once = full_rate(design, frames)
    inputs = [edge for edge in design.edges() if edge.producer is None]
    edge = inputs[number % len(inputs)]
    first = edge.beats * (1 + number // len(inputs) % 7) // 8  # another place each time
    held = stalls.held_offers(frames * edge.beats, first, 2 * design.interval)
    return Stall("starved", {**at_once.offers, edge.tensor: held}, {})


def freeze_output(design: Design, frames: int, number: int = 0) -> Stall:
    """Stop an output behind the first frame for the time of a frame; of several outputs, the one with this number."""
    from onnx_hw_sim import stalls

    outputs = [edge for edge in design.edges() if edge.consumer is None]
    edge = outputs[number % len(outputs)]
    first = Frames(design).times(1, interval=0).latency() + design.interval * (number // len(outputs) % 7) // 8
    ready = {edge.tensor: stalls.frozen_ready(first, design.interval)}
    return Stall("frozen", full_rate(design, frames).offers, ready)
