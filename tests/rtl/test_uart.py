# amaranth: UnusedElaboratable=no
"""Serial line: sent bytes are received, even with a clock that is slightly off; a broken line is received as zeros."""

from __future__ import annotations

import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

from onnx_hw_rtl.link.uart import UartReceiver, UartTransmitter


def bits_of(data: bytes) -> list[int]:
    """Return the levels on the line, bit by bit, with one bit of rest between bytes."""
    return [bit for byte in data for bit in (0, *(byte >> k & 1 for k in range(8)), 1, 1)]


def received(levels: list[int], divisor: int) -> bytes:
    """Return the bytes that a receiver gets from the level in every cycle."""
    receiver, arrived = UartReceiver(divisor), bytearray()

    async def bench(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        for level in levels:
            context.set(receiver.rx, level)
            if context.get(receiver.strobe):
                arrived.append(context.get(receiver.byte))
            await context.tick()

    simulator = Simulator(receiver)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return bytes(arrived)


@pytest.mark.parametrize(("divisor", "period"), [(4, 4.0), (4, 4.1), (5, 5.0), (12, 12.4), (12, 11.6), (25, 25.9)])
def test_bytes_of_a_clock_that_is_a_little_off(divisor: int, period: float) -> None:
    data = bytes((0x00, 0xFF, 0x55, 0xAA, 0x01, 0x80, 0x7F))
    bits = [1, 1, *bits_of(data), 1, 1]
    levels = [bits[int(cycle / period)] for cycle in range(int(len(bits) * period))]
    assert received(levels, divisor) == data


def test_a_broken_line_is_a_zero() -> None:
    """Receive a break as a zero. A glitch shorter than half a bit is not a break."""
    broken = (
        [1] * 8 + [0] * (8 * 10) + [1] * 16 + [0, 0] + [1] * 16 + [bit for bit in bits_of(b"\x42") for _ in range(8)]
    )
    assert received([*broken, *[1] * 16], 8) == b"\0\x42"


@pytest.mark.parametrize("divisor", [4, 7])
def test_what_is_sent_is_received_without_a_pause(divisor: int) -> None:
    m = Module()
    m.submodules.receiver, m.submodules.transmitter = receiver, transmitter = (
        UartReceiver(divisor),
        UartTransmitter(divisor),
    )
    m.d.comb += receiver.rx.eq(transmitter.tx)
    data, arrived, at = bytes(range(0, 256, 5)), bytearray(), []

    async def bench(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        sent = cycle = 0
        while len(arrived) < len(data):
            context.set(transmitter.i.valid, sent < len(data))
            context.set(transmitter.i.payload, data[sent] if sent < len(data) else 0)
            sent += sent < len(data) and context.get(transmitter.i.ready)
            if context.get(receiver.strobe):
                arrived.append(context.get(receiver.byte))
                at.append(cycle)
            await context.tick()
            cycle += 1

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert bytes(arrived) == data
    assert at[-1] - at[0] <= (10 * divisor + 1) * (len(data) - 1)


def test_a_bit_of_too_few_cycles_is_refused() -> None:
    with pytest.raises(ValueError, match="4 clock cycles or more, not 3"):
        UartReceiver(3)
