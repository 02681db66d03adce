# amaranth: UnusedElaboratable=no
"""Outbox: registers, LUTRAM and block RAM against one naive queue, cycle by cycle."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import pytest
from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw_rtl.streams.outbox import DEEPEST_IN_LUTRAM, Outbox, visible_after
from support.design_bench import trace

BITS = 16


@dataclass
class Queue:
    """Model of an outbox: tokens in order, each visible some cycles after it came, and a count of places."""

    depth: int
    tokens: deque[tuple[int, int]] = field(default_factory=deque)  # (cycle from which it is visible, value)
    taken: int = 0

    def head(self, cycle: int) -> int | None:
        """Return the token that is offered; None without one."""
        return self.tokens[0][1] if self.tokens and self.tokens[0][0] <= cycle else None

    def has_room(self) -> bool:
        return self.taken < self.depth

    def step(self, cycle: int, *, reserve: bool, arrives: int | None, pop: bool) -> None:
        if arrives is not None:
            self.tokens.append((cycle + visible_after(self.depth), arrives))
        if pop:
            self.tokens.popleft()
        self.taken += reserve - pop


def follow(depth: int, latency: int, wants: np.ndarray, ready: np.ndarray) -> int:
    """Run an outbox next to its model and return the number of tokens that came out.

    Args:
        latency: cycles between reservation and arrival.
        wants: (cycles,) bool: whether the engine would reserve; it does if there is a credit.
        ready: (cycles,) bool: the consumer.
    """
    outbox, queue = Outbox(BITS, depth), Queue(depth)
    pipeline = deque([None] * latency)
    values = np.random.default_rng(depth).integers(0, 1 << BITS, len(wants)).tolist()
    out = 0

    async def bench(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        nonlocal out
        for cycle in range(len(wants)):
            reserve = bool(wants[cycle]) and queue.has_room()
            pipeline.append(values[cycle] if reserve else None)
            arrives = pipeline.popleft()
            context.set(outbox.reserve, reserve)
            context.set(outbox.write, arrives is not None)
            context.set(outbox.data, arrives if arrives is not None else 0x5555)
            context.set(outbox.o.ready, bool(ready[cycle]))
            head = queue.head(cycle)
            assert context.get(outbox.o.valid) == (head is not None), f"cycle {cycle}"
            if head is not None:
                assert context.get(outbox.o.payload) == head, f"cycle {cycle}"
            pop = head is not None and bool(ready[cycle])
            queue.step(cycle, reserve=reserve, arrives=arrives, pop=pop)
            assert context.get(outbox.credit_next) == queue.has_room(), f"cycle {cycle}"
            out += pop
            await context.tick()

    simulator = Simulator(outbox)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return out


@settings(max_examples=40)
@given(
    st.one_of(st.integers(1, 6), st.integers(1, 70), st.sampled_from([DEEPEST_IN_LUTRAM, DEEPEST_IN_LUTRAM + 1])),
    st.integers(0, 12),
    st.integers(0, 999),
)
def test_is_a_queue_with_credits(depth: int, latency: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    assert follow(depth, latency, trace(generator, 250), trace(generator, 250)) > 0


@pytest.mark.parametrize("depth", [1, 2, 3, 17, DEEPEST_IN_LUTRAM, DEEPEST_IN_LUTRAM + 1, 64])
def test_fills_and_empties(depth: int) -> None:
    """Let the consumer sleep until nothing more fits, then take everything, twice."""
    wants = np.ones(6 * depth + 60, dtype=bool)
    ready = np.arange(len(wants)) % (2 * depth + 20) >= depth + 15
    assert follow(depth, 4, wants, ready) >= 2 * depth


@pytest.mark.parametrize("latency", [0, 1, 5, 40])
def test_one_token_per_cycle_at_the_depth_of_a_round_trip(latency: int) -> None:
    """Check that L + V + 1 places, in either kind of memory, leave no bubble."""
    depth = next(d for d in range(1, 99) if d >= latency + visible_after(d) + 1)
    always = np.ones(200, dtype=bool)
    assert follow(depth, latency, always, always) == 200 - latency - visible_after(depth)
    if depth > 1:
        assert follow(depth - 1, latency, always, always) < 200 - latency - visible_after(depth - 1)


def test_refuses_an_edge_that_holds_nothing() -> None:
    with pytest.raises(ValueError, match="at least one token, not 0"):
        Outbox(8, 0)
