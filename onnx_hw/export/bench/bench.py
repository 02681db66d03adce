"""Test bench that compares the circuit with its golden model on every stream; it needs only cocotb and numpy.

``streams.json`` lists the streams. ``vectors.npz`` holds for each of them the integers of all frames, (beats, lanes);
in ``<stream>_used`` which lanes are used, where not all of a beat are; and in ``<stream>_cycles``, for a stream that
leaves, the cycle of every beat at full rate. Cycle 0 is the first one in which sources may be valid. The environment
variable ``FRAMES`` limits the number of frames.

``drive``, ``accept`` and ``Scoreboard`` know this circuit only by their arguments: reuse them in the bench of your own
design.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any

import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

import cocotb

FOLDER = Path(__file__).parent
FACTS = json.loads((FOLDER / "streams.json").read_text()) if (FOLDER / "streams.json").exists() else {"streams": []}
FRAMES = min(int(os.environ.get("FRAMES", "1000")), FACTS.get("frames", 0))
SLACK_CYCLES = 64  # after the last beat that is due; no beat may follow in them


@dataclass(frozen=True)
class BenchStream:
    """Stream of the circuit, as ``streams.json`` describes it; ``beats`` is the number of beats in a frame."""

    name: str
    tensor: str
    direction: str
    lanes: int
    bits: int
    signed: bool
    beats: int

    def word(self, beat: np.ndarray) -> int:
        """Return the payload of a beat; lane 0 is in the lowest bits."""
        return sum((int(value) % (1 << self.bits)) << (self.bits * k) for k, value in enumerate(beat))

    def lane(self, payload: str, lane: int) -> str:
        """Return the bits of one lane of a payload, the highest first."""
        end = len(payload) - self.bits * lane
        return payload[end - self.bits : end]

    def text(self, value: int) -> str:
        """Return the bits of an integer in a lane, the highest first."""
        return format(int(value) % (1 << self.bits), f"0{self.bits}b")

    def number(self, bits: str) -> str:
        """Return the integer that the bits of a lane stand for; the bits themselves where one is unknown."""
        if not set(bits) <= {"0", "1"}:
            return bits
        return str(int(bits, 2) - (1 << self.bits if self.signed and bits[0] == "1" else 0))


STREAMS = [BenchStream(**stream) for stream in FACTS["streams"]]


@cache
def vectors() -> dict[str, np.ndarray]:
    with np.load(FOLDER / "vectors.npz") as file:
        return {name: file[name] for name in file.files}


def golden(stream: BenchStream) -> np.ndarray:
    """Return the golden beats of all frames that are streamed, (beats, lanes)."""
    return vectors()[stream.name][: FRAMES * stream.beats]


# Patterns of pauses: one bool per cycle, true where an end of a stream is willing to transfer.


def always() -> Iterator[bool]:
    return repeat(True)


def at_random(probability: float, seed: int) -> Iterator[bool]:
    generator = random.Random(seed)
    return (generator.random() < probability for _ in count())


def in_bursts(longest: int, seed: int) -> Iterator[bool]:
    """Return a pattern that is willing for 1 to ``longest`` cycles, unwilling for 1 to ``longest``, and so on."""
    generator = random.Random(seed)
    return chain.from_iterable(repeat(k % 2 == 0, generator.randint(1, longest)) for k in count())


def frozen(first: int, cycles: int) -> Iterator[bool]:
    """Return a pattern that is willing for ``first`` cycles, then unwilling for ``cycles``, then willing for ever."""
    return chain(repeat(True, first), repeat(False, cycles), repeat(True))


# The two ends of a stream.


async def drive(dut: Any, stream: BenchStream, words: list[int], willing: Iterator[bool]) -> None:
    """Offer beat after beat, each until it is taken; in between, show rubbish without ``valid``."""
    payload, valid, ready = signals(dut, stream)
    rubbish = int("01" * (stream.lanes * stream.bits), 2) % (1 << stream.lanes * stream.bits)
    for word in words:
        while not next(willing):
            payload.value, valid.value = rubbish, 0
            await RisingEdge(dut.clk)
        payload.value, valid.value = word, 1
        await RisingEdge(dut.clk)
        while ready.value != 1:
            await RisingEdge(dut.clk)
    payload.value, valid.value = rubbish, 0


async def accept(dut: Any, stream: BenchStream, willing: Iterator[bool]) -> None:
    """Be ready whenever willing; the scoreboard looks at what is taken."""
    _, _, ready = signals(dut, stream)
    while True:
        ready.value = int(next(willing))
        await RisingEdge(dut.clk)


def signals(dut: Any, stream: BenchStream) -> tuple[Any, Any, Any]:
    """Return the signals payload, valid and ready of a stream."""
    payload, valid, ready = (getattr(dut, f"{stream.name}_{signal}") for signal in ("payload", "valid", "ready"))
    return payload, valid, ready


class Scoreboard:
    """Comparison of the beats on every stream with golden's; ``cycles`` are those expected of some, by name."""

    def __init__(self, dut: Any, streams: list[BenchStream], cycles: dict[str, np.ndarray]) -> None:
        self.dut, self.streams, self.due = dut, streams, cycles
        self.passed = dict.fromkeys((stream.name for stream in streams), 0)
        self.wrong: dict[str, str] = {}
        self.quiet = self.cycle = 0
        self.signals = [(stream, *signals(dut, stream)) for stream in streams]

    async def watch(self, frames: int, patience: int) -> None:
        """Compare until every output beat has left, and for ``SLACK_CYCLES`` more.

        Raises:
            AssertionError: a stream differs, or nothing has moved for ``patience`` cycles.
        """
        outputs = [stream for stream in self.streams if stream.direction == "out"]
        slack = SLACK_CYCLES
        while slack:
            await RisingEdge(self.dut.clk)
            self.quiet += 1
            for stream, payload, valid, ready in self.signals:
                if valid.value == 1 and ready.value == 1:
                    self.take(stream, payload.value)
                    self.quiet = 0
            self.cycle += 1
            done = all(self.passed[stream.name] >= frames * stream.beats for stream in outputs)
            slack -= done
            assert done or self.quiet < patience, (
                f"nothing has moved for {patience} cycles: {self.waits()}{self.differences()}"
            )
        assert not self.wrong, self.differences()

    def take(self, stream: BenchStream, payload: Any) -> None:
        """Compare one beat.

        Beats behind the last frame depend on padding alone, as the first ones of any frame do, or on a kept state: then
        the vectors hold one frame more.
        """
        number = self.passed[stream.name]
        self.passed[stream.name] += 1
        if stream.name in self.wrong:
            return
        beats, used = vectors()[stream.name], vectors().get(f"{stream.name}_used")
        at = number if number < len(beats) else number - FRAMES * stream.beats
        if number >= (FRAMES + 1) * stream.beats:
            self.wrong[stream.name] = f"{stream.tensor}: a surplus beat, number {number}, cycle {self.cycle}"
            return
        bits = str(payload)
        for lane, value in enumerate(beats[at]):
            if used is not None and not used[at % stream.beats, lane]:
                continue
            if stream.lane(bits, lane) != stream.text(value):
                where = f"{stream.tensor}: frame {number // stream.beats}, beat {number % stream.beats}, lane {lane}"
                actual = stream.number(stream.lane(bits, lane))
                self.wrong[stream.name] = f"{where}: golden {value}, circuit {actual}, cycle {self.cycle}"
                return
        due = self.due.get(stream.name)
        if due is not None and (number >= len(due) or due[number] != self.cycle):
            when = due[number] if number < len(due) else "never"
            self.wrong[stream.name] = f"{stream.tensor}: beat {number} is due in cycle {when}, but came in {self.cycle}"

    def differences(self) -> str:
        """Return the first difference of every stream that has one, in the order of the network."""
        return "".join(f"\n  {self.wrong[stream.name]}" for stream in self.streams if stream.name in self.wrong)

    def waits(self) -> str:
        """Return the streams of which one end waits for the other."""
        states = [(stream.tensor, valid.value == 1, ready.value == 1) for stream, _, valid, ready in self.signals]
        offered = [name for name, valid, ready in states if valid and not ready]
        awaited = [name for name, valid, ready in states if ready and not valid]
        return f"offered but not taken: {', '.join(offered) or 'none'}; waited for: {', '.join(awaited) or 'none'}"


