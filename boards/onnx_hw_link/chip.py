"""A chip behind a port: bytes of frames in, bytes of results out. No call blocks longer than its timeout.

What the bytes mean is ``onnx_hw_link.device``'s business.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from typing import Any

from onnx_hw_link.contents import Contents
from onnx_hw_link.errors import AnotherDesign, Garbled, LinkError, NoAnswer, NotReady, PortFailed, Stalled
from onnx_hw_link.greeting import PROTOCOL, ChipStatus, Greeting, OtherProtocol
from onnx_hw_link.link import FromChip
from onnx_hw_link.session import FrameResult, Session, hello, packets_of
from onnx_hw_link.transport import SerialTransport, Transport

__all__ = ["Chip"]

_GREETINGS = 3  # greetings that are sent before we give up, where nothing comes
_MOST_GREETINGS = 100  # greetings, where answers come that are hit on their way
_SHORTEST_ANSWER = 32  # bytes that no answer to a greeting is shorter than
_WINDOW = 20  # bytes on their way may take up to 20 times the time of a greeting and its answer
_LOOK = 0.005  # seconds between two looks at the port where nothing comes
_NOT_READY = {
    ChipStatus.WEIGHTS_DAMAGED: "its flash holds damaged weights, or those of another build: write them and load the "
    "bitstream (onnx-hw program DIR --flash)",
    ChipStatus.WEIGHTS_MISSING: "its weights are not loaded",
}
"""States of a chip that takes no frames, by their bit, the worst first."""


def _not_ready(port: str, state: str) -> str:
    return f"the chip at {port} must be ready for frames; {state}"


class Chip:
    """A chip that has answered.

    Args:
        port: port of the operating system, or ``auto``: the first one at which the design, or any, answers.
        baud: bits a second of a serial port.
        transport: the kind of port; None for a serial port with this ``baud``.
        digest: digest of the design that the chip must hold; None for any design.
        timeout: seconds without any news, after which a call fails.
        contents: contents of memories that the chip must hold; they are loaded if it holds others. None for any.

    Attributes:
        greeting: answer of the chip, which describes its design.
        loaded_bytes: bytes of contents that were loaded into it.

    Raises:
        LinkError: no chip answers, or the wrong one.
    """

    def __init__(
        self,
        port: str = "auto",
        *,
        baud: int,
        digest: bytes | None = None,
        timeout: float = 1.5,
        transport: Transport | None = None,
        contents: Contents | None = None,
    ) -> None:
        self.baud, self.digest, self.timeout, self.contents = baud, digest, timeout, contents
        self.loaded_bytes = 0
        self.transport = transport or SerialTransport(baud)
        self._wire: Any = None
        self._wire, self.session = self._found(port)
        self.port = str(self._wire.port)
        self.greeting = self.session.greeting
        if contents is not None and not contents.is_held_by(self.session.greeting):
            self._load(contents)
            self.greeting = self.session.greeting

    def __enter__(self) -> Chip:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the port back."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def stream(self, frames: Iterable[bytes]) -> Iterator[FrameResult]:
        """Yield the results of frames, in order, while later ones are sent.

        Raises:
            LinkError: the chip makes no more progress.
            ValueError: a frame has another size than the chip's.
        """
        source, session, ended = iter(frames), self.session, False
        while True:
            while not ended and session.unsent < 2:
                frame = next(source, None)
                if frame is None:
                    ended = True
                    break
                session.offer(frame)
            while session.results:
                yield session.results.popleft()
            if ended and not session.unanswered:
                self._write(session.transmit(time.monotonic()))  # the last acknowledgement
                return
            self._go_on()

    def _load(self, contents: Contents) -> None:
        """Load contents, and begin anew with them.

        Raises:
            LinkError: the chip makes no more progress, or then holds other contents.
        """
        try:
            self.session.load(contents.data, contents.digest)
            while self.session.loading:
                self._go_on()
            self.session = self._greet(self.port)
            if not contents.is_held_by(self.session.greeting):
                raise NotReady(
                    f"the chip at {self.port} must hold the weights {contents.digest.hex()} that were loaded; it holds "
                    f"{self.session.greeting.loaded.hex()}"
                )
        except BaseException:
            self.close()
            raise
        self.loaded_bytes = len(contents.data)

    def _go_on(self) -> None:
        """Send and receive until there is progress."""
        session, before, since = self.session, self.session.progress, time.monotonic()
        while session.progress == before:
            self._write(session.transmit(time.monotonic()))
            session.receive(self._read(_LOOK))
            if session.damaged:
                raise NotReady(_not_ready(self.port, _NOT_READY[ChipStatus.WEIGHTS_DAMAGED]))
            if session.unknown:
                raise AnotherDesign(
                    f"the chip at {self.port} must take packets of type 0x{session.unknown[0]:02x}, and does not: "
                    "build its bitstream again with this version of onnx-hw, and load it"
                )
            if time.monotonic() - since > self.timeout:
                frames, rest = divmod(session.acknowledged_bytes, self.greeting.input_bytes)
                faults = session.faults
                raise Stalled(
                    f"the chip at {self.port} must go forward within {self.timeout:g} s; it stalled behind byte "
                    f"{rest:,} of frame {frames:,}, with {session.unanswered:,} results to come "
                    f"({faults.broken:,} broken packets, {faults.silent:,} silences so far): is it still connected "
                    "and powered?"
                )

    # ---- greeting ---------------------------------------------------------------------------------------------------

    def _found(self, port: str) -> tuple[Any, Session]:
        if port != "auto":
            return self._greeted(port)
        failures: list[str] = []
        for name in self.transport.ports():
            try:
                return self._greeted(name)
            except LinkError as error:
                failures.append(str(error))
        if not failures:
            name = self.transport.name
            raise PortFailed(f"there must be a {name} with a board; this machine has none: name it with --port")
        raise NoAnswer(f"a chip must answer at one of the {self.transport.name}s: {'; '.join(failures)}")

    def _greeted(self, port: str) -> tuple[Any, Session]:
        self._wire = wire = self.transport.open(port, self.timeout)
        try:
            return wire, self._greet(port)
        except BaseException:
            self.close()
            raise

    def _greet(self, port: str) -> Session:
        """Begin a session; raise ``LinkError`` where none begins."""
        heard, number = 0, random.randrange(256)
        end = time.monotonic() + self.timeout
        for _ in range(_MOST_GREETINGS):
            begun = time.monotonic()
            if begun >= end:
                break
            number = (number + 1) % 256
            came, before, broken = bytearray(), heard, False
            self._write(hello(number))
            while time.monotonic() < min(end, begun + self.timeout / _GREETINGS) and not broken:
                data = self._read(_LOOK)
                heard += len(data)
                came += data
                for packet in packets_of(came):
                    # perhaps the answer: ask again at once
                    broken |= packet is None and heard - before > _SHORTEST_ANSWER
                    if packet and packet[0] == FromChip.HELLO and len(packet) > 4 and packet[2] == number:
                        took = time.monotonic() - begun
                        retry = min(max(0.1, _WINDOW * took), self.timeout / 4)
                        return Session(self._checked(port, packet[4:]), number, retry)
        if heard:
            raise Garbled(
                f"{port} must answer in packets; {heard:,} bytes came, and no packet: is {self.baud:,} baud what "
                "the chip was built for, and is it the port of the board?"
            )
        raise NoAnswer(
            f"a chip must answer at {port} within {self.timeout:g} s; nothing came: is the board connected and "
            "powered, and its bitstream loaded (onnx-hw program)?"
        )

    def _checked(self, port: str, payload: bytes) -> Greeting:
        try:
            greeting = Greeting.from_bytes(payload)
        except OtherProtocol as other:
            older = "build its bitstream again with this version of onnx-hw, and load it"
            newer = "use the version of onnx-hw that built its bitstream"
            raise AnotherDesign(
                f"the chip at {port} must speak version {PROTOCOL} of the protocol; it speaks version "
                f"{other.version}: {older if other.version < PROTOCOL else newer}"
            ) from other
        except ValueError as error:
            raise Garbled(f"the chip at {port} must say what it is; it sent {error}") from error
        if self.digest is not None and greeting.digest != self.digest:
            raise AnotherDesign(
                f"the chip at {port} must hold the design {self.digest.hex()}; it holds {greeting.digest.hex()}: load "
                "the bitstream of this build (onnx-hw program)"
            )
        if self.contents is not None and greeting.load_bytes == len(self.contents.data):
            return greeting  # whatever it holds, it can be loaded
        for bit, state in _NOT_READY.items():
            if greeting.status & bit:
                raise NotReady(_not_ready(port, state))
        if not greeting.status & ChipStatus.READY:
            raise NotReady(f"the chip at {port} must be ready for frames; its status is 0x{greeting.status:04x}")
        return greeting

    # ---- the wire ---------------------------------------------------------------------------------------------------

    def _read(self, seconds: float) -> bytes:
        """Return the bytes that have come; wait at most ``seconds`` for the first one."""
        wire = self._wire
        try:
            wire.timeout = seconds
            first: bytes = wire.read(max(1, wire.in_waiting))
            return first + (wire.read(wire.in_waiting) if wire.in_waiting else b"")
        except (OSError, TypeError, ValueError) as error:
            raise PortFailed(f"{wire.port} must stay connected; it went away: {error}") from error

    def _write(self, data: bytes) -> None:
        if not data:
            return
        try:
            self._wire.write(data)
        except OSError as error:
            raise PortFailed(f"{self._wire.port} must stay connected and take what is sent: {error}") from error
