# amaranth: UnusedElaboratable=no
"""The chip's results are kept until the host has said that they have come."""

from __future__ import annotations

from typing import Any

from amaranth.sim import Simulator

from onnx_hw_link.greeting import ChipStatus, Greeting
from onnx_hw_link.link import FromChip, Link, LinkPort
from onnx_hw_link.packets import without_crc
from onnx_hw_rtl.link.sender import LinkSender

LINK = Link(bytes(16), (LinkPort("a", 5, 2, 8),), (LinkPort("b", 1, 1, 8),), 10**6, 128, 128)


def packets_of(sender: LinkSender, *, results: bytes = b"", pulsed: str = "", cycles: int = 200) -> list[bytes | None]:
    """What is sent in some cycles after the power came, by a frame of results or a strobe; no host has greeted."""
    found, rest = [bytearray()], list(results)

    async def bench(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        context.set(sender.o.ready, 1)
        for cycle in range(cycles):
            if pulsed:
                context.set(getattr(sender, pulsed), cycle == 3)
            context.set(sender.i.valid, bool(rest))
            context.set(sender.i.payload, rest[0] if rest else 0)
            context.set(sender.last, len(rest) == 1)
            if rest and context.get(sender.i.ready):
                del rest[0]
            if context.get(sender.o.valid):
                found[-1].append(context.get(sender.o.payload))
                if context.get(sender.o_last):
                    found.append(bytearray())
            await context.tick()

    simulator = Simulator(sender)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert found.pop() == b"" and rest == []
    return [without_crc(bytes(packet)) for packet in found]


def test_the_first_result_is_whole_also_before_any_greeting() -> None:
    """The buffer begins as a greeting leaves it."""
    results = bytes(range(1, LINK.result_bytes + 1))
    assert packets_of(LinkSender(LINK), results=results) == [bytes([FromChip.RESULT, 0, 0, 0]) + results]


def test_what_is_missing_is_told_at_once_and_once() -> None:
    """A host that hears of it need not wait until its own time is over."""
    assert packets_of(LinkSender(LINK), pulsed="missed") == [bytes([FromChip.MISSING, 0, 0, 0])]


def test_a_place_is_given_back_by_an_acknowledgement_alone() -> None:
    """``acked`` is what the wire last held there: it says nothing before the packet around it is known to be right."""
    sender, taken, counts = LinkSender(LINK), list[Any](), list[Any]()

    async def fill(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        before = len(taken)
        for _ in range(2 * LINK.slots * LINK.result_bytes):
            context.set(sender.last, len(taken) % LINK.result_bytes == LINK.result_bytes - 1)
            if context.get(sender.i.ready):
                taken.append(None)
            await context.tick()
        counts.append(len(taken) - before)

    async def bench(context) -> None:  # type: ignore[no-untyped-def]
        context.set(sender.i.valid, 1)
        await fill(context)
        context.set(sender.acked, 1)
        await fill(context)
        context.set(sender.ack, 1)
        await context.tick()
        context.set(sender.ack, 0)
        context.set(sender.acked, 2)
        await fill(context)

    simulator = Simulator(sender)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert counts == [LINK.slots * LINK.result_bytes, 0, LINK.result_bytes]


def test_nothing_is_said_unasked_but_that_half_of_the_credit_came_or_went() -> None:
    """One packet each time; a host that is silent hears nothing else."""
    sender, packets = LinkSender(LINK), []

    async def listen(context) -> None:  # type: ignore[no-untyped-def]
        packets.append(0)
        for _ in range(300):
            packets[-1] += context.get(sender.o.valid & sender.o_last)
            await context.tick()

    async def bench(context) -> None:  # type: ignore[no-untyped-def]
        context.set(sender.o.ready, 1)
        context.set(sender.hello, 1)
        await context.tick()
        context.set(sender.hello, 0)
        for credit in (0, 16, 31, 32, 48, 63, 15, 0):
            context.set(sender.credit, credit)
            await listen(context)

    simulator = Simulator(sender)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert packets == [1, 0, 0, 1, 0, 0, 1, 0]


def greetings_of(hello: int, damage: int) -> list[int]:
    """Return the statuses of the greetings that are sent, where a host comes and weights are damaged in some cycles."""
    sender, found = LinkSender(LINK, checked=True), [bytearray()]

    async def bench(context) -> None:  # type: ignore[no-untyped-def]
        context.set(sender.o.ready, 1)
        for cycle in range(1200):
            context.set(sender.hello, cycle == hello)
            context.set(sender.damaged, cycle >= damage)
            if context.get(sender.o.valid):
                found[-1].append(context.get(sender.o.payload))
                if context.get(sender.o_last):
                    found.append(bytearray())
            await context.tick()

    simulator = Simulator(sender)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    packets = [without_crc(bytes(packet)) or b"" for packet in found[:-1]]
    assert all(packet[0] == FromChip.HELLO for packet in packets)
    return [Greeting.from_bytes(packet[4:]).status for packet in packets]


def test_damaged_weights_are_said_in_every_greeting_and_once_unasked() -> None:
    ready, damaged = ChipStatus.READY, ChipStatus.WEIGHTS_DAMAGED
    assert greetings_of(hello=3, damage=5000) == [ready]
    assert greetings_of(hello=3, damage=600) == [ready, damaged]
    assert set(greetings_of(hello=100, damage=3)) == {damaged}
    assert greetings_of(hello=5000, damage=3) == [], "nothing before a host has come"
