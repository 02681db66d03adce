"""Weights of a tape, read back from its file as the chip reads them, against those of the network.

Nothing here makes a tape: the bytes are dealt to the cores after the design's table of runs, taken apart into words
and integers, and put where the loops of ``onnx_hw.ops.stream_order`` say. CRC and digest follow their definitions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onnx_hw.ir.design import Design
from onnx_hw.messages.errors import ExitCode, UserError, user_error
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tape import Tape
from onnx_hw_link.sdram_tape import SdramTiming

STAGE = "assemble"
CRC_POLYNOMIAL = 0x1_0040_0007
SDRAM_POLYNOMIAL = 1 << 31 | 1 << 3 | 1
DIGEST_SIZE, CRC_SIZE = 16, 4


@dataclass(frozen=True)
class TapeCheck:
    """Comparison of a file with the network.

    Attributes:
        size: bytes of the file.
        weights: weights that were read, as often as they are on the tape.
        wrong: weights and facts of the file that differ.
        difference: first difference as a sentence, or empty.
    """

    size: int
    weights: int
    wrong: int
    difference: str

    def __str__(self) -> str:
        return f"{self.size:,} bytes, {self.weights:,} weights"


def check_tape(file: Path, design: Design) -> TapeCheck:
    """Read a tape back, and compare it with the network.

    Args:
        design: with a tape.
    """
    tape, image = design.tape, file.read_bytes()
    assert tape is not None
    sentences = list(_frame_faults(image, tape))
    weights, wrong = 0, len(sentences)
    dealt = _dealt(image[DIGEST_SIZE : len(image) - CRC_SIZE][: tape.size], tape)
    for port, words in zip(tape.ports, dealt, strict=True):
        node = design.network.node(port.node)
        ordered = node.operator.taped_words(design.folding(node))
        assert ordered is not None
        seen, bad, first = _compared(words, ordered[0], node.operator.taped_constants())
        weights, wrong = weights + seen, wrong + bad
        sentences += [f"`{port.node}`: {first}"] if first else []
    return TapeCheck(len(image), weights, wrong, sentences[0] if sentences else "")


def tape_error(check: TapeCheck, file: Path) -> UserError:
    """Return the error of a tape that is not that of the network."""
    return user_error(
        "tape-differs",
        f"the weights on the tape must be those of the network; {check.difference}; {check.wrong:,} differ",
        where=str(file),
        hint="this is a bug of onnx-hw: please report it with the model",
        stage=STAGE,
        exit_code=ExitCode.MISMATCH,
    )


def _frame_faults(image: bytes, tape: Tape) -> Iterator[str]:
    """Yield what is wrong with length, digest and CRC."""
    dealt = sum(groups * tape.ports[which].group_words * tape.ports[which].word_bytes for which, groups in tape.runs)
    contents = image[DIGEST_SIZE : len(image) - CRC_SIZE]
    rows = DIGEST_SIZE + CRC_SIZE + (tape.sdram.flash_bytes(tape.size) if tape.sdram else tape.size)
    if len(image) != rows or dealt > tape.size:
        yield f"the file has {len(image):,} bytes, and the circuit reads {rows:,}, of which it deals {dealt:,}"
    if _remainder(image):
        yield "the CRC at the end of the file is not that of its bytes"
    if tape.sdram and (fault := _sdram_fault(contents, tape.size, tape.sdram)):
        yield fault
    state = hashlib.sha256(repr((tape.ports, tape.runs)).encode())
    state.update(contents[: tape.size])
    if image[:DIGEST_SIZE] != state.digest()[:DIGEST_SIZE]:
        yield "the digest in front is not that of the weights and their order"


def _sdram_fault(contents: bytes, size: int, timing: SdramTiming) -> str:
    """Return what is wrong with the rows of an SDRAM as a sentence, or nothing: their check sum, and zeros behind them.

    The words, the high bit of each one first, come into a remainder that begins with ones; it must end with ones.
    """
    end, each, ones = size + CRC_SIZE, timing.word_bytes, (1 << 31) - 1
    if any(contents[end:]):
        return "there must be zeros behind the rows of the SDRAM"
    rest = ones
    for at in range(0, end, each):
        for byte in reversed(contents[at : at + each]):
            for bit in range(7, -1, -1):
                rest = rest << 1 | byte >> bit & 1
                rest ^= SDRAM_POLYNOMIAL if rest > ones else 0
    return "" if rest == ones else "the check sum behind the rows of the SDRAM is not that of their words"


def _remainder(image: bytes) -> int:
    """Return the remainder of the bytes, as one number, divided by the polynomial of the CRC: 0 if that is right."""
    table = []
    for byte in range(256):
        rest = byte << 24
        for _ in range(8):
            rest = rest << 1 ^ (CRC_POLYNOMIAL if rest >> 31 else 0)
        table.append(rest)
    rest = 0
    for byte in image:
        rest = (rest & 0xFFFFFF) << 8 ^ byte ^ table[rest >> 24]
    return rest


def _dealt(contents: bytes, tape: Tape) -> list[np.ndarray]:
    """Return the words that each core gets, (words, bytes) uint8: run after run, without those cut off at the end."""
    words: list[list[np.ndarray]] = [[] for _ in tape.ports]
    data, at = np.frombuffer(contents, dtype=np.uint8), 0
    for which, groups in tape.runs:
        port = tape.ports[which]
        end = at + groups * port.group_words * port.word_bytes
        run = data[at:end]
        words[which].append(run[: len(run) // port.word_bytes * port.word_bytes].reshape(-1, port.word_bytes))
        at = end
    return [
        np.concatenate([np.zeros((0, port.word_bytes), np.uint8), *of_port])
        for port, of_port in zip(tape.ports, words, strict=True)
    ]


def _compared(words: np.ndarray, order: Order, constants: np.ndarray) -> tuple[int, int, str]:
    """Return the weights that were read, how many differ, and the first difference as a sentence, or nothing.

    Args:
        constants: (height, width, channels), in the shape of the order's tensor.
    """
    places = np.array(list(_places(order)))
    if len(words) != len(places):
        return 0, 1, f"{len(words):,} words come, and its core takes {len(places):,}"
    read = _integers(words, order.tensor.dtype.bits, order.tensor.dtype.signed, order.width)
    pixel, lane = np.divmod(np.arange(order.width), order.lanes)
    row, column, channel = places[:, :1], places[:, 1:2] + pixel, places[:, 2:] + lane
    _, columns, channels = constants.shape
    there = (column < columns) & (channel < channels)
    row, column, channel = (np.broadcast_to(index, there.shape)[there] for index in (row, column, channel))
    read, wanted = read[there], constants[row, column, channel]
    if len(read) != constants.size * order.times:
        return len(read), 1, f"{len(read):,} weights come, and it has {constants.size * order.times:,}"
    wrong = np.flatnonzero(read != wanted)
    if not len(wrong):
        return len(read), 0, ""
    k = wrong[0]
    where = ", ".join(str(int(index[k])) for index in (row, column, channel))
    said = f"weight [{where}] is {int(read[k])} on the tape, and {int(wanted[k])} in the network"
    return len(read), len(wrong), said


def _integers(words: np.ndarray, bits: int, signed: bool, lanes: int) -> np.ndarray:
    """Return the integers of words, (words, lanes) int64: lane after lane, the lowest bit of the lowest byte first."""
    each = np.unpackbits(words, axis=1, bitorder="little")[:, : bits * lanes].reshape(len(words), lanes, bits)
    weight = 1 << np.arange(bits, dtype=np.int64)
    if signed:
        weight[-1] = -weight[-1]
    integers: np.ndarray = each.astype(np.int64) @ weight
    return integers


def _places(order: Order) -> Iterator[tuple[int, int, int]]:
    """Yield the row, the first column and the first channel of each beat."""
    rows, columns, channels = order.tensor.shape
    for _ in range(order.times):
        for tile in _tiles(order, rows, columns):
            for channel in range(0, channels, order.lanes):
                for row, column in tile:
                    yield row, column, channel


def _tiles(order: Order, rows: int, columns: int) -> Iterator[list[tuple[int, int]]]:
    """Yield the pixel groups of each tile, (row, first column)."""
    if order.tile < columns:
        for row in range(rows):
            for first in range(0, columns, order.tile):
                yield [(row, column) for column in range(first, min(first + order.tile, columns), order.pixels)]
        return
    height = order.tile // columns
    for first in range(0, rows, height):
        within = range(first, min(first + height, rows))
        yield [(row, column) for row in within for column in range(0, columns, order.pixels)]
