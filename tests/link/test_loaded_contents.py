# amaranth: UnusedElaboratable=no
"""Contents of memories that a host loads over the pins of a simulated chip, whatever the wire does to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.assemble.elaborate import to_rtlil
from onnx_hw_link.chip import Chip
from onnx_hw_link.contents import Contents
from onnx_hw_link.errors import AnotherDesign, LinkError, NotReady
from onnx_hw_link.greeting import ChipStatus, Greeting
from onnx_hw_link.link import FromChip, FromHost, Link, LoadArea
from onnx_hw_link.packets import to_wire
from onnx_hw_link.session import Session, hello, packets_of
from onnx_hw_rtl.link.loader import ContentsLoader
from onnx_hw_rtl.parts.constant_memory import LoadedMemory
from onnx_hw_rtl.shells.shell import Shell
from onnx_hw_rtl.shells.uart_shell import UartShell
from onnx_hw_sim.pseudo_terminal import PseudoTerminal
from onnx_hw_sim.serial_line import SerialChip, WireFaults
from support.loaded_words import LoadedWords, contents_of, drawn_words, link_of, places_of, result_of

SHAPES = ((44, 12), (24, 20), (8, 64), (5, 16), (1, 9))
WIDE = ((100, 12), (17, 9), (3, 33))
DIVISOR, BAUD = 4, 250_000
FEWEST = 9
"""Words that every memory has."""


class Bench:
    """A simulated chip, and the contents that it was configured with."""

    def __init__(self, shapes: tuple[tuple[int, int], ...], folder: Path) -> None:
        self.shapes, self.folder = shapes, folder
        self.places, area = places_of(shapes)
        self.first = drawn_words(shapes, 0)
        held = contents_of(self.first, self.places, area)
        self.area = LoadArea(area.size, area.address_bits, area.word_bytes, held.digest)
        self.link: Link = link_of(shapes, self.area)

    def chip(self) -> SerialChip:
        network = LoadedWords(self.link, self.first, self.shapes, self.places)
        return SerialChip(to_rtlil(Shell(UartShell(network, self.link, DIVISOR))), DIVISOR, self.folder)

    def contents(self, words: list[list[int]]) -> Contents:
        return contents_of(words, self.places, self.area)

    def read(self, chip: Chip, words: list[list[int]]) -> None:
        """Read all words that every memory has, and compare them."""
        frames = [address.to_bytes(2, "little") for address in range(FEWEST)]
        results = [result.beats for result in chip.stream(frames)]
        assert results == [result_of(words, self.link, address) for address in range(FEWEST)]

    def open(self, port: str, words: list[list[int]] | None, timeout: float = 20) -> Chip:
        contents = None if words is None else self.contents(words)
        return Chip(port, baud=BAUD, digest=self.link.digest, timeout=timeout, contents=contents)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(SHAPES, tmp_path_factory.mktemp("chip"))


@pytest.mark.parametrize("share", [0.0, 0.004])
def test_contents_are_loaded_between_frames(bench: Bench, share: float) -> None:
    """Also over a wire that hits bytes: nothing else than the new words, and none of them twice."""
    with PseudoTerminal(bench.chip(), WireFaults(share, seed=3)) as port:
        with bench.open(port.path, bench.first) as chip:
            assert chip.loaded_bytes == 0  # it holds them already
            bench.read(chip, bench.first)
        for seed in (1, 2, 2, 3):
            words = drawn_words(SHAPES, seed)
            with bench.open(port.path, words) as chip:
                assert chip.greeting.loaded == bench.contents(words).digest
                bench.read(chip, words)
        with bench.open(port.path, None) as chip:  # any contents
            assert chip.greeting.loaded == bench.contents(words).digest and chip.loaded_bytes == 0
            bench.read(chip, words)
        assert port.error is None


def test_wide_words(tmp_path: Path) -> None:
    bench = Bench(WIDE, tmp_path)
    with PseudoTerminal(bench.chip()) as port, bench.open(port.path, drawn_words(WIDE, 5)) as chip:
        bench.read(chip, drawn_words(WIDE, 5))


def test_a_host_that_dies_while_it_loads(bench: Bench) -> None:
    """The chip takes no frames then; the next host loads again."""
    words = drawn_words(SHAPES, 4)
    with PseudoTerminal(bench.chip()) as port:
        with bench.open(port.path, None) as chip:
            contents = bench.contents(words)
            chip.session.load(contents.data, contents.digest)
            chip._write(chip.session.transmit(0.0)[:200])
            chip._read(0.2)
        with pytest.raises(NotReady, match="its weights are not loaded"):
            bench.open(port.path, None)
        with bench.open(port.path, words) as chip:
            bench.read(chip, words)


def test_other_contents_than_the_chip_takes_are_refused(bench: Bench) -> None:
    with PseudoTerminal(bench.chip()) as port:
        with bench.open(port.path, None) as chip, pytest.raises(ValueError, match="must have"):
            chip.session.load(bytes(16), bytes(16))
        with pytest.raises(LinkError):
            Chip(port.path, baud=BAUD, digest=bytes(16), timeout=2, contents=bench.contents(bench.first))


def conversation(bench: Bench, packets: list[bytes]) -> list[bytes]:
    """Send packets of a session with the number 7, one after the other, and return the chip's."""
    chip, came = bench.chip(), bytearray()
    chip.run(1000, [])  # in reset
    to = list(hello(7)) + [byte for packet in packets for byte in packet]
    for _ in range(40):
        sent, more = chip.run(DIVISOR * 10 * (len(to) + 60), to)
        del to[:sent]
        came += more
    chip.close()
    return [packet for packet in packets_of(came) if packet is not None]


