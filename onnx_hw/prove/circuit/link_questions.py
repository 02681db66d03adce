"""Questions that a host asks a chip about the protocol itself, before its session, and the answers that are due.

A session repairs whatever its wire does, so it hides a chip that is silent where it must speak: the host asks again
after a while. These packets are answered one by one (docs/link.md, Packets).
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx_hw_link.link import FromChip, FromHost
from onnx_hw_link.packets import from_wire, to_wire

_NO_TYPE = 0x7F


@dataclass(frozen=True)
class Question:
    """Packets of a host that are sent together, and all answers to them.

    Attributes:
        what: what is sent, for sentences.
        wire: bytes on the wire.
        answers: kind and number of each answer.
    """

    what: str
    wire: bytes
    answers: tuple[tuple[FromChip, int], ...]


def questions(number: int) -> list[Question]:
    """Return the questions of a host whose first packet of data will have a number; none of them sends data."""
    ahead = _packet(FromHost.DATA, number + 1, b"ahead")
    damaged = _damaged(_packet(FromHost.DATA, number, b"damaged"))
    asked = _packet(FromHost.POLL)
    missing, answer = (FromChip.MISSING, 0), (FromChip.ANSWER, 0)
    return [
        Question("a packet that is out of order", ahead, (missing,)),
        Question("a second packet that is out of order, and a POLL", ahead + asked, (answer,)),
        Question("a damaged packet", damaged, (missing,)),
        Question("a second damaged packet", damaged, (missing,)),
        Question("a packet of an unknown type", _packet(_NO_TYPE), ((FromChip.UNKNOWN, _NO_TYPE),)),
        Question("a POLL", asked, (answer,)),
    ]


def _packet(kind: int, number: int = 0, payload: bytes = b"") -> bytes:
    return to_wire(bytes((kind, number % 256, 0)) + payload)


def _damaged(wire: bytes) -> bytes:
    """Return the bytes of a packet with another character in its payload, so that its CRC is wrong."""
    wrong = wire.replace(b"damaged", b"damageD")
    assert from_wire(wrong.rstrip(b"\0")) is None
    return wrong
