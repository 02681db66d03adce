"""A conversation of the driver's protocol with the circuit at the other end, over a wire that hits bytes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from amaranth.hdl import Module, ResetInserter, Signal, signed
from amaranth.lib.wiring import Component, In, Out
from amaranth.sim import Simulator

from onnx_hw_link.greeting import Greeting
from onnx_hw_link.link import FromChip, Link, LinkPort
from onnx_hw_link.session import FrameResult, Session, hello, packets_of
from onnx_hw_rtl.link.endpoint import LinkEnd


class Sums(Component):
    """A network: of each frame the sum of all integers, plus 0, 1, 2 ... in each beat of the output."""

    def __init__(self, link: Link) -> None:
        (self.a,), (self.b,) = link.inputs, link.outputs
        a, b = self.a, self.b
        super().__init__(
            {
                f"{a.name}_payload": In(a.width * a.bits),
                f"{b.name}_payload": Out(b.width * b.bits),
                f"{a.name}_valid": In(1),
                f"{a.name}_ready": Out(1),
                f"{b.name}_valid": Out(1),
                f"{b.name}_ready": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        payload, out = getattr(self, f"{self.a.name}_payload"), getattr(self, f"{self.b.name}_payload")
        total, come, gone = Signal(signed(40)), Signal(range(self.a.beats + 1)), Signal(range(self.b.beats))
        places = [payload.word_select(k, self.a.bits) for k in range(self.a.width)]
        taking = come != self.a.beats
        m.d.comb += [
            getattr(self, f"{self.a.name}_ready").eq(taking),
            getattr(self, f"{self.b.name}_valid").eq(~taking),
        ]
        for k in range(self.b.width):
            m.d.comb += out.word_select(k, self.b.bits).eq(total + gone)
        with m.If(taking & getattr(self, f"{self.a.name}_valid")):
            m.d.sync += [come.eq(come + 1), total.eq(total + sum(place.as_signed() for place in places))]
        with m.If(~taking & getattr(self, f"{self.b.name}_ready")):
            m.d.sync += gone.eq(gone + 1)
            with m.If(gone == self.b.beats - 1):
                m.d.sync += [gone.eq(0), come.eq(0), total.eq(0)]
        return m


def integers(port: LinkPort, frame: bytes) -> list[int]:
    """Of the beats of a frame, place by place."""
    bits, count = int.from_bytes(frame, "little"), port.beats * port.width
    return [bits >> k * port.bits & ((1 << port.bits) - 1) for k in range(count)]


def sums(link: Link, frame: bytes) -> bytes:
    """What ``Sums`` makes of a frame."""
    (a,), (b,) = link.inputs, link.outputs
    total = sum(wrapped(place, a.bits) for place in integers(a, frame))
    values = [wrapped(total + k, b.bits) for k in range(b.beats) for _ in range(b.width)]
    bits = sum((value & ((1 << b.bits) - 1)) << k * b.bits for k, value in enumerate(values))
    return bits.to_bytes(link.output_bytes, "little")


def wrapped(value: int, bits: int) -> int:
    """The lowest bits, in two's complement."""
    low = 1 << (bits - 1)
    return (value + low) % (2 * low) - low


@dataclass
class Wire:
    """Hits a share of the bytes: flips a bit, drops the byte, or doubles it."""

    share: float
    random: random.Random
    bytes_hit: int = 0

    def __call__(self, data: bytes) -> bytes:
        out = bytearray()
        for byte in data:
            if self.random.random() >= self.share:
                out.append(byte)
                continue
            self.bytes_hit += 1
            out += self.random.choice((bytes([byte ^ 1 << self.random.randrange(8)]), b"", bytes([byte, byte])))
        return bytes(out)


@dataclass
class Conversation:
    """A host that greets the circuit, sends frames, and waits for all results.

    Attributes:
        before: bytes that reach the chip first.
        greeted: bytes that reach it behind the first packets of data.
        results: of the frames.
        cycles: that it took; ``most`` of them are too many.
        hellos: that were sent until one was answered.
    """

    link: Link
    frames: list[bytes]
    wire: Wire
    before: bytes = b""
    greeted: bytes = b""
    retry: float = 3000
    most: int = 300_000
    results: list[FrameResult] = field(default_factory=list)
    session: Session | None = None
    cycles: int = 0
    hellos: int = 0

    def run(self, end: LinkEnd, simulator: Simulator) -> Conversation:
        async def bench(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
            await self._speak(context, end)

        simulator.add_clock(1e-6)
        simulator.add_testbench(bench)
        simulator.run()
        return self

    async def _speak(self, context, end: LinkEnd) -> None:  # type: ignore[no-untyped-def]
        to, came, greeted, offered = bytearray(self.before), bytearray(), -2000, 0
        while len(self.results) < len(self.frames):
            assert self.cycles < self.most, f"{len(self.results)} results of {len(self.frames)}; {self.session}"
            if self.session is None and not to and self.cycles - greeted >= 2000:
                to += self.wire(hello(77))
                greeted, self.hellos = self.cycles, self.hellos + 1
            phase = self.cycles % 2
            context.set(end.strobe, bool(to) and phase == 0)
            if to and phase == 0:
                context.set(end.byte, to.pop(0))
            context.set(end.o.ready, phase == 1)
            if phase == 1 and context.get(end.o.valid):
                came.append(context.get(end.o.payload))
                if came[-1] == 0:
                    self._hear(bytes(came))
                    came.clear()
            await context.tick()
            self.cycles += 1
            if self.session is not None and phase == 0:
                while offered < len(self.frames) and self.session.unsent < 2:
                    self.session.offer(self.frames[offered])
                    offered += 1
                if not to:
                    to += self.wire(self.session.transmit(self.cycles)) + self.greeted
                    self.greeted = b""
                self.results += self.session.results
                self.session.results.clear()

    def _hear(self, packet: bytes) -> None:
        packet = self.wire(packet)
        if self.session is not None:
            self.session.receive(packet)
            return
        for found in packets_of(bytearray(packet)):
            if found and found[0] == FromChip.HELLO and found[2] == 77:
                self.session = Session(Greeting.from_bytes(found[4:]), 77, self.retry)


def converse(
    link: Link,
    frames: list[bytes],
    share: float = 0.0,
    seed: int = 0,
    before: bytes = b"",
    greeted: bytes = b"",
    host: type[Conversation] = Conversation,
) -> Conversation:
    """``Sums`` behind a ``LinkEnd``, in Amaranth's simulator."""
    m = Module()
    m.submodules.end = end = LinkEnd(link)
    network = Sums(link)
    m.submodules.network = ResetInserter(end.restart)(network)
    for port, here, there in ((link.inputs[0], end, network), (link.outputs[0], network, end)):
        for part in ("payload", "valid"):
            m.d.comb += getattr(there, f"{port.name}_{part}").eq(getattr(here, f"{port.name}_{part}"))
        m.d.comb += getattr(here, f"{port.name}_ready").eq(getattr(there, f"{port.name}_ready"))
    conversation = host(link, frames, Wire(share, random.Random(seed)), before, greeted)
    return conversation.run(end, Simulator(m))