def load(number: int, payload: bytes, kind: FromHost = FromHost.LOAD) -> bytes:
    return to_wire(bytes((kind, number, 0)) + payload)


def test_no_byte_is_written_before_loading_begins(bench: Bench) -> None:
    """A packet of data whose type is hit becomes one of contents; its bytes change no memory, and its CRC is wrong."""
    frame = bytes((3, 0))
    data = bytearray(load(7, frame, FromHost.DATA))
    hit = bytes([data[0], data[1] ^ 4]) + bytes(data[2:])  # DATA becomes COMMIT
    long = bytearray(load(7, bytes(range(1, 200)), FromHost.DATA))
    other = bytes([long[0], long[1] ^ 7]) + bytes(long[2:])  # DATA becomes LOAD
    packets = conversation(bench, [hit, other, load(7, frame, FromHost.DATA)])
    results = [packet for packet in packets if packet[0] == FromChip.RESULT]
    assert [packet[4 : 4 + bench.link.output_bytes] for packet in results] == [result_of(bench.first, bench.link, 3)]


def test_no_frame_is_taken_while_contents_come(bench: Bench) -> None:
    digest = bench.contents(bench.first).digest
    frame = load(8, bytes((3, 0)), FromHost.DATA)
    packets = conversation(
        bench, [load(7, b""), frame, load(8, digest, FromHost.COMMIT), load(9, b"\3\0", FromHost.DATA)]
    )
    kinds = [packet[0] for packet in packets]
    assert FromChip.LOADED in kinds and FromChip.MISSING in kinds
    results = [packet for packet in packets if packet[0] == FromChip.RESULT]
    assert [packet[4 : 4 + bench.link.output_bytes] for packet in results] == [result_of(bench.first, bench.link, 3)]


def test_noise_without_end_stays_behind_the_contents(bench: Bench) -> None:
    """After a session has begun to load, thousands of bytes come that end no packet; then all is loaded anew."""
    words = drawn_words(SHAPES, 8)
    contents = bench.contents(words)
    noise = load(8, bytes([9] * 200))[:-3] + bytes([7]) * 3000
    again = [hello(7), load(7, b"")]
    pieces = [contents.data[at : at + 256] for at in range(0, len(contents.data), 256)]
    again += [load(8 + k, piece) for k, piece in enumerate(pieces)]
    last = 8 + len(pieces)
    again += [load(last, contents.digest, FromHost.COMMIT), load(last + 1, b"\2\0", FromHost.DATA)]
    packets = conversation(bench, [load(7, b""), noise, b"\0", *again])
    results = [packet for packet in packets if packet[0] == FromChip.RESULT]
    assert [packet[4 : 4 + bench.link.output_bytes] for packet in results] == [result_of(words, bench.link, 2)]


