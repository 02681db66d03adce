"""Facts that both ends of a link agree on: one value, from which the circuit is made and with which the driver speaks.

docs/link.md is the protocol. Nothing here needs more than Python; the circuit is ``onnx_hw_rtl.link.endpoint.LinkEnd``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from math import gcd

from onnx_hw_link.greeting import Greeting

__all__ = ["LOADED_DIGEST", "LOAD_UNIT", "MOST_PAYLOAD", "FromChip", "FromHost", "Link", "LinkPort", "LoadArea"]

MOST_PAYLOAD = 256
"""Bytes of a packet between its header and its CRC."""

LOAD_UNIT = 16
"""Bytes of which the payload of a ``LOAD`` is a multiple, so that no word is cut."""

LOADED_DIGEST = 16
"""Bytes of the digest of what is loaded."""

TRAILER = 9
"""Bytes behind the last beat of a frame's results: when it was computed."""

MOST_SLOTS = 64
"""Packets of results that are kept until they are acknowledged: few in comparison with the 256 sequence numbers."""


class FromHost(IntEnum):
    """First byte of a packet to the chip; docs/link.md reserves more."""

    HELLO = 0x01
    DATA = 0x02
    ACK = 0x03
    POLL = 0x04
    LOAD = 0x05
    COMMIT = 0x06


class FromChip(IntEnum):
    """First byte of a packet to the host; docs/link.md reserves more."""

    HELLO = 0x81
    RESULT = 0x82
    STATUS = 0x83
    MISSING = 0x84
    ANSWER = 0x85
    UNKNOWN = 0x86
    LOADED = 0x87


