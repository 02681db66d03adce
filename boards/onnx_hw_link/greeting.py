"""Description that a chip gives of itself: the payload of its HELLO.

The version comes first in every version of the protocol, so that each side can tell the other's. Fields have a length
each: a host takes those that it knows, and as much of each as it knows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, IntFlag

__all__ = ["PROTOCOL", "ChipStatus", "Greeting", "GreetingField", "OtherProtocol"]

PROTOCOL = 2
"""Version of the protocol; both ends must have the same."""

_HEAD = struct.Struct("<BH")
_SIZES = struct.Struct("<IIIHH")
_LOAD = struct.Struct("<I")


class ChipStatus(IntFlag):
    """Bits of the status word."""

    READY = 1  # the chip takes frames
    WEIGHTS_MISSING = 2  # its weights are to be loaded first
    WEIGHTS_DAMAGED = 4  # its weights are not those of its design


class GreetingField(IntEnum):
    """First byte of a field; docs/link.md reserves more."""

    DIGEST = 1
    SIZES = 2
    LOADED = 3


class OtherProtocol(ValueError):
    """The greeting is one of another version of the protocol, ``version``."""

    def __init__(self, version: int) -> None:
        super().__init__(f"version {version} of the protocol")
        self.version = version


@dataclass(frozen=True)
class Greeting:
    """A chip's description of itself.

    Attributes:
        digest: 16 bytes that identify the design.
        input_bytes, output_bytes: sizes of a frame, the latter without the trailer.
        clock_hz: clock of the chip.
        input_buffer: bytes that may be on their way.
        result_bytes: payload of every packet of results.
        status: bits of ``ChipStatus``; a newer chip may set others.
        load_bytes: bytes that may be loaded; 0 for none.
        loaded: digest of those that the chip holds; empty where none may be loaded.
    """

    digest: bytes
    input_bytes: int
    output_bytes: int
    clock_hz: int
    input_buffer: int
    result_bytes: int
    status: int = ChipStatus.READY
    load_bytes: int = 0
    loaded: bytes = b""

    def to_bytes(self) -> bytes:
        """Return the payload, integers little-endian."""
        sizes = (self.input_bytes, self.output_bytes, self.clock_hz, self.input_buffer, self.result_bytes)
        fields = [(GreetingField.DIGEST, self.digest), (GreetingField.SIZES, _SIZES.pack(*sizes))]
        if self.load_bytes:  # the last field, whose digest the chip takes from another memory
            fields.append((GreetingField.LOADED, _LOAD.pack(self.load_bytes) + self.loaded))
        return _HEAD.pack(PROTOCOL, self.status) + b"".join(bytes((tag, len(data))) + data for tag, data in fields)

    @classmethod
    def from_bytes(cls, payload: bytes) -> Greeting:
        """Return the greeting of a payload.

        Raises:
            OtherProtocol: it is one of another version.
            ValueError: the payload is not a greeting.
        """
        if payload and payload[0] != PROTOCOL:
            raise OtherProtocol(payload[0])
        if len(payload) < _HEAD.size:
            raise ValueError(f"a greeting of {len(payload)} bytes")
        _, status = _HEAD.unpack_from(payload)
        fields = dict(_fields(payload[_HEAD.size :]))
        digest, sizes = fields.get(GreetingField.DIGEST, b""), fields.get(GreetingField.SIZES, b"")
        if len(digest) < 16 or len(sizes) < _SIZES.size:
            raise ValueError("a greeting without a digest and sizes")
        into, out, clock_hz, buffer, result = _SIZES.unpack_from(sizes)
        load, load_bytes, loaded = fields.get(GreetingField.LOADED, b""), 0, b""
        if len(load) >= _LOAD.size + 16:
            (load_bytes,) = _LOAD.unpack_from(load)
            loaded = load[_LOAD.size : _LOAD.size + 16]
        return cls(digest[:16], into, out, clock_hz, buffer, result, status, load_bytes, loaded)


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (first byte, contents) of each field; raise ``ValueError`` where the last one is cut short."""
    while data:
        if len(data) < 2 or len(data) < 2 + data[1]:
            raise ValueError("a greeting whose last field is cut short")
        yield data[0], data[2 : 2 + data[1]]
        data = data[2 + data[1] :]
