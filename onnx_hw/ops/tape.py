"""Tape: the weights of some cores in the order in which they are needed, as bytes of a memory outside the chip.

The memory is one more source of the firing law, which is read from beginning to end, frame after frame. An engine, the
*deal*, hands its words to the cores. A word begins at a byte, its lowest bits first. The words of a core come in groups
that are used and given back together; a tape is a sequence of runs, each of them some groups of one core.

The order is that of a complete schedule of one frame, so no result needs a later frame. Where every core has room for a
group, the tape stops for ever under no circumstances: see ``onnx_hw/schedule/write_tape.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.schedule import Engine, Schedule, SharedBuffer
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw_link.flash_tape import DIGEST_BYTES, FlashTiming, tape_image, whole_rows
from onnx_hw_link.sdram_tape import SdramTiming

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component as Component
else:
    Component = Any  # Amaranth is loaded where a circuit is made

DEAL, FLASH, SDRAM, TAPE = "(deal)", "(flash)", "(sdram)", "(tape)"
"""Names of the engine that deals, of the reader of a flash and of an SDRAM, and of the stream between them."""

ReaderTiming: TypeAlias = FlashTiming | SdramTiming
"""Timing of the reader of a memory."""

WEIGHTS_PORT = "w"
"""Port by which a core takes its weights."""

DEAL_LATENCY = 2


def weights_edge(node: str) -> str:
    """Return the name of the stream of a node's words."""
    return f"{node} (weights)"


def dealing_port(number: int) -> str:
    """Return the port of the deal for a core, by its number on the tape."""
    return f"w{number}"