@pytest.mark.parametrize("broken", ["stride", "address", "digest", "loading"])
def test_a_broken_loader_is_noticed(bench: Bench, broken: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each of them makes the test of all words fail, so it can."""
    words = drawn_words(SHAPES, 6)
    original, keep = LoadedMemory.__init__, ContentsLoader._keep_digest

    def misplaced(self, width, its_words, bus, place):  # type: ignore[no-untyped-def]
        change = {"base": place.base ^ 64} if broken == "address" else {}
        original(self, width, its_words, bus, type(place)(**{"base": place.base, "stride": place.stride, **change}))
        if broken == "stride":
            self.place = type(place)(place.base, 1)

    if broken in ("address", "stride"):
        monkeypatch.setattr(LoadedMemory, "__init__", misplaced)
    elif broken == "digest":
        monkeypatch.setattr(ContentsLoader, "_keep_digest", lambda self, m: keep(_of_area(self), m))
    else:
        monkeypatch.setattr(Session, "load", lambda self, data, digest: self._loads.append((FromHost.COMMIT, digest)))
    changed = Bench(SHAPES, tmp_path)
    with (
        PseudoTerminal(changed.chip()) as port,
        pytest.raises((AssertionError, LinkError)),
        changed.open(port.path, words, timeout=3) as chip,
    ):
        changed.read(chip, words)


def _of_area(loader: ContentsLoader) -> ContentsLoader:
    """Return a loader whose digest is in another place."""
    area = loader.area
    loader.area = LoadArea(area.size - 16, area.address_bits, area.word_bytes, area.digest)
    return loader


GREETINGS = st.builds(
    Greeting,
    st.binary(min_size=16, max_size=16),
    *[st.integers(0, (1 << 32) - 1)] * 3,
    *[st.integers(0, (1 << 16) - 1)] * 2,
    status=st.integers(0, (1 << 16) - 1),
    load_bytes=st.integers(1, (1 << 32) - 1),
    loaded=st.binary(min_size=16, max_size=16),
)


@given(GREETINGS)
def test_a_greeting_says_what_is_loaded(greeting: Greeting) -> None:
    assert Greeting.from_bytes(greeting.to_bytes()) == greeting


@given(st.binary(min_size=32, max_size=512).filter(lambda data: len(data) % 16 == 0))
@settings(max_examples=30)
def test_contents_are_named_by_their_digest(data: bytes) -> None:
    contents = Contents.of(data)
    greeting = Greeting(bytes(16), 1, 1, 1, 1, 1, load_bytes=len(data), loaded=contents.digest)
    assert contents.is_held_by(greeting)
    missing = Greeting(bytes(16), 1, 1, 1, 1, 1, ChipStatus.WEIGHTS_MISSING, len(data), contents.digest)
    assert not contents.is_held_by(missing) and Contents.of(data[::-1] + b"x").digest != contents.digest


def test_a_chip_without_loaded_memories_refuses_contents(tmp_path: Path) -> None:
    """Its answer is that it does not have the type of such packets."""
    bench = Bench(SHAPES, tmp_path)
    plain = Link(bench.link.digest, bench.link.inputs, bench.link.outputs, bench.link.clock_hz)

    class Plain(LoadedWords):
        pass

    network = Plain(bench.link, bench.first, SHAPES, bench.places)
    chip = SerialChip(to_rtlil(Shell(UartShell(network, plain, DIVISOR))), DIVISOR, tmp_path)
    with PseudoTerminal(chip) as port, pytest.raises((AnotherDesign, ValueError)):
        bench.open(port.path, bench.first, timeout=3)
