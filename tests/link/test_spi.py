# amaranth: UnusedElaboratable=no
"""A controller of a serial peripheral interface, with the driver's protocol, at a network: every frame comes back."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from amaranth.sim import Simulator

from onnx_hw_link.greeting import Greeting
from onnx_hw_link.link import FromChip, Link, LinkPort
from onnx_hw_link.session import FrameResult, Session, hello, packets_of
from onnx_hw_rtl.link.spi import MIN_CLOCK_RATIO, SpiTarget
from onnx_hw_rtl.shells.spi_shell import SpiShell
from support.link_bench import Sums, sums

SMALL = Link(bytes(range(16)), (LinkPort("a", 16, 2, 8),), (LinkPort("b", 5, 1, 12),), 10**6, 128, 128)
LONG = Link(bytes(16), (LinkPort("a", 512, 1, 8),), (LinkPort("b", 1, 1, 8),), 10**6)


@dataclass
class Controller:
    """Bytes both ways, by a clock of its own.

    Args:
        share: of the bytes that are hit on the wire.
        pause: share of the bytes after which the clock rests, and chooses the chip anew; now and then within a byte.
    """

    pins: SpiShell | SpiTarget
    period: float
    share: float = 0.0
    pause: float = 0.0
    random: random.Random = field(default_factory=lambda: random.Random(3))
    bytes_moved: int = 0
    cut: int = 0

    async def move(self, context, byte: int) -> int:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        """One byte there, one back: put at the falling edge, taken at the rising one."""
        pins, half, back = self.pins, self.period / 2, 0
        context.set(pins.cs_n, 0)
        self.bytes_moved += 1
        if self.random.random() < self.share:
            byte ^= 1 << self.random.randrange(8)
        bits = range(7, -1, -1)
        if self.random.random() < self.share:
            bits, self.cut = range(7, self.random.randrange(7), -1), self.cut + 1
        for bit in bits:
            context.set(pins.copi, byte >> bit & 1)
            await context.delay(half)
            back = back << 1 | context.get(pins.cipo)
            context.set(pins.sck, 1)
            await context.delay(half)
            context.set(pins.sck, 0)
        if len(bits) < 8 or self.random.random() < self.pause:
            await context.delay(half)
            context.set(pins.cs_n, 1)
            for _ in range(self.random.randrange(12)):  # it speaks to another chip on the same wires
                context.set(pins.copi, self.random.randrange(2))
                for level in (1, 0):
                    await context.delay(half)
                    context.set(pins.sck, level)
            await context.delay(self.random.choice((half, 9 * self.period, 40 * self.period)))
        return back


@dataclass
class Conversation:
    """A host that greets a chip, sends frames, and waits for all results; it clocks where there is something to do."""

    link: Link
    controller: Controller
    frames: list[bytes]
    results: list[FrameResult] = field(default_factory=list)
    session: Session | None = None
    began: float = 0.0
    seconds: float = 0.0
    idle: int = 0

    async def run(self, context) -> None:  # type: ignore[no-untyped-def]
        to, came, offered, greeted = bytearray(), bytearray(), 0, -2000
        pins, controller = self.controller.pins, self.controller
        await context.delay(1e-6)
        while len(self.results) < len(self.frames):
            assert controller.bytes_moved + self.idle < 20_000, self.session
            now = controller.bytes_moved + self.idle
            if self.session is None and now - greeted > 500:
                to, greeted = bytearray(hello(77)), now
            if not to and not context.get(pins.irq):
                self.idle += 1
                await context.delay(8 * controller.period)
            else:
                came.append(await controller.move(context, to.pop(0) if to else 0))
            for packet in packets_of(came) if came[-1:] == b"\0" and self.session is None else ():
                if packet and packet[0] == FromChip.HELLO and packet[2] == 77:
                    self.session = Session(Greeting.from_bytes(packet[4:]), 77, 600)
                    self.bytes_before, controller.bytes_moved, self.idle = now, 0, 0
            if self.session is not None and came[-1:] == b"\0":
                self.session.receive(bytes(came))
                came.clear()
            if self.session is not None and not to:
                while offered < len(self.frames) and self.session.unsent < 2:
                    self.session.offer(self.frames[offered])
                    offered += 1
                to += self.session.transmit(controller.bytes_moved + self.idle)
                self.results += self.session.results
                self.session.results.clear()


def conversed(link: Link, count: int, clock: float, share: float = 0.0, pause: float = 0.0) -> Conversation:
    """``count`` frames at 50 MHz, the network's clock being so many times as fast."""
    shell = SpiShell(Sums(link), link)
    frames = [random.Random(k).randbytes(link.input_bytes) for k in range(count)]
    conversation = Conversation(link, Controller(shell, 20e-9, share, pause), frames)
    simulator = Simulator(shell)
    simulator.add_clock(20e-9 / clock)
    simulator.add_testbench(conversation.run)
    simulator.run()
    assert [result.beats for result in conversation.results] == [sums(link, frame) for frame in frames]
    return conversation


@pytest.mark.parametrize(("count", "clock", "share", "pause"), [(4, MIN_CLOCK_RATIO, 0.0, 0.6), (6, 1.01, 0.01, 0.05)])
def test_every_frame_comes_back(count: int, clock: float, share: float, pause: float) -> None:
    made = conversed(SMALL, count, clock, share, pause)
    assert made.session is not None
    faults = made.session.faults
    if share:
        assert made.controller.cut and faults.broken + faults.missed
    else:
        assert (faults.broken, faults.missed, faults.silent, faults.resent) == (0, 0, 0, 0)


def test_nine_tenths_of_the_wire_are_frames() -> None:
    """50 MHz on the wire and 80 MHz in the chip: bytes of frames among all the time that passes."""
    made = conversed(LONG, 2, 1.6)
    moved = made.controller.bytes_moved + made.idle
    assert 2 * LONG.input_bytes / moved > 0.9, moved


def test_the_controller_is_told_how_long_there_is_something_for_it() -> None:
    """Clocked only as long as it is, with time to see, it has the packets with their zeros, and nothing more."""
    target, packets, came = SpiTarget(), b"\x03\xa5\0\x55\xff\0", bytearray()
    controller = Controller(target, 20e-9)

    async def feed(context) -> None:  # type: ignore[no-untyped-def]
        for byte in packets:
            context.set(target.i.payload, byte)
            context.set(target.i.valid, 1)
            await context.tick().until(target.i.ready)
        context.set(target.i.valid, 0)

    async def listen(context) -> None:  # type: ignore[no-untyped-def]
        await context.delay(1e-6)
        while context.get(target.waiting) and len(came) < 20:
            came.append(await controller.move(context, 0))
            await context.delay(1e-6)

    simulator = Simulator(target)
    simulator.add_clock(12.5e-9)
    simulator.add_testbench(feed)
    simulator.add_testbench(listen)
    simulator.run()
    assert bytes(came).lstrip(b"\0") == packets
