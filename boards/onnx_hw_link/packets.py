"""Packets on the wire: a CRC behind them, no zero within them, a zero after each.

To the chip goes ordinary COBS: each run of bytes that are not zero stands behind its length. From the chip
comes its mirror image, each run before its length, so that the chip can send a byte before it knows the next one; the
host has all of a packet before it reads any of it. Either way, a packet grows by one byte, and by one more in 254.
"""

from __future__ import annotations

from binascii import crc_hqx

__all__ = ["cobs", "from_wire", "mirrored_cobs", "to_wire", "uncobs", "with_crc", "without_crc"]

_LONGEST = 254  # bytes of a run; its length, 255, then says that no zero follows


def with_crc(packet: bytes) -> bytes:
    """Append the CRC-16/IBM-3740, the high byte first: the CRC of the whole is 0."""
    return packet + crc_hqx(packet, 0xFFFF).to_bytes(2, "big")


def without_crc(packet: bytes) -> bytes | None:
    """Return the packet without its CRC, or None if the CRC is wrong."""
    return packet[:-2] if len(packet) > 2 and crc_hqx(packet, 0xFFFF) == 0 else None


def to_wire(packet: bytes) -> bytes:
    """Return the bytes of a packet to the chip, its zero included."""
    return cobs(with_crc(packet)) + b"\0"


def from_wire(wire: bytes) -> bytes | None:
    """Return a packet from the chip, whose bytes come without the zero; None if it is broken."""
    packet = uncobs_mirrored(wire)
    return None if packet is None else without_crc(packet)


def cobs(packet: bytes) -> bytes:
    """Return the packet without zeros: every run of other bytes stands behind its length plus one."""
    out = bytearray()
    for run in packet.split(b"\0"):
        whole, rest = divmod(len(run), _LONGEST)
        for k in range(whole):
            out += b"\xff" + run[k * _LONGEST : (k + 1) * _LONGEST]
        out.append(rest + 1)
        out += run[whole * _LONGEST :]
    return bytes(out)


def mirrored_cobs(packet: bytes) -> bytes:
    """Return the packet without zeros: every run of other bytes stands before its length plus one."""
    out = bytearray()
    for run in packet.split(b"\0"):
        whole, rest = divmod(len(run), _LONGEST)
        for k in range(whole):
            out += run[k * _LONGEST : (k + 1) * _LONGEST] + b"\xff"
        out += run[whole * _LONGEST :]
        out.append(rest + 1)
    return bytes(out)


def uncobs(wire: bytes) -> bytes | None:
    """Return the packet that ``cobs`` encoded; None where it never gives these bytes."""
    out, at = bytearray(), 0
    while at < len(wire):
        code = wire[at]
        run = wire[at + 1 : at + code]
        at += code
        if code == 0 or len(run) != code - 1 or 0 in run:
            return None
        out += run
        if code <= _LONGEST and at < len(wire):
            out.append(0)
    return bytes(out) if wire else None


def uncobs_mirrored(wire: bytes) -> bytes | None:
    """Return the packet that ``mirrored_cobs`` encoded; None where it never gives these bytes."""
    runs: list[bytes] = []
    end = len(wire)
    while end > 0:
        code = wire[end - 1]
        if code == 0 or code > end or 0 in wire[end - code : end]:
            return None
        zero = b"\0" if code <= _LONGEST and runs else b""  # none behind the last run
        runs.append(wire[end - code : end - 1] + zero)
        end -= code
    return b"".join(reversed(runs)) if runs else None
