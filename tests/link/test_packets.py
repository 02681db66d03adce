"""Packets on the wire: there and back, and never a wrong one out of a broken one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw_link.frames import in_turns
from onnx_hw_link.greeting import Greeting, OtherProtocol
from onnx_hw_link.link import Link, LinkPort, chunk_bits, frame_bytes
from onnx_hw_link.packets import cobs, from_wire, mirrored_cobs, to_wire, uncobs, uncobs_mirrored, with_crc, without_crc

RUNS = st.lists(st.one_of(st.integers(0, 3), st.sampled_from([253, 254, 255, 508])), max_size=4)
PACKETS = st.one_of(st.binary(max_size=20), RUNS.map(lambda runs: b"\0".join(b"\x07" * run for run in runs)))


@given(PACKETS)
def test_there_and_back_without_a_zero(packet: bytes) -> None:
    for there, back in ((cobs, uncobs), (mirrored_cobs, uncobs_mirrored)):
        wire = there(packet)
        assert 0 not in wire
        assert len(wire) <= len(packet) + 1 + len(packet) // 254
        assert back(wire) == packet


@given(PACKETS.filter(len))
def test_one_is_the_mirror_image_of_the_other(packet: bytes) -> None:
    """Where no run is longer than a code can say: such a run is cut from its beginning in either."""
    if all(len(run) < 254 for run in packet.split(b"\0")):
        assert mirrored_cobs(packet) == cobs(packet[::-1])[::-1]


@settings(derandomize=True)  # of the bytes of the wire, one in 65,536 is hit unseen
@given(st.binary(min_size=1, max_size=40), st.integers(0, 10**6), st.integers(1, 255))
def test_a_byte_that_is_hit_is_seen(packet: bytes, at: int, flips: int) -> None:
    whole = bytearray(with_crc(packet))
    whole[at % len(whole)] ^= flips
    assert without_crc(bytes(whole)) is None
    wire = bytearray(mirrored_cobs(with_crc(packet)))
    wire[at % len(wire)] ^= flips
    assert 0 in wire or from_wire(bytes(wire)) is None


@given(st.binary(max_size=40))
def test_garbage_is_no_packet(garbage: bytes) -> None:
    for back, there in ((uncobs, cobs), (uncobs_mirrored, mirrored_cobs)):
        found = back(garbage)
        assert found is None or there(found) == garbage or 254 in map(len, found.split(b"\0"))


def test_the_crc_is_the_one_in_the_catalogue() -> None:
    assert with_crc(b"123456789")[-2:].hex() == "29b1"
    assert to_wire(b"\1\2\0") == bytes([3, 1, 2, 3]) + with_crc(b"\1\2\0")[-2:] + b"\0"


def link(beats: int, width: int, bits: int, **choices: int) -> Link:
    return Link(bytes(16), (LinkPort("a", 1, 1, 8),), (LinkPort("b", beats, width, bits),), 10**6, **choices)


def test_integers_take_the_fewest_bytes_of_a_transfer_and_their_own_bits_of_a_frame() -> None:
    ports = {bits: LinkPort("p", 3, 1, bits) for bits in (1, 2, 4, 8, 9, 16, 17, 24, 25)}
    assert [port.transfer_bytes for port in ports.values()] == [1, 1, 1, 1, 2, 2, 3, 3, 4]
    assert [LinkPort("p", 1, width, 1).transfer_bytes for width in (7, 8, 9)] == [1, 1, 2]
    assert [frame_bytes((port,)) for port in ports.values()] == [1, 1, 2, 3, 4, 6, 7, 9, 10]
    assert [chunk_bits((port,)) for port in ports.values()] == [1, 2, 4, 8, 1, 8, 1, 8, 1]
    assert in_turns((ports[4],), ((0, 3),), [np.array([[1], [-2], [3]])]).hex(" ") == "e1 03"


@given(st.integers(1, 2000), st.integers(1, 3), st.sampled_from([1, 8, 12, 24]), st.sampled_from([128, 512, 2048]))
def test_results_fit_into_slots(beats: int, width: int, bits: int, size: int) -> None:
    made = link(beats, width, bits, output_buffer=size)
    assert made.result_bytes <= made.slot_bytes <= size // 2
    assert made.result_bytes <= 256
    assert 0 <= made.results * made.result_bytes - (made.output_bytes + 9) < made.results
    assert made.slots * made.slot_bytes <= size
    assert made.slots & (made.slots - 1) == 0 < made.slots - 1


def test_what_cannot_be_is_refused() -> None:
    for change in ({"input_buffer": 500}, {"output_buffer": 64}):
        with pytest.raises(ValueError, match="must be a power of two"):
            link(1, 1, 8, **change)
    with pytest.raises(ValueError, match="16 bytes, not 3"):
        Link(b"abc", (LinkPort("a", 1, 1, 8),), (LinkPort("b", 1, 1, 8),), 1)
    with pytest.raises(ValueError, match="turns must be those of"):
        Link(bytes(16), (LinkPort("a", 2, 1, 8),), (LinkPort("b", 1, 1, 8),), 1, input_turns=((0, 1),))


def test_a_greeting_there_and_back() -> None:
    told = link(10, 1, 8).greeting
    assert Greeting.from_bytes(told.to_bytes()) == told
    longer = told.to_bytes()[:21] + bytes((2, 17)) + told.to_bytes()[23:] + b"!" + b"\x63\x02ab"
    assert Greeting.from_bytes(longer) == told
    with pytest.raises(OtherProtocol, match="version 1 of the protocol") as other:
        Greeting.from_bytes(b"\1" + bytes(32))
    assert other.value.version == 1
    for broken, what in ((told.to_bytes()[:5], "cut short"), (told.to_bytes()[:21], "without"), (b"\2", "of 1 bytes")):
        with pytest.raises(ValueError, match=what):
            Greeting.from_bytes(broken)
