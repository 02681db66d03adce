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
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw_link.flash_tape import DIGEST_BYTES, FlashTiming, tape_image, whole_rows

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component as Component
else:
    Component = Any  # Amaranth is loaded where a circuit is made

DEAL, FLASH, TAPE = "(deal)", "(flash)", "(tape)"
"""Names of the engine that deals, of the reader of the memory, and of the stream of bytes between them."""

WEIGHTS_PORT = "w"
"""Port by which a core takes its weights."""

DEAL_LATENCY = 2
TAPE_DEPTH, WORD_DEPTH = 2, 1
"""Tokens of the FIFOs behind the reader and behind the deal. A byte comes every four cycles or less often, a word takes
a byte or more: they keep up."""


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
    """

    node: str
    bits: int
    group_words: int
    groups: int

    @property
    def word_bytes(self) -> int:
        """Bytes of a word."""
        return -(-self.bits // 8)

    @property
    def size(self) -> int:
        """Bytes of a frame."""
        return self.word_bytes * self.group_words * self.groups


def tape_order(tape_bytes: int) -> Order:
    """Return the order of the bytes of a frame on their stream."""
    return Order(Tensor((1, 1, tape_bytes), Int(8, False)), 1)


@dataclass(frozen=True)
class Tape:
    """Order of the words of all cores that take their weights from a memory.

    Attributes:
        ports: the cores.
        runs: (number of a port, groups), one after the other; together all groups of a frame.
    """

    ports: tuple[TapePort, ...]
    runs: tuple[tuple[int, int], ...]

    @property
    def used_bytes(self) -> int:
        """Bytes of words."""
        return sum(port.size for port in self.ports)

    @property
    def size(self) -> int:
        """Bytes of a frame, which fill the rows of the reader."""
        return whole_rows(self.used_bytes)

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
        """Schedule of the deal: an operation for each byte of a frame."""
        pushes = {dealing_port(k): AffineSequence.rows([0], ends) for k, ends in enumerate(self._ends)}
        every = AffineSequence.every(self.size)
        return Schedule((Engine("deal", self.size, DEAL_LATENCY, {"tape": every}, pushes),))

    def flash_schedule(self, timing: FlashTiming) -> Schedule:
        """Return what a reader does in a pass: an operation a cycle."""
        first, step = timing.pushes()
        pushes = {"o": AffineSequence.every(self.size, step, first)}
        cycles = timing.pass_cycles(self.size)
        return Schedule((Engine("flash", cycles, timing.latency, {}, pushes, once=timing.once),))

    def contents(self, words: Mapping[str, np.ndarray]) -> bytes:
        """Return the bytes of a frame.

        Args:
            words: by node, (words, lanes) integers in the order in which its core takes them; lane 0 lies lowest.
        """
        data = np.zeros(self.size, dtype=np.uint8)
        for port, ends in zip(self.ports, self._ends, strict=True):
            packed = packed_words(words[port.node], port.bits)
            places = ends[:, None] - np.arange(port.word_bytes)[::-1]
            data[places] = packed
        return data.tobytes()

    def digest(self, contents: bytes) -> bytes:
        """Return the digest that a bitstream and its tape share."""
        return hashlib.sha256(repr((self.ports, self.runs)).encode() + contents).digest()[:DIGEST_BYTES]

    def image(self, contents: bytes) -> bytes:
        """Return what lies in the memory."""
        return tape_image(self.digest(contents), contents)

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
        return Deal(ports, self.runs, padding=self.size - self.used_bytes)

    def reader(self, timing: FlashTiming, address: int, contents: bytes) -> Component:
        """Return the circuit that reads the tape from a flash (imports ``onnx_hw_rtl`` inside)."""
        from onnx_hw_rtl.memory.qspi_flash import QspiFlashReader

        digest = self.digest(contents)
        return QspiFlashReader(timing, address=address, digest=digest, tape_bytes=self.size, depth=TAPE_DEPTH)

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
