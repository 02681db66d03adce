"""Single bits of an ECP5's bitstream, turned over in the file itself, whose frames are written anew, uncompressed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np

from onnx_hw_boards.families.ecp5.bitstream import chip_tiles, configuration_file
from onnx_hw_boards.families.ecp5.bitstream.netlist import read_configuration

_UNCOMPRESSED, _RESET_CRC = 0x82, bytes([0x3B, 0, 0, 0])
_FRAMES = bytes([0x46, 0, 0, 0])
"""The command that sets the address of frames to 0, which is right before that of the frames."""


def file_with_turned_bit(data: bytes, device: str, tile: str, bit: int) -> bytes:
    """Return a bitstream file with one bit of a tile turned over, and checksums that fit.

    Args:
        device: name of the chip, such as LFE5U-85F.
        bit: number of the bit: bit after bit of a frame, frame after frame of the tile.
    """
    shape = next(shape for name, shape in chip_tiles.frame_shapes().values() if name == device)
    frames = read_configuration(data, device).frames.copy()
    where = next(each for name, _, _, each in chip_tiles._grid(device) if name == tile)
    column, row = divmod(bit, where["rows"])
    frames[where["start_frame"] + column, where["start_bit"] + row] ^= True
    begins = data.index(_RESET_CRC) + len(_RESET_CRC)  # the first checksum covers all commands from here
    at = data.index(_FRAMES, begins) + len(_FRAMES)
    at = data.index(b"\xb8", at)
    options = data[at + 1 : at + 4]
    assert options[0] & 0xC0 == 0x80, "a checksum behind every frame"
    before = data[begins:at] + bytes([_UNCOMPRESSED, *options])
    return data[:begins] + _with_frames(before, frames, shape, options[0] & 0x0F) + data[_end(data, at, shape) :]


def _with_frames(before: bytes, frames: np.ndarray, shape: configuration_file.FrameShape, dummies: int) -> bytes:
    """Return commands and the frames behind them: the last frame first, its last bit first."""
    first, last = shape.padding
    rows = np.pad(frames, ((0, 0), (last, first))).astype(np.uint8)
    packed = np.packbits(rows, axis=1, bitorder="little")[::-1, ::-1]
    out, crc = bytearray(before), _crc(before)
    for row in packed:
        written = row.tobytes()
        out += written + _crc(written, crc).to_bytes(2, "big") + b"\xff" * dummies
        crc = _crc(b"\xff" * dummies)
    return bytes(out)


def _crc(data: Iterable[int], crc: int = 0) -> int:
    """Return the CRC-16 of bytes behind others, with the polynomial 0x8005, the highest bit first."""
    for byte in data:
        crc = (crc << 8 & 0xFFFF) ^ _crc_of(crc >> 8 ^ byte)
    return crc


@cache
def _crc_of(byte: int) -> int:
    crc = byte << 8
    for _ in range(8):
        crc = (crc << 1 ^ 0x8005 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def _end(data: bytes, at: int, shape: configuration_file.FrameShape) -> int:
    """Return where compressed frames end whose command is at a place."""
    patterns = data.rindex(b"\x02\0\0\0", 0, at) + 4
    reader = configuration_file._Reader(data, at + 4)
    options = data[at + 1 : at + 4]
    for _ in range(shape.frames):
        size = (shape.bits + sum(shape.padding)) // 8
        configuration_file._expand(reader, -(-size // 8) * 8, bytes(reversed(data[patterns : patterns + 8])))
        reader.take(2 + (options[0] & 0x0F))
    return reader.at
