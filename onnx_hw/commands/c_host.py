"""C header of a build, compiled and run, against the driver: frames, integers of results, and sessions with the chip.

No stage of a build needs the header, so no comparison sees a fault in it. So ``infer --check`` compiles it, lets it
make the driver's frames and read its results, and lets it speak to the simulated chip: over a good wire, and over one
that is dead at first and then hits bytes.
"""

from __future__ import annotations

import re
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

import onnx_hw_link
import onnx_hw_sim
from onnx_hw.messages.errors import ExitCode, user_error
from onnx_hw_link.c_header import c_header
from onnx_hw_link.errors import LinkError
from onnx_hw_link.frames import out_of_turns
from onnx_hw_link.host_model import HostModel
from onnx_hw_link.transport import TRANSPORTS
from onnx_hw_sim.serial_line import WireFaults
from onnx_hw_tools import tools
from onnx_hw_tools.process import ToolFailed

SESSION_FRAMES, TIMEOUT_MS, RETRY_MS = 6, 120_000, 1_000
"""Frames of a session, and milliseconds after which the host in C gives up, and asks again, on a simulated chip."""

BYTES_PER_HIT, DEAD_SECONDS = 60, 0.3
"""Bytes of a bad wire, on average, of which one is hit, and the time in which nothing arrives at the chip."""

HEADERS = (Path(onnx_hw_link.__file__).parent / "c", Path(onnx_hw_sim.__file__).parent)
"""Folders of the headers that the program includes."""

_ENTER = re.compile(r"static void (\w+_enter_(\w+))\(const (\w+) \*values, uint8_t \*frame\)")
_LEAVE = re.compile(r"static void (\w+_leave_\w+)\(const uint8_t \*results, int32_t \*values\)")
_KINDS = {"float": np.float32, "int32_t": np.int32}


@dataclass(frozen=True)
class CHostCheck:
    """Comparison of the host in C with the driver.

    Attributes:
        frames: frames that were made of samples, and sent.
        obstacle: why nothing was compared; empty where it was.
    """

    frames: int = 0
    obstacle: str = ""


def check_c_host(
    folder: Path,
    model: HostModel,
    frames: Sequence[Mapping[str, np.ndarray]],
    results: Sequence[bytes],
    port: str,
    latency: int | None,
) -> CHostCheck:
    """Compare the host in C with the driver.

    Args:
        folder: where it is compiled.
        frames: samples, by graph input.
        results: bytes that the chip gave for them, by the driver.
        port: name of the port of the simulated chip.
        latency: cycles of a frame alone; None if they are not known.

    Raises:
        UserError: exit code 4, the host in C differs.
    """
    try:
        header = c_header(model)
    except LinkError as error:
        return CHostCheck(obstacle=str(error))
    try:
        program = _compiled(folder, model, header)
    except ToolFailed as failed:
        raise _differs(f"the compiler refuses it; see {failed.log}") from None
    with _HostInC.started(program) as host:
        sent = [model.entering(frame)[0] for frame in frames]
        _compare_frames(host, model, header, frames, sent)
        _compare_integers(host, model)
        _compare_session(host, model, sent[:1], results[:1], port, WireFaults(0), latency)
        for faults in (WireFaults(0), WireFaults(1 / BYTES_PER_HIT, seed=5)):
            _compare_session(host, model, sent[:SESSION_FRAMES], results[:SESSION_FRAMES], port, faults)
    return CHostCheck(len(sent))


