# amaranth: UnusedElaboratable=no
"""The chip's end of a link against the host's: every frame comes back once, in order, whatever the wire does."""

from __future__ import annotations

import random

import pytest

from onnx_hw_link.link import FromHost, Link, LinkPort
from onnx_hw_link.packets import to_wire
from support.link_bench import converse, sums

SMALL = Link(bytes(range(16)), (LinkPort("a", 5, 2, 8),), (LinkPort("b", 3, 1, 12),), 10**6, 128, 128)
WIDE = Link(
    bytes(16), (LinkPort("in", 3, 3, 11),), (LinkPort("out", 40, 2, 20),), 10**6, 256, 512
)  # results in two packets
LONG = Link(
    bytes(16), (LinkPort("a", 400, 1, 8),), (LinkPort("b", 1, 1, 8),), 10**6, 128, 128
)  # frames in several packets


def drawn(link: Link, count: int, seed: int) -> list[bytes]:
    return [random.Random(f"{seed} {k}").randbytes(link.input_bytes) for k in range(count)]


@pytest.mark.parametrize(
    ("link", "count", "share"),
    [(SMALL, 12, 0.0), (SMALL, 25, 0.02), (WIDE, 4, 0.0), (WIDE, 4, 0.003), (LONG, 2, 0.01)],
)
def test_every_frame_comes_back_once_and_in_order(link: Link, count: int, share: float) -> None:
    frames = drawn(link, count, 1)
    made = converse(link, frames, share, seed=5)
    assert [result.beats for result in made.results] == [sums(link, frame) for frame in frames]
    assert made.session is not None
    faults = made.session.faults
    if share:
        assert made.wire.bytes_hit and faults.broken + faults.missed
    else:
        assert (faults.broken, faults.missed, faults.silent, faults.resent) == (0, 0, 0, 0)


def test_the_chip_answers_with_what_it_is() -> None:
    made = converse(SMALL, drawn(SMALL, 1, 2))
    assert made.session is not None and made.session.greeting == SMALL.greeting


def test_frames_that_fit_take_equally_long() -> None:
    """10 bytes every other cycle; 5 beats in and 3 out of two bytes each, the sink as slow as the bytes are."""
    latencies = [result.latency_cycles for result in converse(SMALL, drawn(SMALL, 6, 3)).results]
    assert latencies[0] is not None
    assert set(latencies) - {None} == {latencies[0]}  # None: the chip still followed the frame before


def test_a_type_that_the_chip_does_not_have_is_answered() -> None:
    """Reserved ones and any other; the conversation goes on, and nothing of them reaches a frame."""
    frames, types = drawn(SMALL, 3, 4), (0, 5, 7, 8, 9, 0x81, 0xFF)
    strangers = b"".join(to_wire(bytes((kind, 77, 0, *range(4)))) for kind in types)
    made = converse(SMALL, frames, greeted=strangers)
    assert [result.beats for result in made.results] == [sums(SMALL, frame) for frame in frames]
    assert made.session is not None
    told = made.session.unknown
    assert told and set(told) <= {*types} and told[-1] == types[-1]  # while one is told, later ones take its place
    assert made.session.faults.broken == 0


@pytest.mark.parametrize("seed", range(2))
def test_garbage_leaves_nothing_behind(seed: int) -> None:
    """Random bytes, zeros among them, and a frame that another host never finished."""
    source = random.Random(seed)
    garbage = bytes(source.choice((0, 0, 1, 2, 3, source.randrange(256))) for _ in range(200))
    half = b"\0" + to_wire(bytes((FromHost.HELLO, 9, 0))) + to_wire(bytes((FromHost.DATA, 9, 0, 1, 2, 3)))
    frames = drawn(SMALL, 3, seed)
    made = converse(SMALL, frames, before=half + garbage if seed else garbage + half[:-3])
    assert made.hellos == 1
    assert [result.beats for result in made.results] == [sums(SMALL, frame) for frame in frames]