async def reset(dut: Any) -> None:
    """Reset the circuit, up to the clock edge at which cycle 0 begins."""
    dut.rst.value = 1
    for stream in STREAMS:
        payload, valid, ready = signals(dut, stream)
        if stream.direction == "in":
            payload.value, valid.value = 0, 0
        elif stream.direction == "out":
            ready.value = 0
    for _ in range(2):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    for _ in range(FACTS["reset_delay"]):
        await RisingEdge(dut.clk)


def begin(dut: Any, offering: Iterator[Iterator[bool]], taking: Iterator[Iterator[bool]]) -> list[Any]:
    """Start both ends of all streams in this cycle; each takes the next pattern."""
    tasks = []
    for stream in STREAMS:
        if stream.direction == "in":
            words = [stream.word(beat) for beat in golden(stream)]
            tasks.append(cocotb.start_soon(drive(dut, stream, words, next(offering))))
        elif stream.direction == "out":
            tasks.append(cocotb.start_soon(accept(dut, stream, next(taking))))
    return tasks


async def run(
    dut: Any, offering: Iterator[Iterator[bool]], taking: Iterator[Iterator[bool]], *, false_start: int = 0
) -> None:
    """Stream all frames and compare.

    Args:
        false_start: number of cycles at full rate before a reset, which must leave no trace.
    """
    Clock(dut.clk, 10, unit="ns").start()
    await reset(dut)
    if false_start:
        tasks = begin(dut, iter(always, None), iter(always, None))
        for _ in range(false_start):
            await RisingEdge(dut.clk)
        for task in tasks:
            task.cancel()
        await reset(dut)
    full_rate = isinstance(offering, Unstalled) and isinstance(taking, Unstalled) and FACTS["frames"] == FRAMES
    due = {s.name: vectors()[f"{s.name}_cycles"] for s in STREAMS if s.direction == "out"} if full_rate else {}
    begin(dut, offering, taking)
    await Scoreboard(dut, STREAMS, due).watch(FRAMES, 4 * FACTS["interval_cycles"] + 2000)


