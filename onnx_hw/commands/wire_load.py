"""Bytes that a frame takes on a link, counted in a conversation of the driver with a chip that is always ready."""

from __future__ import annotations

import random
from dataclasses import dataclass

from onnx_hw_link.greeting import Greeting
from onnx_hw_link.link import TRAILER, FromChip, FromHost
from onnx_hw_link.packets import mirrored_cobs, uncobs, with_crc, without_crc
from onnx_hw_link.session import Session

FRAMES, BYTES = (3, 24), 400_000
"""Least and most frames of the conversation, and bytes of frames in it at most, where more than the least fit."""


@dataclass
class _ReadyChip:
    """A chip that takes every packet, and sends the results of a frame as soon as its last byte has come."""

    greeting: Greeting
    generator: random.Random
    packets: int = 0  # of data that have come
    bytes_taken: int = 0
    results: int = 0  # packets of results that were sent
    frames: int = 0

    def answer(self, wire: bytes) -> bytes:
        """Return the bytes with which the chip answers those of the host."""
        out = bytearray()
        for coded in filter(None, wire.split(b"\0")):
            plain = uncobs(coded)
            packet = None if plain is None else without_crc(plain)
            if packet is None or packet[0] != FromHost.DATA:
                continue
            self.packets += 1
            self.bytes_taken += len(packet) - 3
            while self.bytes_taken >= (self.frames + 1) * self.greeting.input_bytes:
                self.frames += 1
                for _ in range(-(-(self.greeting.output_bytes + TRAILER) // self.greeting.result_bytes)):
                    payload = self.generator.randbytes(self.greeting.result_bytes)
                    out += self._packet(FromChip.RESULT, self.results, payload)
                    self.results += 1
        return bytes(out) or self._packet(FromChip.STATUS, 0, b"")

    def _packet(self, kind: FromChip, number: int, payload: bytes) -> bytes:
        credit = self.bytes_taken // (self.greeting.input_buffer // 128)
        return mirrored_cobs(with_crc(bytes((kind, number % 256, self.packets % 256, credit % 256)) + payload)) + b"\0"


def bytes_of_a_frame(greeting: Greeting) -> tuple[float, float]:
    """Return the bytes that a frame takes on the wire to the chip, and from it, on average; frames are drawn."""
    generator = random.Random(1)
    session, chip = Session(greeting, 0), _ReadyChip(greeting, generator)
    least, most = FRAMES
    frames = max(least, min(most, BYTES // (greeting.input_bytes + greeting.output_bytes)))
    for _ in range(frames):
        session.offer(generator.randbytes(greeting.input_bytes))
    into = out = turns = 0
    while session.unanswered:
        sent = session.transmit(turns * 1e-6)
        answered = chip.answer(sent)
        session.receive(answered)
        into, out, turns = into + len(sent), out + len(answered), turns + 1
    return into / frames, out / frames
