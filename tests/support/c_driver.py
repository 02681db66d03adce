"""The C header, compiled for this machine, with the interface of the driver's ``Session``."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from onnx_hw_link.link import Link
from onnx_hw_link.session import FrameResult
from onnx_hw_tools import tools
from support.fixture_paths import CHECKOUT
from support.link_bench import Conversation

HEADERS = CHECKOUT / "boards" / "onnx_hw_link" / "c"
SOURCE = Path(__file__).with_name("c_driver.c")
LONGEST = 268
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", f"-I{HEADERS}")


def compile_c(*arguments: str, folder: Path) -> None:
    """Raises ToolMissing without a compiler, ToolFailed where it refuses."""
    tools.run(tools.find("c++"), [*STRICT, *arguments], cwd=folder, log=folder / "compiler.log")


@cache
def library() -> ctypes.CDLL:
    """See session_in_c.c."""
    folder = Path(tempfile.mkdtemp())
    made = folder / "session.so"
    compile_c("-x", "c", "-std=c99", "-O1", "-fPIC", "-shared", "-o", str(made), str(SOURCE), "-lm", folder=folder)
    c = ctypes.CDLL(str(made))
    pointer, size, u32 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
    for name, result, arguments in (
        ("open_link", pointer, []),
        ("size_of_link", size, []),
        ("init", None, [pointer, ctypes.c_char_p, u32, u32, u32]),
        ("hello", size, [pointer, ctypes.c_uint8, pointer]),
        ("offer", ctypes.c_int, [pointer, pointer, pointer]),
        ("receive", None, [pointer, ctypes.c_char_p, size]),
        ("transmit", size, [pointer, u32, pointer]),
        ("greeted", ctypes.c_int, [pointer]),
        ("refused", ctypes.c_int, [pointer]),
        ("finished", u32, [pointer]),
        ("faults", u32, [pointer]),
        ("to_wire", size, [pointer, ctypes.c_char_p, ctypes.c_char_p, size]),
        ("from_wire", size, [pointer, size]),
        ("quantize", ctypes.c_int32, [ctypes.c_float, ctypes.c_float, *[ctypes.c_int32] * 3]),
        ("dequantize", ctypes.c_float, [ctypes.c_int32, ctypes.c_float, ctypes.c_int32]),
        ("there_and_back", ctypes.c_int32, [pointer, u32, ctypes.c_int32, ctypes.c_uint, ctypes.c_int]),
        ("get", ctypes.c_int32, [pointer, u32, ctypes.c_uint, ctypes.c_int]),
        ("open_wire", ctypes.c_int, [pointer, pointer, ctypes.c_uint8, u32]),
        ("run_frame", ctypes.c_int, [pointer, pointer, ctypes.c_char_p, pointer, u32]),
        ("told", ctypes.c_char_p, [ctypes.c_int]),
    ):
        function = getattr(c, name)
        function.restype, function.argtypes = result, arguments
    return c


class SessionInC:
    """A link; of those in a process, one at a time."""

    def __init__(self, link: Link, retry: int = 100) -> None:
        self.c, self.link = library(), link
        self.handle = self.c.open_link()
        self.c.init(self.handle, link.digest, link.input_bytes, link.output_bytes, retry)
        self.results: list[FrameResult] = []
        self._given: list[tuple[object, ctypes.Array]] = []
        self._told = 0

    def hello(self, number: int) -> bytes:
        out = ctypes.create_string_buffer(LONGEST)
        size = self.c.hello(self.handle, number, out)
        return out.raw[:size]

    @property
    def unsent(self) -> int:
        """As many as keep a caller from offering where the link has no room."""
        return 2 if len(self._given) - self.c.finished(self.handle) == 4 else 0

    def offer(self, frame: bytes) -> None:
        self._given.append((ctypes.create_string_buffer(frame, len(frame)), (ctypes.c_char * self.link.output_bytes)()))
        assert self.c.offer(self.handle, *self._given[-1])

    def receive(self, data: bytes) -> None:
        self.c.receive(self.handle, data, len(data))
        while self._told < self.c.finished(self.handle):
            self.results.append(FrameResult(self._given[self._told][1].raw, None, 0))
            self._told += 1

    def transmit(self, now: float) -> bytes:
        out, sent = ctypes.create_string_buffer(LONGEST), bytearray()
        while size := self.c.transmit(self.handle, int(now), out):
            sent += out.raw[:size]
        return bytes(sent)


class ConversationInC(Conversation):
    """The same, with the C header for a host."""

    def _hear(self, packet: bytes) -> None:
        if self.session is None:
            self.greeter = getattr(self, "greeter", None) or SessionInC(self.link, int(self.retry))
            self.greeter.hello(77)
            self.greeter.receive(self.wire(packet))
            if self.greeter.c.greeted(self.greeter.handle):
                self.session = self.greeter  # type: ignore[assignment]  # it has what is asked of one
            return
        self.session.receive(self.wire(packet))


MOVE = ctypes.CFUNCTYPE(
    ctypes.c_size_t, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint8), ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint8),
    ctypes.c_size_t,
)  # fmt: skip
NOW = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)
GONE = ctypes.c_size_t(-1).value


class Io(ctypes.Structure):
    """``onnx_hw_link_io``."""

    _fields_ = (("move", MOVE), ("now_ms", NOW), ("wire", ctypes.c_void_p))

    @classmethod
    def of(cls, move: Callable[[bytes], bytes | None], now: Callable[[], float]) -> Io:
        """A wire: bytes there, bytes back (None: it is gone); and a clock."""
        waiting = bytearray()

        def moved(wire: object, to: ctypes._Pointer, count: int, back: ctypes._Pointer, most: int) -> int:
            came = move(bytes(to[:count]))
            if came is None:
                return GONE
            waiting.extend(came)
            taken = bytes(waiting[:most])
            del waiting[: len(taken)]
            ctypes.memmove(back, taken, len(taken))
            return len(taken)

        return cls(MOVE(moved), NOW(lambda wire: int(now())), None)
