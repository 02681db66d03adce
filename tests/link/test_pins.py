# amaranth: UnusedElaboratable=no
"""The driver that users run, against a whole chip, simulated bit by bit behind a port of the operating system."""

from __future__ import annotations

import ctypes
import os
import random
import threading
import time
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from onnx_hw.assemble.elaborate import to_rtlil
from onnx_hw.schedule.link_bandwidth import frames_a_second
from onnx_hw_boards.links.uart import Uart
from onnx_hw_link.chip import Chip
from onnx_hw_link.errors import AnotherDesign, Garbled, LinkError, NoAnswer, PortFailed, Stalled
from onnx_hw_link.link import FromChip, FromHost, Link, LinkPort
from onnx_hw_link.packets import to_wire
from onnx_hw_link.session import Session, hello, packets_of
from onnx_hw_rtl.shells.shell import Shell
from onnx_hw_rtl.shells.uart_shell import UartShell
from onnx_hw_sim.pseudo_terminal import PseudoTerminal
from onnx_hw_sim.serial_line import BREAK, SerialChip, WireFaults
from support.c_driver import Io, SessionInC
from support.link_bench import Sums, sums

LINK = Link(bytes(range(16)), (LinkPort("a", 16, 2, 8),), (LinkPort("b", 5, 1, 12),), 10**6)
DIVISOR, BAUD = 4, 250_000
FRAMES = [random.Random(k).randbytes(LINK.input_bytes) for k in range(40)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chip")


def simulated(folder: Path) -> SerialChip:
    return SerialChip(to_rtlil(Shell(UartShell(Sums(LINK), LINK, DIVISOR))), DIVISOR, folder)


@pytest.mark.parametrize("share", [0.0, 0.002])
def test_every_frame_comes_back(folder: Path, share: float) -> None:
    faults = WireFaults(share, seed=4)
    with (
        PseudoTerminal(simulated(folder), faults) as port,
        Chip(port.path, baud=BAUD, digest=LINK.digest, timeout=20) as d,
    ):
        assert d.greeting == LINK.greeting
        results = list(d.stream(FRAMES))
        assert [result.beats for result in results] == [sums(LINK, frame) for frame in FRAMES]
        assert len({result.latency_cycles for result in results} - {None}) == 1 or share
        assert port.error is None
        assert not share or (faults.hit and d.session.faults != type(d.session.faults)())


@pytest.mark.parametrize("size", [64, 784], ids=["digits", "mnist"])
def test_the_stated_rate_of_a_link_is_that_of_the_line(size: int, tmp_path: Path) -> None:
    """Frames of a size come as fast as the line carries them: within a percent of what a report states."""
    link = Link(bytes(16), (LinkPort("a", size, 1, 8),), (LinkPort("b", 10, 1, 8),), 24_000_000)
    chip = SerialChip(to_rtlil(Shell(UartShell(Sums(link), link, DIVISOR))), DIVISOR, tmp_path)
    to, session, wanted = list(hello(5)), Session(link.greeting, 5), 16
    chip.run(1_000, [])  # its reset
    _, answer = chip.run(20_000, to)
    assert packets_of(bytearray(answer))
    to, ended = [], list[int]()
    for _ in range(wanted):
        session.offer(random.Random(1).randbytes(size))
    while len(ended) < wanted:
        to += session.transmit(chip.cycle / link.clock_hz)
        sent, came = chip.run(200, to)
        del to[:sent]
        session.receive(came)
        ended += [session.results.popleft().ended for _ in range(len(session.results))]
    chip.close()
    cycles = (ended[-2] - ended[3]) / (wanted - 5)
    stated = frames_a_second(link.input_bytes, link.output_bytes, Uart(link.clock_hz // DIVISOR))
    assert link.clock_hz / cycles == pytest.approx(stated, rel=0.01)


def test_a_tcp_port_where_the_system_has_no_terminals(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "openpty")
    with PseudoTerminal(simulated(folder)) as port:
        assert port.path.startswith("socket://127.0.0.1:")
        for _ in range(2):  # a second program, after the first has hung up
            with Chip(port.path, baud=BAUD, digest=LINK.digest, timeout=20) as d:
                assert [result.beats for result in d.stream(FRAMES[:4])] == [sums(LINK, each) for each in FRAMES[:4]]
        assert port.error is None


def test_a_host_that_dies_in_mid_frame_leaves_nothing_behind(folder: Path) -> None:
    with PseudoTerminal(simulated(folder)) as port:
        for part in (FRAMES[:3], FRAMES[3:6]):
            with Chip(port.path, baud=BAUD, timeout=20) as d:
                found = [result.beats for result in d.stream(part)]
                assert found == [sums(LINK, frame) for frame in part]
                d.session.offer(FRAMES[9])
                d._write(d.session.transmit(0.0)[:20])  # and no more


@pytest.mark.parametrize("share", [0.0, 0.002])
def test_the_c_header_at_the_same_pins(folder: Path, share: float) -> None:
    """Frame after frame by its own loop; milliseconds are thousands of cycles."""
    chip, faults, session = simulated(folder), WireFaults(share, seed=7), SessionInC(LINK)
    waiting: list[int] = []

    def move(to: bytes) -> bytes:
        waiting.extend(faults.on(to, (BREAK,)))
        begun, came = chip.run(100 * DIVISOR, waiting)
        del waiting[:begun]
        return bytes(faults.on(came))

    io = Io.of(move, lambda: chip.cycle / 1000)
    assert session.c.open_wire(session.handle, ctypes.byref(io), 3, 1500) == 0
    for frame in FRAMES:
        out = ctypes.create_string_buffer(LINK.output_bytes)
        assert session.c.run_frame(session.handle, ctypes.byref(io), frame, out, 1500) == 0
        assert out.raw == sums(LINK, frame)
    assert bool(share) == bool(session.c.faults(session.handle))


def garbage(source: random.Random) -> list[int]:
    """Bytes of no sense, or of some: breaks, packets that end too soon, or whose CRC is wrong."""
    out: list[int] = []
    for _ in range(source.randrange(1, 5)):
        packet = to_wire(bytes((source.choice(list(FromHost)), source.randrange(3), 0)) + source.randbytes(32))
        hit = source.randrange(1, len(packet))
        noise = [source.choice((0, 1, BREAK, source.randrange(256))) for _ in range(source.randrange(30))]
        out += source.choice((noise, list(packet[:hit]), [*packet[: hit - 1], packet[hit - 1] ^ 64, *packet[hit:]]))
    return out


@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(30, 300), marks=pytest.mark.slow)], ids=len)
def test_no_garbage_keeps_the_chip_from_answering_or_reaches_a_frame(seeds: range, folder: Path) -> None:
    chip = simulated(folder)

    def heard(to: list[int]) -> list[bytes]:
        """Packets that come until the line is quiet."""
        came = bytearray()
        while to or not came.endswith(b"\0"):
            sent, more = chip.run(DIVISOR * 10 * (len(to) + 60), to)
            del to[:sent]
            came += more
            if not more:
                break
        return [packet for packet in packets_of(came) if packet is not None]

    for seed in seeds:
        source = random.Random(seed)
        heard(garbage(source))
        number, frame = seed % 256, source.randbytes(LINK.input_bytes)
        greetings = (heard(list(hello(number))) for _ in range(3))
        assert any(any(p[0] == FromChip.HELLO and p[2] == number for p in packets) for packets in greetings), seed
        data = to_wire(bytes((FromHost.DATA, number, 0)) + frame)
        results = [packet[4:] for packet in heard(list(data)) if packet[0] == FromChip.RESULT]
        assert [result[: LINK.output_bytes] for result in results] == [sums(LINK, frame)], seed
    chip.close()


