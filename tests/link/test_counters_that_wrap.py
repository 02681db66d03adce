# amaranth: UnusedElaboratable=no
"""Every number of the protocol passes its 256 values twice; and the bytes of a greeting, as docs/link.md has them."""

from __future__ import annotations

import random

import pytest

from onnx_hw_link.link import Link, LinkPort
from onnx_hw_link.packets import to_wire
from onnx_hw_link.session import hello
from support.link_bench import converse, sums

TINY = Link(bytes(range(16)), (LinkPort("a", 3, 1, 8),), (LinkPort("b", 1, 1, 8),), 12_000_000, 128, 128)
FRAMES = 530
"""More than two turns of 256."""


@pytest.mark.parametrize("share", [0.0, 0.003])
def test_all_numbers_pass_their_wrap_twice(share: float) -> None:
    """Of packets of data, of results, and of the bytes that left the buffer."""
    frames = [random.Random(f"wrap {k}").randbytes(TINY.input_bytes) for k in range(FRAMES)]
    made = converse(TINY, frames, share, seed=9)
    assert [result.beats for result in made.results] == [sums(TINY, frame) for frame in frames]
    session = made.session
    assert session is not None and session._packets == 1  # each frame has one packet of results, hence a number
    assert session._gone > 512 and session.acknowledged_bytes > 2 * 256 * TINY.credit_unit
    faults = session.faults
    if share:
        assert faults.broken and faults.missed
    else:
        assert (faults.broken, faults.missed, faults.silent, faults.resent) == (0, 0, 0, 0)


def test_the_bytes_of_a_hello() -> None:
    """Type 01, the number, version 2, and the CRC-16 of these three, behind a zero; no byte between is a zero."""
    assert crc16(b"123456789") == 0x29B1  # CRC-16/IBM-3740, by its check value
    for number in (0, 1, 77, 255):
        packet = bytes((0x01, number, 0x02))
        packet += crc16(packet).to_bytes(2, "big")
        assert hello(number) == b"\0" + stuffed(packet)


def test_the_bytes_of_a_greeting() -> None:
    expected = bytes.fromhex("02 01 00")  # version, status
    expected += bytes.fromhex("01 10") + bytes(range(16))  # digest
    # bytes in and out, clock, buffer, payload of a result: the one byte of outputs and nine of times
    expected += bytes.fromhex("02 10  03 00 00 00  01 00 00 00  00 1b b7 00  80 00  0a 00")
    assert TINY.greeting.to_bytes() == expected


def test_a_packet_of_the_host_is_stuffed_by_the_rule() -> None:
    payload = bytes((2, 7, 0, *range(250), *[0] * 3))
    assert to_wire(payload) == stuffed(payload + crc16(payload).to_bytes(2, "big"))


def crc16(data: bytes) -> int:
    """Return the remainder bit by bit: polynomial 0x1021, from 0xFFFF."""
    crc = 0xFFFF
    for byte in data:
        for k in reversed(range(8)):
            carry = (crc >> 15 ^ byte >> k) & 1
            crc = (crc << 1 & 0xFFFF) ^ (0x1021 if carry else 0)
    return crc


def stuffed(packet: bytes) -> bytes:
    """Return the bytes on the wire: before each run without zeros its length + 1; at most 254 bytes a run."""
    out = b""
    runs = packet.split(b"\0")
    for number, run in enumerate(runs):
        while len(run) >= 254 and not (len(run) == 254 and number == len(runs) - 1):
            out, run = out + b"\xff" + run[:254], run[254:]
        out += bytes((len(run) + 1,)) + run
    return out + b"\0"
