"""The file of a bitstream: commands, the configuration memory in four banks, contents of the block RAMs, a checksum.

The format is that of Project IceStorm (``icepack``): a command is a byte whose lower half says how many bytes of
payload follow. Data for a bank follow the command that announces them.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from onnx_hw_boards.families.unpacked_bitstream import DamagedBitstream

PREAMBLE = bytes.fromhex("7EAA997E")
BANKS = 4

_ACTION, _BANK, _CHECK, _SPEED, _WIDTH, _HEIGHT, _OFFSET, _START = 0x00, 0x10, 0x20, 0x50, 0x60, 0x70, 0x80, 0x90
_CONFIGURATION, _BLOCK_RAM, _RESET_CRC, _WAKE_UP = 1, 3, 5, 6


@dataclass(frozen=True)
class Banks:
    """The contents of a file.

    Attributes:
        configuration: (height, width) of bool by bank; banks 2 and 3 are the right half, 1 and 3 the upper part.
        block_rams: (rows, width) of bool by bank.
    """

    configuration: Mapping[int, np.ndarray]
    block_rams: Mapping[int, np.ndarray]


class _CommandReader:
    """A file from its preamble on; ``crc_from`` is where the checksum begins."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at, self.crc_from = data, at, at

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise DamagedBitstream(f"the file ends after {len(self.data):,} bytes, in the middle of a command")
        self.at += count
        return self.data[self.at - count : self.at]

    def check(self, payload: bytes) -> None:
        crc = crc_hqx(self.data[self.crc_from : self.at - len(payload)], 0xFFFF)
        stated = int.from_bytes(payload, "big")
        if crc != stated:
            raise DamagedBitstream(
                f"the checksum at byte {self.at - 2:,} is {stated:#06x}, that of the data {crc:#06x}"
            )


def read_banks(data: bytes) -> Banks:
    """Return the contents of a bitstream file; its checksum is compared.

    Raises:
        DamagedBitstream: it is damaged or incomplete.
    """
    start = data.find(PREAMBLE)
    if start < 0:
        raise DamagedBitstream("it has no preamble, so it is no bitstream of an iCE40")
    reader = _CommandReader(data, start + len(PREAMBLE))
    configuration: dict[int, np.ndarray] = {}
    block_rams: dict[int, np.ndarray] = {}
    bank = width = height = offset = 0
    checked = False
    while True:
        command = reader.take(1)[0]
        payload = reader.take(command & 0x0F)
        value = int.from_bytes(payload, "big")
        kind = command & 0xF0
        if kind == _BANK:
            bank = value
            if bank >= BANKS:
                raise DamagedBitstream(f"it has data for bank {bank}, and there are {BANKS}")
        elif kind == _WIDTH:
            width = value + 1
        elif kind == _HEIGHT:
            height = value
        elif kind == _OFFSET:
            offset = value
        elif kind == _CHECK:
            reader.check(payload)
            checked = True
        elif kind == _ACTION and value in (_CONFIGURATION, _BLOCK_RAM):
            _rows(reader, configuration if value == _CONFIGURATION else block_rams, bank, (height, width), offset)
        elif kind == _ACTION and value == _RESET_CRC:
            reader.crc_from = reader.at
        elif kind == _ACTION and value == _WAKE_UP:
            break
        elif kind not in (_SPEED, _START):  # how fast the file is read, and whether the chip may start another one
            raise DamagedBitstream(f"byte {reader.at - 1:,} ends the command {command:#04x}, which is not known")
    if not checked:
        raise DamagedBitstream("it has no checksum")
    missing = sorted(set(range(BANKS)) - set(configuration))
    if missing:
        raise DamagedBitstream(f"it has no configuration of bank {missing[0]}")
    return Banks(configuration, block_rams)


def _rows(reader: _CommandReader, banks: dict[int, np.ndarray], bank: int, shape: tuple[int, int], offset: int) -> None:
    """Read rows of a bank, after which two empty bytes follow."""
    count = shape[0] * shape[1]
    if count % 8:
        raise DamagedBitstream(f"byte {reader.at:,} begins {count:,} bits, which are no whole bytes")
    bits = np.unpackbits(np.frombuffer(reader.take(count // 8), np.uint8)).astype(bool).reshape(shape)
    known = banks.get(bank, np.zeros((0, shape[1]), bool))
    if known.shape != (offset, shape[1]):
        raise DamagedBitstream(f"row {offset} of bank {bank} comes after {len(known)} rows of {known.shape[1]} bits")
    banks[bank] = np.concatenate([known, bits])
    if any(reader.take(2)):
        raise DamagedBitstream(f"bank {bank} does not end where it should, at byte {reader.at - 2:,}")