def _compiled(folder: Path, model: HostModel, header: str) -> Path:
    """Write the header and a program around it, and compile it; return the program."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "build.h").write_text(header, encoding="utf-8")
    source, program = folder / "host.c", folder.resolve() / "host"
    source.write_text(_program(model, header), encoding="utf-8")
    includes = (f"-I{folder}" for folder in HEADERS)
    options = ["-x", "c", "-std=c99", "-O1", "-o", program.name, source.name, *includes, "-lm"]
    tools.run(tools.find("c++"), options, cwd=folder, log=folder / "compiler.log")
    return program


def _program(model: HostModel, header: str) -> str:
    """Return the text of the program."""
    name = re.sub(r"\W", "_", model.name.lower(), flags=re.ASCII)
    link, enters, leaves = model.link, list[str](), list[str]()
    for k, (function, argument, kind) in enumerate(_ENTER.findall(header)):
        count = _elements(model, argument)
        enters += [
            f"case {k}: {{",
            f"    {kind} *values = room({count} * sizeof *values);",
            f"    get(values, {count} * sizeof *values);",
            f"    {function}(values, frame);",
            "    free(values);",
            "    break;\n}",
        ]
    for k, function in enumerate(_LEAVE.findall(header)):
        count = len(model.data["values_out"][k]["places"])
        leaves += [
            f"case {k}: {{",
            f"    int32_t *values = room({count} * sizeof *values);",
            f"    get(results, {link.output_bytes});",
            f"    {function}(results, values);",
            f"    put(values, {count} * sizeof *values);",
            "    free(values);",
            "    break;\n}",
        ]
    lines = [
        '#include "build.h"',
        '#include "c_host.h"',
        "int main(void) {",
        f"uint8_t *frame = room({link.input_bytes}), *results = room({link.output_bytes});",
        "for (;;) {",
        "char asked;",
        "get(&asked, 1);",
        "switch (asked) {",
        *("case 'e': switch (get_number()) {", *enters, "} break;"),
        *("case 'l': switch (get_number()) {", *leaves, "} break;"),
        f"case '!': put(frame, {link.input_bytes}); memset(frame, 0, {link.input_bytes}); break;",
        f"case '?': hold_session({name}_digest, {name.upper()}_INPUT_BYTES, {name.upper()}_OUTPUT_BYTES); break;",
        "default: return 3;",
        "}",
        "}",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _elements(model: HostModel, argument: str) -> int:
    return int(np.prod(_input_called(model, argument).shape))


def _input_called(model: HostModel, plain: str) -> Any:
    """Return the input of the model whose name C has as ``plain``."""
    return next(x for x in model.inputs if re.sub(r"\W", "_", x.name, flags=re.ASCII) == plain)


@dataclass
class _HostInC:
    """The program, while it runs."""

    process: subprocess.Popen[bytes] = field(repr=False)

    @classmethod
    @contextmanager
    def started(cls, program: Path) -> Iterator[_HostInC]:
        """Yield the program, and end it in any case."""
        process = subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            yield cls(process)
        except (BrokenPipeError, EOFError):
            raise _differs(f"it ended with {process.wait()}") from None
        finally:
            process.kill()
            process.communicate()

    def put(self, data: bytes) -> None:
        pipe = self._pipe(self.process.stdin)
        pipe.write(data)
        pipe.flush()

    def get(self, count: int) -> bytes:
        data = self._pipe(self.process.stdout).read(count)
        if len(data) < count:
            raise EOFError
        return data

    def put_number(self, number: int) -> None:
        self.put(struct.pack("=I", number % (1 << 32)))

    def get_number(self) -> int:
        number: int = struct.unpack("=I", self.get(4))[0]
        return number

    def session(
        self, frames: Sequence[bytes], output_bytes: int, wire: Any, hit: Callable[[bytes], bytes] | None
    ) -> tuple[int, int | None, bytes]:
        """Let it send frames over a wire; return its status, the cycles of the last frame, and all results.

        Args:
            hit: function that returns bytes after their way over a bad wire, once the session has begun; None for a
                good wire.
        """
        self.put(b"?")
        for number in (len(frames), int(time.monotonic() * 1e3) % 256, TIMEOUT_MS, RETRY_MS):
            self.put_number(number)
        self.put(b"".join(frames))
        begun, waiting, bad_since = time.monotonic(), bytearray(), None
        while (asked := self.get(1)) != b"r":
            if asked == b"o":
                bad_since = time.monotonic() if hit else None
                continue
            if asked == b"n":
                self.put_number(int((time.monotonic() - begun) * 1e3))
                continue
            to, most = self.get(self.get_number()), self.get_number()
            if hit and bad_since is not None:
                to = hit(to) if time.monotonic() - bad_since > DEAD_SECONDS else b""
            if to:
                wire.write(to)
            wire.timeout = 0.002
            if not waiting:
                came = wire.read(max(1, wire.in_waiting))
                waiting += hit(came) if hit and bad_since is not None else came
            self.put_number(len(waiting[:most]))
            self.put(bytes(waiting[:most]))
            del waiting[:most]
        status, known, cycles = self.get_number(), self.get_number(), self.get_number()
        return status, cycles if known else None, self.get(len(frames) * output_bytes)

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None
        return pipe


def _compare_frames(
    host: _HostInC, model: HostModel, header: str, frames: Sequence[Mapping[str, np.ndarray]], sent: Sequence[bytes]
) -> None:
    functions = _ENTER.findall(header)
    for number, (frame, wanted) in enumerate(zip(frames, sent, strict=True)):
        for k, (_, argument, kind) in enumerate(functions):
            values = np.asarray(frame[_input_called(model, argument).name])
            host.put(b"e")
            host.put_number(k)
            host.put(np.ascontiguousarray(values, dtype=_KINDS[kind]).tobytes())
        host.put(b"!")
        made = host.get(len(wanted))
        if made != wanted:
            at = next(k for k, (one, other) in enumerate(zip(made, wanted, strict=True)) if one != other)
            raise _differs(f"byte {at:,} of frame {number:,} is {made[at]:#04x}, and {wanted[at]:#04x} by the driver")


def _compare_integers(host: _HostInC, model: HostModel) -> None:
    """Compare the integers of drawn results, and of all bits 0 and 1."""
    link, generator = model.link, np.random.default_rng(1)
    drawn = [
        bytes(link.output_bytes),
        b"\xff" * link.output_bytes,
        *(generator.bytes(link.output_bytes) for _ in range(6)),
    ]
    for data in drawn:
        for k, (value, wanted) in enumerate(zip(model.data["values_out"], _integers(model, data), strict=True)):
            host.put(b"l")
            host.put_number(k)
            host.put(data)
            made = np.frombuffer(host.get(4 * len(wanted)), np.int32)
            if (made != wanted).any():
                at = int(np.flatnonzero(made != wanted)[0])
                raise _differs(f"integer {at:,} of `{value['value']}` is {made[at]}, and {wanted[at]} by the driver")


def _integers(model: HostModel, data: bytes) -> list[np.ndarray]:
    """Return the integers of each value that leaves the hardware, from the bytes of a frame's results."""
    beats = out_of_turns(model.link.outputs, model.link.output_turns, data)
    values = model.data["values_out"]
    return [beats[value["stream"]].reshape(-1)[np.array(value["places"])] for value in values]


