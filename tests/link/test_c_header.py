# amaranth: UnusedElaboratable=no
"""The C header, compiled here: it speaks to the circuit as the driver does, and quantizes as the operators do."""

from __future__ import annotations

import ctypes
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnx_hw_link.host_operators import KNOWN
from onnx_hw_link.link import Link, LinkPort
from onnx_hw_link.packets import mirrored_cobs, to_wire, with_crc
from onnx_hw_link.session import hello
from onnx_hw_tools import tools
from support.c_driver import LONGEST, ConversationInC, Io, SessionInC, compile_c, library
from support.link_bench import converse, sums

try:
    tools.find("c++")
except tools.ToolMissing as missing:
    pytest.skip(str(missing), allow_module_level=True)

SMALL = Link(bytes(range(16)), (LinkPort("a", 5, 2, 8),), (LinkPort("b", 3, 1, 12),), 10**6, 128, 128)
WIDE = Link(
    bytes(16), (LinkPort("in", 70, 1, 11),), (LinkPort("out", 25, 2, 20),), 10**6, 128, 256
)  # several packets each


@pytest.mark.parametrize(
    ("link", "count", "share"),
    [(SMALL, 4, 0.0), (SMALL, 10, 0.02), pytest.param(WIDE, 2, 0.003, marks=pytest.mark.slow)],
)
def test_every_frame_comes_back_once_and_in_order(link: Link, count: int, share: float) -> None:
    frames = [random.Random(k).randbytes(link.input_bytes) for k in range(count)]
    made = converse(link, frames, share, seed=5, host=ConversationInC)
    assert [result.beats for result in made.results] == [sums(link, frame) for frame in frames]
    session = made.session
    assert isinstance(session, SessionInC)
    faults = session.c.faults(session.handle)
    assert faults if share else not faults


def test_packets_are_those_of_the_driver() -> None:
    """With zeros and runs of 254 at the ends and in the middle; what is broken is none."""
    source, c, out = random.Random(1), library(), ctypes.create_string_buffer(LONGEST)
    assert SessionInC(SMALL).hello(77) == hello(77)
    for size in (0, 1, 2, 200, 249, 250, 251, 252, 255, 256):
        for zeros in (0.0, 0.01, 0.3):
            body = bytes(0 if source.random() < zeros else source.randrange(1, 256) for _ in range(size))
            header = bytes((2, source.randrange(256), source.randrange(256)))
            sent = c.to_wire(out, header, body, size)
            assert out.raw[:sent] == to_wire(header + body)
            wire = mirrored_cobs(with_crc(header + body))
            came = ctypes.create_string_buffer(wire, LONGEST)
            taken = c.from_wire(came, len(wire))
            assert came.raw[:taken] == header + body
            at = source.randrange(len(wire))
            hit = wire[:at] + bytes((wire[at] % 255 + 1,)) + wire[at + 1 :]
            assert c.from_wire(ctypes.create_string_buffer(hit, LONGEST), len(hit)) == 0


def test_integers_are_those_of_the_operators() -> None:
    c, source = library(), np.random.default_rng(0)
    scale, zero = np.float32(0.0371), np.array(-3, dtype=np.int8)
    values = np.concatenate([(np.arange(-300, 300) / 2 * scale), source.normal(0, 3, 400), [1e30, -1e30, np.inf]])
    values = values.astype(np.float32)
    wanted = KNOWN["QuantizeLinear"][1](values, scale.reshape(()), zero)
    assert [c.quantize(x, scale, -3, -128, 127) for x in values] == wanted.tolist()
    back = KNOWN["DequantizeLinear"][1](wanted, scale.reshape(()), zero)
    assert [np.float32(c.dequantize(int(n), scale, -3)) for n in wanted] == back.tolist()
    assert c.quantize(float("nan"), scale, 0, -128, 127) == -128


@pytest.mark.parametrize("filler", [0x00, 0xFF])
def test_integers_of_every_width_at_every_bit(filler: int) -> None:
    """The bits of the neighbours stay what they are."""
    c = library()
    for bits in (*range(1, 18), 24, 31, 32):
        for signed in (0, 1):
            low = -(1 << (bits - 1)) if signed else 0
            ends = {low, low + (1 << bits) - 1, 0, min(5, low + (1 << bits) - 1)}
            for n in (n for n in ends if n < 1 << 31):
                for at in (0, 3, 7, 16):
                    frame = ctypes.create_string_buffer(bytes([filler] * 8), 8)
                    assert c.there_and_back(frame, at, n, bits, signed) == n
                    around = int.from_bytes(frame.raw, "little") >> at
                    assert around >> bits == int.from_bytes(bytes([filler] * 8), "little") >> (at + bits)
                    assert int.from_bytes(frame.raw, "little") % (1 << at) == (filler * 0x10101 % (1 << at))


def opened(answers: bytes | None, link: Link = SMALL) -> str:
    """What is told when a wire says this, whatever it is asked."""
    session, now = SessionInC(link), [0.0]

    def clock() -> float:
        now[0] += 1
        return now[0]

    io = Io.of(lambda to: answers, clock)
    status = session.c.open_wire(session.handle, ctypes.byref(io), 5, 300)
    assert now[0] < 400  # milliseconds
    told: bytes = session.c.told(status)
    return told.decode()


def greeting(payload: bytes) -> bytes:
    return b"".join(mirrored_cobs(with_crc(bytes((0x81, 0, 5 + k, 0)) + payload)) + b"\0" for k in range(3))


def test_each_failure_is_a_sentence() -> None:
    described = SMALL.greeting
    longer = described.to_bytes()[:21] + bytes((2, 17)) + described.to_bytes()[23:] + b"!" + b"\x63\x02ab"
    for answer in (described.to_bytes(), longer):
        assert opened(greeting(answer)) == ""
    assert "nothing answers" in opened(b"")
    assert "what answers is no packet" in opened(b"login: ")
    assert "another design" in opened(greeting(replace(described, digest=bytes(16)).to_bytes()))
    for status in (0, 2, 3, 5):
        assert "weights are missing or damaged" in opened(greeting(replace(described, status=status).to_bytes()))
    for other in (b"\1" + bytes(32), b"\3", described.to_bytes()[:5], described.to_bytes()[:-1]):
        assert "another version" in opened(greeting(other))
    assert "the wire is gone" in opened(None)


def test_damaged_weights_end_a_frame_that_is_under_way() -> None:
    """The chip says so unasked, after it was ready."""
    session, answers, now = SessionInC(SMALL), [SMALL.greeting, replace(SMALL.greeting, status=4)], [0.0]

    def clock() -> float:
        now[0] += 1
        return now[0]

    io = Io.of(lambda to: greeting(answers.pop(0).to_bytes()) if answers else b"", clock)
    assert session.c.open_wire(session.handle, ctypes.byref(io), 5, 300) == 0
    out = ctypes.create_string_buffer(SMALL.output_bytes)
    status = session.c.run_frame(session.handle, ctypes.byref(io), bytes(SMALL.input_bytes), out, 300)
    told: bytes = session.c.told(status)
    assert "weights are missing or damaged" in told.decode() and now[0] < 100


def test_it_is_also_cpp(tmp_path: Path) -> None:
    """Which sketches for microcontrollers are."""
    (tmp_path / "sketch.cpp").write_text('#include "onnx_hw_link.h"\nint main() { return 0; }\n')
    arguments = ("-x", "c++", "-std=c++11", "-fsyntax-only", "-Wno-unused-function", "sketch.cpp")
    compile_c(*arguments, folder=tmp_path)