class Unstalled:
    """Patterns without pauses, for which the cycle of every beat is known."""

    def __iter__(self) -> Unstalled:
        return self

    def __next__(self) -> Iterator[bool]:
        return always()


@cocotb.test()
async def at_full_rate(dut: Any) -> None:
    """Compare every value, and the cycle of every beat that leaves."""
    await run(dut, Unstalled(), Unstalled())


@cocotb.test()
async def hesitating_at_random(dut: Any) -> None:
    await run(dut, (at_random(0.5, seed) for seed in count()), (at_random(0.5, 100 + seed) for seed in count()))


@cocotb.test()
async def hesitating_in_bursts(dut: Any) -> None:
    await run(dut, (in_bursts(40, seed) for seed in count()), (in_bursts(40, 100 + seed) for seed in count()))


@cocotb.test()
async def an_output_is_frozen_for_a_frame(dut: Any) -> None:
    """Freeze one output while the others go on as far as they can; then all go on."""
    interval = FACTS["interval_cycles"]
    await run(dut, Unstalled(), chain((frozen(interval, interval),), Unstalled()))


@cocotb.test()
async def reset_in_mid_frame(dut: Any) -> None:
    """Reset in the middle of a frame and check that no state is left over."""
    await run(dut, Unstalled(), Unstalled(), false_start=FACTS["interval_cycles"] * 2 // 3)