def _compare_session(
    host: _HostInC,
    model: HostModel,
    sent: Sequence[bytes],
    results: Sequence[bytes],
    port: str,
    faults: WireFaults,
    latency: int | None = None,
) -> None:
    size, good = model.link.output_bytes, "a wire that hits bytes" if faults.share else "a good wire"
    loses = model.link_kind == "uart"  # a wire with a clock loses no byte
    wire = TRANSPORTS[model.link_kind](model.baud).open(port, TIMEOUT_MS / 1e3)
    try:
        hit = None if not faults.share else (lambda data: bytes(faults.on(data))) if loses else faults.flipped
        status, cycles, came = host.session(sent, size, wire, hit)
    finally:
        wire.close()
    if status:
        raise _differs(f"its session over {good} ends with the status {status}")
    for k, wanted in enumerate(results):
        pairs = zip(_integers(model, came[k * size : (k + 1) * size]), _integers(model, wanted), strict=True)
        if any((one != other).any() for one, other in pairs):
            raise _differs(f"over {good}, frame {k:,} has other results than by the driver")
    if latency is not None and cycles != latency:
        raise _differs(f"a frame alone takes {cycles} cycles, and {latency:,} by the firing law")


def _differs(what: str) -> Exception:
    return user_error(
        "c-header-differs",
        f"the C header must do what the driver does; {what}",
        hint="this is a bug of onnx-hw: please report it with the model",
        stage="link",
        exit_code=ExitCode.MISMATCH,
    )