@dataclass(frozen=True)
class LinkPort:
    """A stream of the network.

    In a frame of a link, an integer takes its own bits. In a transfer (AXI4-Stream), it takes the fewest whole bytes,
    little-endian, sign-extended; of bits, all of a beat stand side by side.

    Attributes:
        name: name of the network's ports: ``{name}_payload``, ``{name}_valid``, ``{name}_ready``.
        beats: beats of a frame.
        width: integers of a beat.
        bits, signed: width of an integer, and whether it has a sign.
    """

    name: str
    beats: int
    width: int
    bits: int
    signed: bool = True

    def __post_init__(self) -> None:
        for what in ("beats", "width", "bits"):
            if getattr(self, what) < 1:
                raise ValueError(f"`{self.name}` must have one of its {what} or more, not {getattr(self, what)}")

    @property
    def beat_bits(self) -> int:
        """Bits of a beat in a frame of a link."""
        return self.width * self.bits

    @property
    def place_bits(self) -> int:
        """Bits that an integer takes in a transfer."""
        return 1 if self.bits == 1 else 8 * -(-self.bits // 8)

    @property
    def transfer_bytes(self) -> int:
        """Bytes of a transfer, which is a beat."""
        return -(-self.width * self.place_bits // 8)


@dataclass(frozen=True)
class LoadArea:
    """Bytes that a host may load into a chip: the contents of memories, such as weights.

    Attributes:
        size: number of bytes, a multiple of ``LOAD_UNIT``; behind them lies their digest, ``LOADED_DIGEST`` bytes.
        address_bits: bits of the address of a byte.
        word_bytes: bytes of the longest word, a power of two.
        digest: digest of the bytes that the chip holds after its configuration.
    """

    size: int
    address_bits: int
    word_bytes: int
    digest: bytes = field(default=bytes(LOADED_DIGEST), repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.size < 1 or self.size % LOAD_UNIT:
            raise ValueError(f"the size must be a multiple of {LOAD_UNIT} bytes, not {self.size}")
        if self.word_bytes > LOAD_UNIT or self.word_bytes & (self.word_bytes - 1):
            raise ValueError(f"a word must have a power of two of bytes, {LOAD_UNIT} at most, not {self.word_bytes}")
        if self.size + LOADED_DIGEST + MOST_PAYLOAD >= 1 << self.address_bits:
            raise ValueError(f"{self.address_bits} bits of an address are too few for {self.size} bytes")


def chunk_bits(ports: tuple[LinkPort, ...]) -> int:
    """Return the greatest number of bits, at most 8, of which bytes and beats of all streams are multiples."""
    return gcd(8, *(port.beat_bits for port in ports))


def frame_bytes(ports: tuple[LinkPort, ...]) -> int:
    """Return the bytes of a frame of some streams, the last one filled up with zeros."""
    return -(-sum(port.beats * port.beat_bits for port in ports) // 8)


@dataclass(frozen=True)
class Link:
    """A network at the end of a link.

    Attributes:
        digest: 16 bytes that identify this design.
        inputs, outputs: streams of the network, in the order of the graph's inputs and outputs.
        clock_hz: clock of the chip.
        input_buffer, output_buffer: sizes in bytes, powers of two; up to the size of a block RAM a buffer costs one.
        input_turns, output_turns: (stream, beats) one after the other, the order in which the beats of a frame travel;
            empty where the beats of each stream travel together.
        load: what may be loaded; None for nothing.
    """

    digest: bytes = field(repr=False)
    inputs: tuple[LinkPort, ...]
    outputs: tuple[LinkPort, ...]
    clock_hz: int
    input_buffer: int = 512
    output_buffer: int = 512
    input_turns: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    output_turns: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    load: LoadArea | None = None

    def __post_init__(self) -> None:
        if len(self.digest) != 16:
            raise ValueError(f"the digest must have 16 bytes, not {len(self.digest)}")
        for ports, turns in ((self.inputs, "input_turns"), (self.outputs, "output_turns")):
            if not ports:
                raise ValueError("a network must have an input and an output")
            if not getattr(self, turns):
                object.__setattr__(self, turns, tuple((k, port.beats) for k, port in enumerate(ports)))
            taken = [sum(beats for at, beats in getattr(self, turns) if at == k) for k in range(len(ports))]
            if taken != [port.beats for port in ports]:
                raise ValueError(f"the {turns} must be those of {[port.beats for port in ports]} beats, not {taken}")
        for what in ("input_buffer", "output_buffer"):
            size = getattr(self, what)
            if size & (size - 1) or not 128 <= size <= 1 << 15:
                raise ValueError(f"the {what} must be a power of two in 128..32,768 bytes, not {size}")
        if self.slots < 2:
            raise ValueError(f"the output_buffer must hold two packets of {self.result_bytes} bytes")

    @property
    def input_bytes(self) -> int:
        """Bytes of an input frame."""
        return frame_bytes(self.inputs)

    @property
    def output_bytes(self) -> int:
        """Bytes of a frame of results, without the trailer."""
        return frame_bytes(self.outputs)

    @property
    def results(self) -> int:
        """Packets that the results of a frame take."""
        most = min(MOST_PAYLOAD, self.output_buffer // 2)
        return -(-(self.output_bytes + TRAILER) // most)

    @property
    def result_bytes(self) -> int:
        """Payload of each of them; what is left of a frame's last one holds anything."""
        return -(-(self.output_bytes + TRAILER) // self.results)

    @property
    def slot_bytes(self) -> int:
        """Room that a packet of results has in the output buffer."""
        return 1 << (self.result_bytes - 1).bit_length()

    @property
    def slots(self) -> int:
        """Packets of results that are kept."""
        return min(MOST_SLOTS, self.output_buffer // self.slot_bytes)

    @property
    def credit_unit(self) -> int:
        """Bytes that a step of the credit byte stands for."""
        return self.input_buffer // 128

    @property
    def frame_at_once(self) -> bool:
        """Whether a frame waits in the buffer until all of it is there, and enters without a gap."""
        return 2 * self.input_bytes <= self.input_buffer

    @property
    def greeting(self) -> Greeting:
        """Description that the chip gives of itself after its configuration."""
        return Greeting(
            self.digest,
            self.input_bytes,
            self.output_bytes,
            self.clock_hz,
            self.input_buffer,
            self.result_bytes,
            load_bytes=self.load.size if self.load else 0,
            loaded=self.load.digest if self.load else b"",
        )

    @property
    def stored_greeting(self) -> bytes:
        """Bytes of the greeting as the circuit has them: those of the digest of what is loaded come from a memory."""
        greeting = self.greeting
        return (replace(greeting, loaded=bytes(LOADED_DIGEST)) if self.load else greeting).to_bytes()
