"""A bitstream file as bits: the frames of the configuration memory, and the contents of the block RAMs.

Lattice FPGA-TN-02039, sysCONFIG, describes the commands, the compression of frames and the checksum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

PREAMBLE = b"\xff\xff\xbd\xb3"
RAM_WORDS = 2048
"""Words of 9 bits of a block RAM."""

_RESET_CRC, _VERIFY_ID, _INIT_ADDRESS = 0x3B, 0xE2, 0x46
_CONTROL, _DICTIONARY, _COMPRESSED, _FRAMES = 0x22, 0x02, 0xB8, 0x82
_RAM_ADDRESS, _RAM_WORDS, _USER_CODE, _DONE = 0xF6, 0xB2, 0xC2, 0x5E


class UnreadableBitstream(Exception):
    """A file that is no complete and sound bitstream of an ECP5; the message says where it goes wrong."""


@dataclass(frozen=True)
class FrameShape:
    """Configuration memory of a chip.

    Attributes:
        frames: number of frames.
        bits: bits of a frame.
        padding: bits of a frame, in the file, before and after these.
    """

    frames: int
    bits: int
    padding: tuple[int, int]


@dataclass(frozen=True)
class Configuration:
    """Everything that a bitstream stores in a chip.

    Attributes:
        idcode: identification of the chip that takes it.
        frames: (frames, bits) of bool.
        block_rams: per number that a block RAM has in the file, (2048,) words of 9 bits, uint16.
    """

    idcode: int
    frames: np.ndarray
    block_rams: Mapping[int, np.ndarray]


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x8005 if crc & 0x8000 else crc << 1) & 0xFFFF
        table.append(crc)
    return tuple(table)


_CRC = _crc_table()


class _Reader:
    """The bytes of a file, one after another, and the checksum of those since the last one."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at, self.crc = data, at, 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise UnreadableBitstream(f"the file ends after {len(self.data):,} bytes, in the middle of a command")
        taken = self.data[self.at : self.at + count]
        self.at += count
        crc = self.crc
        for byte in taken:
            crc = (crc << 8 & 0xFFFF) ^ _CRC[crc >> 8 ^ byte]
        self.crc = crc
        return taken

    def skip_dummies(self) -> None:
        """Skip the bytes between two commands, which no checksum covers."""
        while self.data[self.at : self.at + 1] == b"\xff":
            self.at += 1

    def word(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def check(self) -> None:
        """Compare the checksum with the next two bytes, and begin a new one."""
        crc, at, stated = self.crc, self.at, int.from_bytes(self.take(2), "big")
        if crc != stated:
            raise UnreadableBitstream(f"the checksum at byte {at:,} is {stated:#06x}, that of the data {crc:#06x}")
        self.crc = 0


def read_bitstream(data: bytes, shapes: Mapping[int, FrameShape]) -> Configuration:
    """Return the contents of a bitstream file; every checksum in it is compared.

    Args:
        data: the file.
        shapes: shape of the configuration memory, by identification code of the chip.

    Raises:
        UnreadableBitstream: it is damaged, incomplete, or for another chip.
    """
    start = data.find(PREAMBLE)
    if start < 0:
        raise UnreadableBitstream("it has no preamble, so it is no bitstream of an ECP5")
    reader = _Reader(data, start + len(PREAMBLE))
    idcode = 0
    shape: FrameShape | None = None
    frames: np.ndarray | None = None
    patterns = b""
    rams: dict[int, np.ndarray] = {}
    ram = word = 0
    while True:
        reader.skip_dummies()
        command, *options = reader.take(4)
        if command == _RESET_CRC:
            reader.crc = 0
        elif command == _VERIFY_ID:
            idcode = reader.word()
            shape = shapes.get(idcode)
            if shape is None:
                raise UnreadableBitstream(f"it is for a chip with the code {idcode:#010x}")
        elif command in (_CONTROL, _USER_CODE):
            reader.word()
            _check_if_asked(reader, options)
        elif command == _DICTIONARY:
            patterns = bytes(reversed(reader.take(8)))
            _check_if_asked(reader, options)
        elif command in (_COMPRESSED, _FRAMES):
            if shape is None:
                raise UnreadableBitstream("its frames come before the code of the chip")
            frames = _frames(reader, options, shape, patterns if command == _COMPRESSED else None)
        elif command == _RAM_ADDRESS:
            address = reader.word()
            ram, word = address >> 11 & 0x3FF, address & 0x7FF
        elif command == _RAM_WORDS:
            ram, word = _ram_words(reader, options, rams, ram, word)
        elif command == _DONE:
            _check_if_asked(reader, options)
            break
        elif command != _INIT_ADDRESS:
            raise UnreadableBitstream(f"byte {reader.at - 4:,} is the command {command:#04x}, which is not known")
    if frames is None:
        raise UnreadableBitstream("it has no frames")
    return Configuration(idcode, frames, rams)


def _check_if_asked(reader: _Reader, options: Sequence[int]) -> None:
    if options[0] & 0x80:
        reader.check()


def _frames(reader: _Reader, options: Sequence[int], shape: FrameShape, patterns: bytes | None) -> np.ndarray:
    """Return all frames; the last one in the chip comes first."""
    each, count = not options[0] & 0x40, options[1] << 8 | options[2]
    checked, dummies = options[0] & 0x80, options[0] & 0x0F
    if count != shape.frames:
        raise UnreadableBitstream(f"it has {count:,} frames, and the chip {shape.frames:,}")
    before, after = shape.padding
    size = (before + shape.bits + after) // 8
    rows = np.zeros((count, size), np.uint8)
    for k in range(count):
        row = reader.take(size) if patterns is None else _expand(reader, -(-size // 8) * 8, patterns)[-size:]
        rows[count - 1 - k] = np.frombuffer(row, np.uint8)
        if checked and (each or k == count - 1):
            reader.check()
        reader.take(dummies)
    bits: np.ndarray = np.unpackbits(rows[:, ::-1], axis=1, bitorder="little")[:, after : after + shape.bits]
    return bits.astype(bool)


def _expand(reader: _Reader, size: int, patterns: bytes) -> bytes:
    """Return the bytes of a compressed frame, which begins and ends with a byte of the file.

    A byte is 0 (zero), 100 and the place of its only bit, 101 and the place of a pattern, or 11 and itself.
    """
    out = bytearray()
    data, at = reader.data, reader.at
    buffer = left = 0
    while len(out) < size:
        if left < 10:  # the longest code
            buffer, left, at = (buffer << 8 | (data[at] if at < len(data) else 0)) & 0xFFFFFF, left + 8, at + 1
            continue
        code = buffer >> left - 10 & 0x3FF
        if code < 512:
            zeros = min(10 - code.bit_length(), size - len(out))
            out += bytes(zeros)
            left -= zeros
        elif code < 768:
            place = code >> 4 & 7
            out.append(patterns[place] if code & 128 else 1 << place)
            left -= 6
        else:
            out.append(code & 255)
            left -= 10
    reader.take(at - left // 8 - reader.at)
    return bytes(out)


def _ram_words(
    reader: _Reader, options: Sequence[int], rams: dict[int, np.ndarray], ram: int, word: int
) -> tuple[int, int]:
    """Read words of block RAMs, eight in nine bytes; return the block RAM and the word that come next."""
    for _ in range(options[1] << 8 | options[2]):
        if word >= RAM_WORDS:
            ram, word = ram + 1, 0
        bits = np.unpackbits(np.frombuffer(reader.take(9), np.uint8)).reshape(8, 9)
        contents = rams.setdefault(ram, np.zeros(RAM_WORDS, np.uint16))
        contents[word : word + 8] = bits @ (1 << np.arange(9)[::-1]).astype(np.uint16)
        word += 8
    _check_if_asked(reader, options)
    return ram, word
