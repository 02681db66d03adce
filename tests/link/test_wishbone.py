# amaranth: UnusedElaboratable=no
"""Frames through a network on a bus, in Amaranth's simulator: golden, with the wrong moments asked for as well."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import numpy as np
from amaranth.sim import Simulator

from onnx_hw_link.frames import from_transfers, in_turns, out_of_turns, to_transfers
from onnx_hw_link.link import TRAILER, Link
from onnx_hw_rtl.shells.wishbone_shell import BusRegister, Control, Status, WishboneShell
from support.shell_bench import drawn, small

NETWORK = small()
TURNS = ((0, 1), (1, 1), (0, 1), (1, 2)) * 6  # of each of six pixels, two beats of `a` and three of `b`
LINK = Link(bytes(range(16)), NETWORK.inputs, NETWORK.outputs, 10**6, input_turns=TURNS)


class Bus:
    """A processor: classic cycles, with pauses."""

    def __init__(self, context, shell: WishboneShell) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name
        self.context, self.shell, self.random = context, shell, random.Random(4)
        self.words = shell.window // 4

    async def __call__(self, address: int, data: int | None = None, lanes: int = 15) -> int:
        context, shell = self.context, self.shell
        for _ in range(self.random.choice((0, 0, 0, 1, 5))):
            await context.tick()
        for name, value in (("cyc", 1), ("stb", 1), ("we", data is not None), ("adr", address), ("sel", lanes)):
            context.set(getattr(shell, f"wb_{name}_i"), value)
        context.set(shell.wb_dat_i, data or 0)
        while not context.get(shell.wb_ack_o):
            await context.tick()
        read = context.get(shell.wb_dat_o)
        await context.tick()
        context.set(shell.wb_stb_i, 0)
        context.set(shell.wb_cyc_i, 0)
        return int(read)

    async def status(self, bit: Status) -> bool:
        return bool(await self(BusRegister.STATUS) >> bit & 1)

    async def control(self, bit: Control) -> None:
        await self(BusRegister.CONTROL, 1 << bit)

    async def write(self, frame: bytes) -> None:
        """Words in any order, and the last one's bytes by themselves."""
        for at in self.random.sample(range(0, len(frame), 4), -(-len(frame) // 4)):
            word = frame[at : at + 4]
            if at + 4 < len(frame):
                await self(self.words + at // 4, int.from_bytes(word, "little"))
                continue
            for k, byte in enumerate(word):
                await self(self.words + at // 4, byte << 8 * k, 1 << k)

    async def read(self) -> bytes:
        size = LINK.output_bytes + TRAILER
        words = [await self(2 * self.words + at) for at in range(-(-size // 4))]
        return b"".join(word.to_bytes(4, "little") for word in words)[:size]


def run(bench: Callable[[Bus], Awaitable[None]]) -> None:
    shell = WishboneShell(NETWORK.assembly(), LINK)
    simulator = Simulator(shell)
    simulator.add_clock(1e-6)

    async def testbench(context) -> None:  # type: ignore[no-untyped-def]
        for _ in range(12):
            await context.tick()
        await bench(Bus(context, shell))

    simulator.add_testbench(testbench)
    simulator.run()


FRAMES = drawn(7, 5)


def sent(k: int) -> bytes:
    """A frame, the beats of both inputs in turns."""
    beats = [
        from_transfers(port, b"".join(NETWORK.beats(name, FRAMES[name][k : k + 1])))
        for name, port in zip(("a", "b"), LINK.inputs, strict=True)
    ]
    return in_turns(LINK.inputs, TURNS, beats)


def sums_of(*results: bytes) -> np.ndarray:
    """(frames, *shape) integers of results with their times."""
    beats = (out_of_turns(LINK.outputs, LINK.output_turns, result[:-TRAILER])[0] for result in results)
    return NETWORK.sums_of(b"".join(to_transfers(LINK.outputs[0], of_frame) for of_frame in beats))


SENT = [sent(k) for k in range(7)]


def test_frames_are_goldens_in_order() -> None:
    """As many as there is room for are sent before the first is taken."""
    results: list[bytes] = []

    async def bench(bus: Bus) -> None:
        assert [await bus(BusRegister.INPUT_BYTES), await bus(BusRegister.OUTPUT_BYTES)] == [
            LINK.input_bytes,
            LINK.output_bytes,
        ]
        told = [await bus(BusRegister.DIGEST + k) for k in range(4)]
        assert b"".join(word.to_bytes(4, "little") for word in told) == LINK.digest
        waiting = list(SENT)
        for _ in range(3000):
            if waiting and await bus.status(Status.FREE):
                await bus.write(waiting.pop(0))
                await bus.control(Control.SEND)
            elif bus.context.get(bus.shell.irq):
                results.append(await bus.read())
                assert results[-1] == await bus.read()
                await bus.control(Control.TAKE)
            else:
                await bus.context.tick()
            if len(results) == len(SENT):
                break
        assert not await bus.status(Status.REFUSED) and not await bus.status(Status.READY)

    run(bench)
    assert np.array_equal(sums_of(*results), NETWORK.sums(FRAMES))
    ends = [int.from_bytes(r[-4:], "little") for r in results]
    assert sorted(ends) == ends and results[0][-TRAILER] == 1


def test_what_lies_where_is_what_is_documented() -> None:
    """Whoever writes a driver has docs/cores.md, not these names."""
    addresses = {name: 4 * word for name, word in BusRegister.__members__.items()}
    assert addresses == {"INPUT_BYTES": 0, "OUTPUT_BYTES": 4, "STATUS": 8, "CONTROL": 12, "DIGEST": 16}
    assert [Status.FREE, Status.READY, Status.REFUSED] == [0, 1, 2]
    assert [Control.SEND, Control.TAKE, Control.RESTART] == [0, 1, 2]


def test_what_is_asked_for_at_the_wrong_time_is_refused_and_a_restart_forgets_all() -> None:
    async def bench(bus: Bus) -> None:
        await bus.control(Control.TAKE)
        assert await bus.status(Status.REFUSED)
        await bus.control(Control.RESTART)
        assert not await bus.status(Status.REFUSED)
        count = 0
        for _ in range(200):  # nobody takes results: two wait there, two here
            if await bus.status(Status.FREE):
                await bus.write(SENT[count % 7])
                await bus.control(Control.SEND)
                count += 1
        assert count == 4
        await bus.control(Control.SEND)
        await bus.write(bytes(len(SENT[0])))
        assert await bus.status(Status.REFUSED)
        for k in range(2):
            assert (await bus.read())[:-TRAILER] == (await bus.read())[:-TRAILER]
            assert np.array_equal(
                sums_of(await bus.read()),
                NETWORK.sums({name: array[k : k + 1] for name, array in FRAMES.items()}),
            )
            await bus.control(Control.TAKE)
        await bus.control(Control.RESTART)
        await bus.write(SENT[3][:40])  # and no more: the next host does not know of it
        await bus.control(Control.RESTART)
        await bus.write(SENT[5])
        await bus.control(Control.SEND)
        while not await bus.status(Status.READY):
            pass
        wanted = NETWORK.sums({name: array[5:6] for name, array in FRAMES.items()})
        assert np.array_equal(sums_of(await bus.read()), wanted)

    run(bench)