@pytest.fixture
def nobody() -> Iterator[tuple[int, str]]:
    """A port without a chip: (descriptor of the other end, path)."""
    master, slave = os.openpty()
    tty.setraw(slave)
    yield master, os.ttyname(slave)
    for descriptor in (master, slave):
        os.close(descriptor)


def failure(kind: type[LinkError], *arguments: object, **options: object) -> str:
    """The sentence with which opening a device fails, within two seconds."""
    begun = time.monotonic()
    with pytest.raises(kind) as caught:
        Chip(*arguments, **options)
    assert time.monotonic() - begun < 2 + 1  # one for a machine that is busy
    return str(caught.value)


def test_nothing_answers(nobody: tuple[int, str]) -> None:
    said = failure(NoAnswer, nobody[1], baud=BAUD)
    assert said == (
        f"a chip must answer at {nobody[1]} within 1.5 s; nothing came: is the board connected and powered, and its "
        "bitstream loaded (onnx-hw program)?"
    )


def test_something_answers_that_is_no_chip(nobody: tuple[int, str]) -> None:
    threading.Timer(0.3, os.write, (nobody[0], b"login: \x80\0\0\xff")).start()
    said = failure(Garbled, nobody[1], baud=BAUD)
    assert "11 bytes came, and no packet: is 250,000 baud what the chip was built for" in said


def test_there_is_no_such_port() -> None:
    assert "the port /dev/nowhere must be there and free" in failure(PortFailed, "/dev/nowhere", baud=BAUD)


def test_another_design_and_a_second_process(folder: Path) -> None:
    with PseudoTerminal(simulated(folder)) as port:
        said = failure(AnotherDesign, port.path, baud=BAUD, digest=bytes(16))
        assert f"the design {'00' * 16}; it holds {LINK.digest.hex()}" in said
        with Chip(port.path, baud=BAUD):
            assert "another process uses it" in failure(PortFailed, port.path, baud=BAUD)


def test_unplugged_in_mid_run(folder: Path) -> None:
    port = PseudoTerminal(simulated(folder))
    with Chip(port.path, baud=BAUD) as d:
        results = d.stream(FRAMES * 100)
        assert [next(results).beats for _ in range(3)] == [sums(LINK, frame) for frame in FRAMES[:3]]
        port.close()
        with pytest.raises((PortFailed, Stalled), match=r"must stay connected|is it still connected"):
            list(results)