@dataclass(frozen=True)
class TapePort:
    """Core that takes its weights from a tape.

    Attributes:
        node: its name.
        bits: width of a word.
        group_words: words of a group.
        groups: groups of a frame, as often as each comes.
        token_bytes: bytes that come at once: a word is whole tokens.
    """

    node: str
    bits: int
    group_words: int
    groups: int
    token_bytes: int = field(default=1, repr=False)

    @property
    def word_bytes(self) -> int:
        """Bytes of a word."""
        return -(-self.bits // (8 * self.token_bytes)) * self.token_bytes

    @property
    def size(self) -> int:
        """Bytes of a frame."""
        return self.word_bytes * self.group_words * self.groups


def reader_name(timing: ReaderTiming) -> str:
    """Return the name of the reader of a memory."""
    return SDRAM if isinstance(timing, SdramTiming) else FLASH


def tape_order(tape_bytes: int, token_bytes: int) -> Order:
    """Return the order of the bytes of a frame on their stream."""
    return Order(Tensor((1, 1, tape_bytes), Int(8, False)), token_bytes)


@dataclass(frozen=True)
class Tape:
    """Order of the words of all cores that take their weights from a memory.

    Attributes:
        ports: the cores.
        runs: (number of a port, groups), one after the other; together all groups of a frame.
        sdram: timing of the reader of an SDRAM; None where they come from a flash, or from outside.
    """

    ports: tuple[TapePort, ...]
    runs: tuple[tuple[int, int], ...]
    sdram: SdramTiming | None = field(default=None, repr=False)

    @property
    def used_bytes(self) -> int:
        """Bytes of words."""
        return sum(port.size for port in self.ports)

    @property
    def size(self) -> int:
        """Bytes of a frame, which fill the rows of the reader."""
        return self.sdram.whole(self.used_bytes) if self.sdram else whole_rows(self.used_bytes)

    @property
    def token_bytes(self) -> int:
        """Bytes that come at once."""
        return self.sdram.token_bytes if self.sdram else 1

    def faults(self) -> Iterator[str]:
        """Yield everything that is wrong: each group of a port must come once a frame."""
        for number, port in enumerate(self.ports):
            dealt = sum(groups for which, groups in self.runs if which == number)
            if dealt != port.groups:
                yield f"{port.groups} groups of `{port.node}` must be on the tape, not {dealt}"
        if any(groups < 1 or not 0 <= which < len(self.ports) for which, groups in self.runs):
            yield f"a run must be one group or more of 0..{len(self.ports) - 1}, not {self.runs}"

    @cached_property
    def _ends(self) -> tuple[np.ndarray, ...]:
        """Numbers of the bytes that end a word, ascending, by port."""
        ends: list[list[np.ndarray]] = [[] for _ in self.ports]
        at = 0
        for which, groups in self.runs:
            port = self.ports[which]
            words = groups * port.group_words
            ends[which].append(at + port.word_bytes * np.arange(1, words + 1) - 1)
            at += words * port.word_bytes
        return tuple(np.concatenate([np.zeros(0, np.int64), *parts]) for parts in ends)

    @cached_property
    def deal_schedule(self) -> Schedule:
        """Schedule of the deal: an operation for each token of a frame."""
        each, tokens = self.token_bytes, self.size // self.token_bytes
        pushes = {dealing_port(k): AffineSequence.rows([0], ends // each) for k, ends in enumerate(self._ends)}
        every = AffineSequence.every(tokens)
        return Schedule((Engine("deal", tokens, DEAL_LATENCY, {"tape": every}, pushes),))

    def reader_schedule(self, timing: ReaderTiming) -> Schedule:
        """Return what a reader does in a pass: an operation a cycle."""
        if isinstance(timing, SdramTiming):
            return self._sdram_schedule(timing)
        first, step = timing.pushes()
        pushes = {"o": AffineSequence.every(self.size, step, first)}
        cycles = timing.pass_cycles(self.size)
        return Schedule((Engine("flash", cycles, timing.latency, {}, pushes, once=timing.once),))

    def _sdram_schedule(self, timing: SdramTiming) -> Schedule:
        """Return the steps of rows, and the words that are sent.

        A beat of the buffer is a step: so a row begins where there is room for all of it. Its steps are given back
        together, when its last word is sent.
        """
        rows, steps, columns = timing.tape_rows(self.size), timing.row_steps, timing.columns
        first_steps = np.arange(rows, dtype=np.int64) * steps
        pushes = {"o": AffineSequence.every(self.size // timing.word_bytes)}
        ends = np.arange(1, rows + 1, dtype=np.int64) * columns - 1
        buffer = SharedBuffer(
            "fill",
            "send",
            timing.capacity,
            AffineSequence.every(rows * columns),
            AffineSequence.rows(first_steps, timing.first_read + np.arange(columns)),
            AffineSequence.repeated(ends, np.full(rows, steps)),
        )
        fill = Engine("fill", rows * steps, 0, once=timing.before(self.size))
        return Schedule((fill, Engine("send", rows * columns, timing.latency, {}, pushes)), (buffer,))

    def contents(self, words: Mapping[str, np.ndarray]) -> bytes:
        """Return the bytes of a frame.

        Args:
            words: by node, (words, lanes) integers in the order in which its core takes them; lane 0 lies lowest.
        """
        data = np.zeros(self.size, dtype=np.uint8)
        for port, ends in zip(self.ports, self._ends, strict=True):
            packed = packed_words(words[port.node], port.bits)
            packed = np.pad(packed, ((0, 0), (0, port.word_bytes - packed.shape[1])))
            places = ends[:, None] - np.arange(port.word_bytes)[::-1]
            data[places] = packed
        return data.tobytes()

    def digest(self, contents: bytes) -> bytes:
        """Return the digest that a bitstream and its tape share."""
        return hashlib.sha256(repr((self.ports, self.runs)).encode() + contents).digest()[:DIGEST_BYTES]

    def image(self, contents: bytes) -> bytes:
        """Return what lies in the flash, from which other memories are filled."""
        return tape_image(self.digest(contents), self.sdram.in_flash(contents) if self.sdram else contents)

    def deal(self, depths: Mapping[str, int]) -> Component:
        """Return the circuit of the deal (imports ``onnx_hw_rtl`` inside).

        Args:
            depths: FIFO depth of each port.
        """
        from onnx_hw_rtl.memory.deal import Deal, DealtPort

        ports = [
            DealtPort(port.bits, port.word_bytes, port.group_words, depths[dealing_port(k)])
            for k, port in enumerate(self.ports)
        ]
        return Deal(ports, self.runs, padding=self.size - self.used_bytes, token_bytes=self.token_bytes)

    def reader(self, timing: ReaderTiming, address: int, contents: bytes) -> Component:
        """Return the circuit that reads the tape from a memory (imports ``onnx_hw_rtl`` inside).

        Args:
            address: address of the digest in the flash.
        """
        from onnx_hw_rtl.memory.qspi_flash import QspiFlashReader
        from onnx_hw_rtl.memory.sdram_from_flash import FilledSdramReader

        digest, size, depth = self.digest(contents), self.size, timing.depth
        if isinstance(timing, SdramTiming):
            return FilledSdramReader(timing, address=address, digest=digest, tape_bytes=size, depth=depth)
        return QspiFlashReader(timing, address=address, digest=digest, tape_bytes=size, depth=depth)

    def __repr__(self) -> str:
        return f"Tape of {self.used_bytes:,} bytes in {len(self.runs)} runs for {len(self.ports)} cores"


def packed_words(lanes: np.ndarray, bits: int) -> np.ndarray:
    """Return words as bytes, (words, bytes) uint8, the lowest byte first.

    Args:
        lanes: (words, lanes) integers, which together have ``bits``.
    """
    words, count = lanes.shape
    each = bits // count
    digits = (lanes.astype(np.int64)[:, :, None] >> np.arange(each)) & 1
    return np.packbits(digits.reshape(words, bits).astype(np.uint8), axis=1, bitorder="little")
