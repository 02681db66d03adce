"""Hosts of link 4 on boards: the driver's own sessions, in the time of the simulation, at the pins of 64 boards.

Each host greets its chip, sends frames and takes results as the driver does. Some hosts hesitate, some have a bad wire,
some begin anew in mid-frame, by themselves or since the chip was reset.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from onnx_hw.prove.circuit.link_questions import Question, questions
from onnx_hw_link.greeting import Greeting
from onnx_hw_link.link import FromChip
from onnx_hw_link.packets import from_wire
from onnx_hw_link.session import Faults, FrameResult, Session, hello, packets_of

WORST_SHARE = 0.01
"""Share of the bytes that are hit on a bad wire."""


class HostKind(Enum):
    """Kind of a host, by what it does besides sending frames."""

    STEADY = "a good wire"
    HESITANT = "a host that hesitates"
    BAD_WIRE = "one byte in a hundred is hit"
    ASKS = "packets that no session sends come first"
    GREETS_ANEW = "a new HELLO in mid-frame"
    RESET = "a reset in mid-frame"

    @property
    def wire_is_good(self) -> bool:
        return self is not HostKind.BAD_WIRE


@dataclass(frozen=True)
class HostPlan:
    """Plan of one host.

    Attributes:
        kind: what it does besides.
        frames: numbers of the frames that it sends.
        begins: cycle in which it first sends something.
        anew: cycle in which it forgets its session; None for never.
        resumes: cycle in which it begins the second one.
        good_from: cycle from which a bad wire is good, so that a run ends.
        pace: time that a bit of the host lasts, in those that the chip expects.
    """

    kind: HostKind
    frames: tuple[int, ...]
    begins: int
    anew: int | None = None
    resumes: int = 0
    good_from: int = 0
    pace: Fraction = Fraction(1)


@dataclass(frozen=True)
class HostTimes:
    """Times that all hosts have in common, in cycles of the chip's clock.

    Attributes:
        hz: cycles of a second.
        greeting: after which a host that hears no answer greets again.
        retry: after which a session that hears nothing asks again.
    """

    hz: float
    greeting: int
    retry: int


@dataclass
class PinHost:
    """A host at the pins of one board.

    Attributes:
        serial: whether bytes come by themselves, as on a serial line, and not for bytes that are sent.
        data: bytes of all frames.
        results: of its frames, in order.
        greeting: what the chip said of itself last.
        hit: bytes that were hit.
        answered_wrongly: the first question whose answers were others, and those; None where all were right.
    """

    plan: HostPlan
    times: HostTimes
    serial: bool
    data: Sequence[bytes]
    seed: int
    results: list[FrameResult] = field(default_factory=list)
    greeting: Greeting | None = None
    session: Session | None = None
    hit: int = 0
    answered_wrongly: tuple[Question, list[tuple[int, int]]] | None = None

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._number = self._random.randrange(256)
        self._came, self._queue = bytearray(), bytearray()
        self._greeted: int | None = None
        self._anew = self.plan.anew
        self._resumes = self.plan.begins
        self._zero = True
        self._acknowledged = False
        self._questions: list[Question] = []  # that are not answered
        self._asked: int | None = None  # when the first one was asked, and when something last came
        self._answered = 0
        self._answers: list[tuple[int, int]] = []

    @property
    def done(self) -> bool:
        """Whether all results have come and the last acknowledgement is sent."""
        return self._acknowledged and self._anew is None

    @property
    def faults(self) -> Faults:
        return Faults() if self.session is None else self.session.faults

    def exchange(self, cycle: int, came: bytes, waiting: int, *, asked: bool = True) -> list[int] | None:
        """Take the bytes that have come, and return the words to send; None to forget all that waits to be sent.

        Args:
            cycle: cycles since power-up.
            waiting: words that wait to be sent.
            asked: whether the chip says that it has bytes, at a pin of its own; a host that hesitates waits for that.
        """
        if self._anew is not None and cycle >= self._anew:
            self._anew, self._resumes, self._acknowledged = None, self.plan.resumes, False
            self.session, self._greeted = None, None
            self._came.clear()
            self._queue.clear()
            self.results.clear()
            return None
        if cycle < self._resumes or self.done:
            return []
        self._hear(cycle, came)
        if waiting == 0:
            self._speak(cycle)
        if self.plan.kind is HostKind.HESITANT:
            return self._hesitating(asked and not waiting)
        words = self._hit(bytes(self._queue), cycle)
        self._queue.clear()
        return words or self._asking(waiting)

    def _hear(self, cycle: int, came: bytes) -> None:
        heard = bytes(self._hit(came, cycle, broken=0))
        if not self.serial:  # zeros between packets are nothing
            kept = bytearray()
            for byte in heard:
                if byte or not self._zero:
                    kept.append(byte)
                self._zero = not byte
            heard = bytes(kept)
        if self._questions:
            self._came += heard
            for packet in packets_of(self._came):
                self._answers.append((packet[0], packet[1]) if packet else (0, 0))
                self._answered = cycle
        elif self.session is not None:
            self.session.receive(heard)
            self.results += self.session.results
            self.session.results.clear()
        else:
            self._came += heard
            while b"\0" in self._came and self.session is None:
                whole, _, rest = bytes(self._came).partition(b"\0")
                self._came[:] = rest
                self._greet(from_wire(whole))
            if self.session is not None:
                self.session.receive(bytes(self._came))
                self._came.clear()

    def _greet(self, packet: bytes | None) -> None:
        """Begin a session if a packet is the answer to the HELLO that was sent last."""
        if packet is None or len(packet) < 5 or packet[0] != FromChip.HELLO or packet[2] != self._number:
            return
        try:
            self.greeting = Greeting.from_bytes(packet[4:])
        except ValueError:
            return
        self.session = Session(self.greeting, self._number, self.times.retry / self.times.hz)
        for frame in self.plan.frames:
            if len(self.data[frame]) == self.greeting.input_bytes:
                self.session.offer(self.data[frame])
        if self.plan.kind is HostKind.ASKS:
            self._questions = questions(self._number)

    def _speak(self, cycle: int) -> None:
        if self._questions:
            self._ask(cycle)
        elif self.session is not None:
            self._queue += self.session.transmit(cycle / self.times.hz)
            self._acknowledged = len(self.results) >= len(self.plan.frames) and not self._queue
        elif self._greeted is None or cycle - self._greeted > self.times.greeting:
            self._number = (self._number + 1) % 256
            self._queue += hello(self._number)
            self._greeted = cycle

    def _ask(self, cycle: int) -> None:
        """Ask the first question, or judge its answers where they have come, and no other one for a while."""
        question, waits = self._questions[0], self.times.greeting
        if self._asked is None:
            self._queue += question.wire
            self._asked = self._answered = cycle
            return
        if len(self._answers) >= len(question.answers):
            waits //= 8  # the time of a short packet or two
        if cycle - self._answered > waits:
            if tuple(self._answers) != question.answers and self.answered_wrongly is None:
                self.answered_wrongly = question, self._answers
            del self._questions[0]
            self._asked, self._answers = None, []

    def _hesitating(self, asked: bool) -> list[int]:
        """Return a few of the bytes to send, and pauses of any length between them."""
        from onnx_hw_sim.gates.pin_simulator import pause

        words: list[int] = []
        for byte in self._queue[: self._random.choice((0, 1, 3, 40))]:
            words.append(byte)
            if self.serial and self._random.random() < 0.1:
                words += pause(self._random.randrange(1, 40))
        del self._queue[: sum(word < 256 for word in words)]
        return words or (self._asking(0) if asked and not self._queue else [])

    def _asking(self, waiting: int) -> list[int]:
        """Return the zeros with which a controller of SPI hears whether something comes."""
        return [] if self.serial or waiting else [0] * 16

    def _hit(self, data: bytes, cycle: int, broken: int = 256) -> list[int]:
        """Return bytes after their way over the wire; ``broken`` stands for one during which a line is broken."""
        if self.plan.kind.wire_is_good or cycle >= self.plan.good_from:
            return list(data)
        out: list[int] = []
        for byte in data:
            if self._random.random() >= WORST_SHARE:
                out.append(byte)
                continue
            self.hit += 1
            flipped = byte ^ 1 << self._random.randrange(8)
            out += self._random.choice(((flipped,), (), (byte, byte), (broken,))) if self.serial else (flipped,)
        return out
