"""The host's side of the protocol by itself: what is sent again, what is asked, what is acknowledged."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from onnx_hw_link.greeting import ChipStatus, Greeting
from onnx_hw_link.link import TRAILER, FromChip, FromHost
from onnx_hw_link.packets import mirrored_cobs, uncobs, with_crc, without_crc
from onnx_hw_link.session import Session

FRAME, RESULT = 60, 3
GREETING = Greeting(bytes(16), FRAME, RESULT, 10**6, 512, RESULT + TRAILER)


class Host:
    """A session, whose packets to the chip are read, and whose packets of the chip are made here."""

    def __init__(self, frames: int) -> None:
        self.session, self.freed = Session(GREETING, 0), 0
        for number in range(frames):
            self.session.offer(bytes([number]) * FRAME)

    def sends(self) -> list[tuple[FromHost, int]]:
        """(kind, number) of each packet."""
        wire = self.session.transmit(0.0)
        packets = [without_crc(uncobs(packet) or b"") or b"" for packet in wire.split(b"\0") if packet]
        return [(FromHost(packet[0]), packet[1]) for packet in packets]

    def hears(self, kind: FromChip, expected: int, number: int = 0) -> None:
        payload = bytes(RESULT + TRAILER) if kind is FromChip.RESULT else b""
        packet = bytes((kind, number, expected, self.freed)) + payload
        self.session.receive(mirrored_cobs(with_crc(packet)) + b"\0")


def data(*numbers: int) -> list[tuple[FromHost, int]]:
    return [(FromHost.DATA, number) for number in numbers]


def test_what_the_chip_misses_is_sent_again_once() -> None:
    """A broken line is two broken packets, and what is behind a missed packet may be broken, too: that says nothing of
    the packets that are on their way for the second time."""
    host = Host(8)
    assert host.sends() == data(*range(8))
    host.hears(FromChip.MISSING, 2)
    again = host.sends()
    assert again == data(*range(2, 2 + len(again))) and 2 <= len(again) <= 4
    host.hears(FromChip.MISSING, 2)
    assert host.sends() == [(FromHost.POLL, 0)]
    assert host.session.faults.missed == 1
    host.hears(FromChip.ANSWER, 2)  # they have not come either
    assert host.sends() == data(2, 3)
    host.hears(FromChip.STATUS, 3)
    host.hears(FromChip.MISSING, 3)  # this is news
    assert host.sends() == data(3, 4)


def test_an_answer_that_expects_what_was_sent_since_the_question_is_no_reason_to_send_it_again() -> None:
    host = Host(8)
    host.sends()
    host.session.receive(b"\1\2\3\0")
    assert host.sends() == [(FromHost.POLL, 0)]
    host.hears(FromChip.MISSING, 5)
    assert data(5, 6) == [packet for packet in host.sends() if packet[0] is FromHost.DATA][:2]
    host.hears(FromChip.ANSWER, 5)
    assert not any(kind is FromHost.DATA for kind, _ in host.sends())


@pytest.mark.parametrize("count", [6, 7])
def test_packets_on_a_bad_wire_are_few_and_become_more(count: int) -> None:
    host, sent = Host(40), []
    host.sends()
    for number in range(count):
        host.freed = 15 * number  # in units of 4 bytes
        host.hears(FromChip.MISSING, number)
        sent.append(len(host.sends()))
    assert sent[-1] == 2 and all(after <= before for before, after in pairwise(sent))
    for number in range(count, count + 20):
        host.freed = 15 * number % 256
        host.hears(FromChip.STATUS, number)
        host.sends()
    assert host.session._window > 3


def test_data_carries_what_has_come() -> None:
    """Of its own an acknowledgement is sent where nothing else is on its way, or two results wait for it."""
    host = Host(10)
    assert len(host.sends()) == 8  # what the chip's buffer holds
    host.hears(FromChip.RESULT, 4, 0)
    assert host.sends() == []
    host.hears(FromChip.RESULT, 4, 1)
    assert host.sends() == [(FromHost.ACK, 0)]
    host.freed = 15
    host.hears(FromChip.RESULT, 5, 2)
    assert host.sends() == data(8)
    host.freed = 30
    host.hears(FromChip.STATUS, 9)
    assert host.sends() == data(9)
    host.hears(FromChip.STATUS, 10)
    host.hears(FromChip.RESULT, 10, 3)
    assert host.sends() == [(FromHost.ACK, 0)]


def test_damaged_weights_are_heard_of_in_the_middle_of_a_session() -> None:
    """The greeting comes again, unasked; one that says nothing new changes nothing."""
    session = Session(GREETING, 0)
    session.offer(bytes(FRAME))
    for status, damaged in ((ChipStatus.READY, False), (ChipStatus.WEIGHTS_DAMAGED, True)):
        packet = bytes((FromChip.HELLO, 0, 0, 0)) + replace(GREETING, status=status).to_bytes()
        session.receive(mirrored_cobs(with_crc(packet)) + b"\0")
        assert session.damaged is damaged
    assert session.unanswered == 1 and not session.results
