# amaranth: UnusedElaboratable=no
"""Frames through a network between AXI4-Streams, in Amaranth's simulator: golden, whatever the ends and marks are."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest
from amaranth.sim import Simulator

from onnx_hw_rtl.shells.axi_stream_shell import AxiStreamShell
from support.shell_bench import Small, drawn, small

Transfer = tuple[bytes, bool]  # what is carried, and whether it is marked as a frame's last


class Bench:
    """Transfers into a shell, each offered until it is taken; those that come out."""

    def __init__(self, of: Small, into: list[list[Transfer]], busy: float, *, marked: bool = True) -> None:
        self.shell = AxiStreamShell(of.assembly(), of.inputs, of.outputs, marked=marked)
        self.of, self.into, self.busy = of, into, busy
        self.out: list[Transfer] = []
        self.wrong = 0

    def run(self, frames: int) -> Bench:
        simulator = Simulator(self.shell)
        simulator.add_clock(1e-6)
        for k in range(len(self.into)):
            simulator.add_process(partial(self._send, k=k))
        simulator.add_testbench(partial(self._take, count=frames * self.of.outputs[0].beats))
        simulator.run()
        return self

    async def _send(self, context, k: int) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        """AXI: what is offered stays, and does not wait for ``tready``; offered from the first cycle on."""
        hesitates = random.Random(k)
        data, valid, ready, last = (
            getattr(self.shell, f"s_axis_{self.of.inputs[k].name}_t{part}")
            for part in ("data", "valid", "ready", "last")
        )
        for word, mark in self.into[k]:
            context.set(valid, 1)
            context.set(data, int.from_bytes(word, "little"))
            context.set(last, mark)
            await context.tick().until(ready)
            context.set(valid, 0)
            context.set(last, hesitates.randrange(2))
            while hesitates.random() > self.busy:
                await context.tick()

    async def _take(self, context, count: int) -> None:  # type: ignore[no-untyped-def]
        hesitates, cycles = random.Random(9), 0
        (port,) = self.of.outputs
        data, valid, ready, last = (
            getattr(self.shell, f"m_axis_{port.name}_t{part}") for part in ("data", "valid", "ready", "last")
        )
        while len(self.out) < count:
            willing = hesitates.random() < self.busy
            context.set(ready, willing)
            if willing and context.get(valid):
                self.out.append((context.get(data).to_bytes(port.transfer_bytes, "little"), bool(context.get(last))))
            await context.tick()
            cycles += 1
            assert cycles < 20_000, f"{len(self.out)} of {count} transfers"
        self.wrong = context.get(self.shell.wrong)


@pytest.fixture(scope="module")
def network() -> Small:
    return small()


def transfers(of: Small, frames: dict[str, np.ndarray]) -> list[list[Transfer]]:
    """With the mark where it belongs."""
    return [
        [(word, k % port.beats == port.beats - 1) for k, word in enumerate(of.beats(tensor, frames[tensor]))]
        for tensor, port in zip(("a", "b"), of.inputs, strict=True)
    ]


@pytest.mark.parametrize("busy", [1.0, 0.5])
def test_frames_are_goldens_and_marked(network: Small, busy: float) -> None:
    frames = drawn(4, 1)
    made = Bench(network, transfers(network, frames), busy).run(4)
    assert np.array_equal(network.sums_of(b"".join(word for word, _ in made.out)), network.sums(frames))
    assert [mark for _, mark in made.out] == ([False] * 17 + [True]) * 4
    assert made.wrong == 0


def test_a_frame_cut_short_is_filled_up_and_one_too_long_is_cut(network: Small) -> None:
    """Of ``a`` the second frame ends early, of ``b`` the third one late; the others are golden's all the same."""
    frames = drawn(5, 2)
    a, b = transfers(network, frames)
    kept = 5  # beats of the second frame of a
    a[12 + kept - 1] = a[12 + kept - 1][0], True
    del a[12 + kept : 24]
    b[3 * 18 - 1] = b[3 * 18 - 1][0], False
    b[3 * 18 : 3 * 18] = [(bytes([7, 0, 7, 0]), False)] * 3 + [(bytes(4), True)]
    made = Bench(network, [a, b], 0.7).run(5)
    order = next(edge.order for edge in network.design.edges() if edge.tensor == "a")
    beats = order.to_beats(frames["a"])
    beats[12 + kept : 24] = 0
    wanted = network.sums({"a": order.from_beats(beats), "b": frames["b"]})
    assert np.array_equal(network.sums_of(b"".join(word for word, _ in made.out)), wanted)
    assert made.wrong == 0b11


def test_frames_may_come_without_marks(network: Small) -> None:
    frames = drawn(3, 3)
    unmarked = [[(word, False) for word, _ in stream] for stream in transfers(network, frames)]
    made = Bench(network, unmarked, 0.8, marked=False).run(3)
    assert np.array_equal(network.sums_of(b"".join(word for word, _ in made.out)), network.sums(frames))
    assert made.wrong == 0
