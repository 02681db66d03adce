"""Host's side of the protocol, without a wire and without a clock: bytes and the time in, bytes out.

docs/link.md says what a packet means. Frames go in and come out whole and in order, whatever the wire does to them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from onnx_hw_link.greeting import PROTOCOL, ChipStatus, Greeting
from onnx_hw_link.link import LOADED_DIGEST, MOST_PAYLOAD, TRAILER, FromChip, FromHost
from onnx_hw_link.packets import from_wire, to_wire

__all__ = ["Faults", "FrameResult", "Session", "hello", "packets_of"]

_CRC = 2  # bytes that a packet takes in the chip's buffer until it is known to be right
_IN_FLIGHT = 64  # packets; few in comparison with the 256 numbers
_UNTOLD = 2  # packets of results, which data may acknowledge that are on their way: the chip keeps two or more
_ACKNOWLEDGING = (FromChip.RESULT, FromChip.STATUS, FromChip.MISSING, FromChip.ANSWER, FromChip.LOADED)
_LEAST_WINDOW, _GROWTH = 2.5, 0.25  # packets on a bad wire, and how quickly they become more again


@dataclass(frozen=True)
class FrameResult:
    """The chip's result of a frame.

    Attributes:
        beats: bytes of the results.
        began, ended: cycles in which its first beat entered and its last one left, modulo 2³²; ``began`` is None
            where the chip followed another frame.
        waited: whether results had to wait for room since the frame before had left.
    """

    beats: bytes
    began: int | None
    ended: int
    waited: bool = False

    @property
    def latency_cycles(self) -> int | None:
        return None if self.began is None else (self.ended - self.began) % (1 << 32)


@dataclass
class Faults:
    """Numbers of faults on the wire, which the protocol repaired.

    Attributes:
        broken: packets of the chip whose CRC was wrong.
        missed: times that the chip missed a packet of the host.
        silent: times that nothing came, and the host asked again.
        resent: packets that were sent again.
    """

    broken: int = 0
    missed: int = 0
    silent: int = 0
    resent: int = 0


def hello(number: int) -> bytes:
    """Return the bytes that begin a session: its packets of data are numbered from ``number`` on.

    The zero before it ends whatever another session left half sent.
    """
    return b"\0" + to_wire(bytes((FromHost.HELLO, number, PROTOCOL)))


def packets_of(wire: bytearray) -> list[bytes | None]:
    """Take the packets that have come from the bytes of the wire, and return them; None for each that is broken."""
    *whole, rest = wire.split(b"\0")
    wire[:] = rest
    return [from_wire(packet) for packet in map(bytes, whole) if packet]


@dataclass
class Session:
    """A conversation that has begun: the chip has answered a ``hello``.

    Attributes:
        greeting: the chip's answer.
        number: number of the hello, hence of the first packet of data.
        retry: seconds without any news after which the host asks again.
        faults: faults so far.
        results: results of frames, in order; the reader removes them.
        unknown: types of packets that the chip has said not to have.
        damaged: whether the chip has said since that its weights are damaged: no more results will come.
    """

    greeting: Greeting
    number: int
    retry: float = 0.1
    faults: Faults = field(default_factory=Faults)
    results: deque[FrameResult] = field(default_factory=deque)
    unknown: list[int] = field(default_factory=list)
    damaged: bool = False

    def __post_init__(self) -> None:
        self._wire = bytearray()
        self._waiting: deque[bytes] = deque()  # frames of which nothing has been sent
        self._rest = memoryview(b"")  # of the frame that is being sent
        self._loads: deque[tuple[FromHost, bytes]] = deque()  # packets of contents that were not sent
        self._flying: deque[tuple[FromHost, bytes]] = deque()  # kind and payload of packets that are not acknowledged
        self._oldest = self.number  # the number of the first of them
        self._next = 0  # which of them is sent next
        self._sent_to = self._freed = 0  # bytes since the beginning: put into packets, out of the chip's buffer
        self._wanted = 0  # number of the next packet of results
        self._beats = bytearray()  # of the frame that is coming
        self._packets = -(-(self.greeting.output_bytes + TRAILER) // self.greeting.result_bytes)
        self._come = 0  # packets of that frame
        self._unanswered = 0  # frames
        self._untold = 0  # packets of results that have come since we last sent anything
        self._ack_due = self._poll_due = self._asked = False
        self._least_piece = self.greeting.input_buffer // 4  # small packets would fill the line with headers
        self._news: float | None = None  # when something last went forward, or we asked
        self._patience = self.retry
        self._trace = 0  # bytes of input acknowledged
        self._gone = self._asked_at = 0  # packets of data: acknowledged, and sent before the last POLL
        self._back_at = -1  # packets of data that were acknowledged when we last went back
        self._window = float(_IN_FLIGHT)  # packets: what is lost with one that is hit, if nothing else limits it
        self.credit = 0  # as the chip said it last
        self.progress = 0  # grows with everything that is acknowledged or comes

    # ---- the caller's side ------------------------------------------------------------------------------------------

    def offer(self, frame: bytes) -> None:
        """Queue a frame to send, after all those before."""
        if len(frame) != self.greeting.input_bytes:
            raise ValueError(f"a frame must have {self.greeting.input_bytes} bytes, not {len(frame)}")
        self._waiting.append(frame)
        self._unanswered += 1

    def load(self, contents: bytes, digest: bytes) -> None:
        """Queue contents of memories, and their digest; no frame may be on its way, and a ``hello`` must follow.

        Raises:
            ValueError: they are not as long as the chip says, or frames are on their way.
        """
        if len(contents) != self.greeting.load_bytes or len(digest) != LOADED_DIGEST:
            raise ValueError(f"the contents must have {self.greeting.load_bytes:,} bytes, not {len(contents):,}")
        if self._unanswered:
            raise ValueError(f"all frames must have been answered, and {self._unanswered:,} have not")
        pieces = (contents[at : at + MOST_PAYLOAD] for at in range(0, len(contents), MOST_PAYLOAD))
        self._loads.append((FromHost.LOAD, b""))  # the chip waits for it, and takes no frames from then on
        self._loads += ((FromHost.LOAD, piece) for piece in pieces)
        self._loads.append((FromHost.COMMIT, digest))

    @property
    def loading(self) -> int:
        """Packets of contents that the chip has not acknowledged."""
        return len(self._loads) + sum(kind != FromHost.DATA for kind, _ in self._flying)

    @property
    def unanswered(self) -> int:
        """Frames offered whose results have not come."""
        return self._unanswered

    @property
    def unsent(self) -> int:
        """Frames offered of which nothing has been sent: with one or two the line never rests."""
        return len(self._waiting)

    @property
    def sent_bytes(self) -> int:
        """Bytes of frames that were put into packets, since the beginning."""
        return self._sent_to

    @property
    def acknowledged_bytes(self) -> int:
        """Bytes of frames that the chip has taken, since the beginning."""
        return self._trace

    # ---- the wire's side --------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take in bytes that have come."""
        self._wire += data
        for packet in packets_of(self._wire):
            if packet is None or len(packet) < 4:
                self.faults.broken += 1
                self._poll_due = True
            else:
                self._take(packet)

    def transmit(self, now: float) -> bytes:
        """Return the bytes to send, at time ``now`` in seconds."""
        if self._news is None or not (self._unanswered or self._flying):
            self._news = now
        if now - self._news > self._patience:  # nothing has gone forward
            self._news, self._patience = now, min(2 * self._patience, 4 * self.retry)
            self.faults.silent += 1
            self._next, self._poll_due = 0, True
        out = bytearray()
        if self._poll_due:
            out += self._packet(FromHost.POLL)
            self._poll_due = False
            self._asked, self._asked_at = True, self._gone + self._next
        while (following := self._following()) is not None:
            kind, payload = following
            out += self._packet(kind, self._oldest + self._next, payload)
            self._next += 1
        if self._ack_due and (self._untold >= _UNTOLD or not self._flying):
            out += self._packet(FromHost.ACK)
        return bytes(out)

    def _packet(self, kind: FromHost, number: int = 0, payload: bytes = b"") -> bytes:
        self._ack_due, self._untold = False, 0
        return to_wire(bytes((kind, number % 256, self._wanted)) + payload)

    def _following(self) -> tuple[FromHost, bytes] | None:
        """Return kind and payload of the next packet; None where nothing is left to send, or no room for it."""
        if self._next >= int(self._window):
            return None
        if self._next < len(self._flying):
            self.faults.resent += 1
            return self._flying[self._next]
        if self._loads:
            self._flying.append(self._loads.popleft())
            return self._flying[-1]
        if not self._rest and self._waiting:
            self._rest = memoryview(self._waiting.popleft())
        room = self.greeting.input_buffer - _CRC - (self._sent_to - self._freed)
        size = min(len(self._rest), MOST_PAYLOAD)
        if not size or len(self._flying) >= _IN_FLIGHT or room < min(size, self._least_piece):
            return None
        payload = bytes(self._rest[: min(size, room)])
        self._rest = self._rest[len(payload) :]
        self._sent_to += len(payload)
        self._flying.append((FromHost.DATA, payload))
        return self._flying[-1]

    # ---- packets of the chip ----------------------------------------------------------------------------------------

    def _take(self, packet: bytes) -> None:
        kind, number, expected, credit = packet[:4]
        if kind == FromChip.UNKNOWN:
            self.unknown.append(number)
        if kind == FromChip.HELLO:
            self.damaged |= len(packet) > 5 and bool(packet[5] & ChipStatus.WEIGHTS_DAMAGED)
        if kind not in _ACKNOWLEDGING:
            return  # an answer to an earlier hello
        acknowledged = (expected - self._oldest) % 256
        if acknowledged <= len(self._flying):
            for _ in range(acknowledged):
                sent, payload = self._flying.popleft()
                self._trace += len(payload) if sent == FromHost.DATA else 0
                self._window = min(_IN_FLIGHT, self._window + _GROWTH / self._window)
                self._went_on()
            self._gone += acknowledged
            self._oldest += acknowledged
            self._next = max(0, self._next - acknowledged)
        unit = self.greeting.input_buffer // 128
        self.credit = credit
        freed = (self._freed // unit + (credit - self._freed // unit) % 256) * unit
        if freed <= self._sent_to:
            self._freed = max(self._freed, freed)
        if kind == FromChip.MISSING:
            again = self._back_at == self._gone  # what was sent twice may still come: we had better ask
            self._poll_due = self._poll_due or again or self._asked  # what the chip missed may have been the question
            if not again:
                self._go_back()
        elif kind == FromChip.ANSWER:
            self._asked = False
            if self._gone < self._asked_at:
                self._go_back()
        if kind == FromChip.RESULT and len(packet) == 4 + self.greeting.result_bytes:
            self._take_result(number, packet[4:])

    def _go_back(self) -> None:
        """Send again what is not acknowledged."""
        self.faults.missed += 1
        self._next, self._window = 0, max(_LEAST_WINDOW, min(self._window, len(self._flying)) / 2)
        self._back_at, self._asked_at = self._gone, 0

    def _take_result(self, number: int, payload: bytes) -> None:
        if number != self._wanted % 256:
            if (number - self._wanted) % 256 < 128 and not self._asked:
                self._poll_due = True
            self._ack_due = True
            return
        self._wanted = (self._wanted + 1) % 256
        self._ack_due, self._asked = True, False
        self._untold += 1
        self._went_on()
        self._beats += payload
        self._come += 1
        if self._come == self._packets:
            size = self.greeting.output_bytes
            beats, trailer = bytes(self._beats[:size]), self._beats[size : size + TRAILER]
            began, ended = (int.from_bytes(trailer[at : at + 4], "little") for at in (1, 5))
            self.results.append(FrameResult(beats, began if trailer[0] & 1 else None, ended, bool(trailer[0] & 2)))
            self._beats.clear()
            self._come = 0
            self._unanswered -= 1

    def _went_on(self) -> None:
        self.progress += 1
        self._news, self._patience = None, self.retry
