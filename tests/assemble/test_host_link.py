# amaranth: UnusedElaboratable=no
"""Designs behind a link: frames come back as golden has them, and the design is as fast as the link, no faster."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import takewhile

import numpy as np
import pytest
from amaranth.hdl import Module, ResetInserter
from amaranth.sim import Simulator

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.elaborate import assemble
from onnx_hw.assemble.host_link import link_of
from onnx_hw.assemble.netlist import netlist_of
from onnx_hw.exact.integers import Int
from onnx_hw.ir import golden
from onnx_hw.ir.design import Design, Edge
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.add import Add
from onnx_hw.ops.argmax import ArgMax, ArgMaxFolding
from onnx_hw.ops.concat import Concat
from onnx_hw.ops.folding import EvenFolding, SlidingFolding
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule.link_bandwidth import frames_a_second, most_frames_a_second
from onnx_hw.schedule.schedule_for_board import clock_of, schedule_for_board
from onnx_hw.timing.link_times import BehindALink
from onnx_hw_boards.linked_board import LinkedBoard, Uart
from onnx_hw_link.link import Link
from onnx_hw_link.session import FrameResult
from onnx_hw_rtl.link.endpoint import LinkEnd
from onnx_hw_rtl.streams.beats import BeatArbiter
from support.design_bench import random_frames
from support.fixture_paths import EXAMPLES
from support.hand_built_designs import Sketch, alone, unequal_branches
from support.link_bench import Conversation, Wire
from support.targets import on_board

FORK = alone(Fork(Tensor((2, 2, 3), Int(11))), (2, 2), 1)
"""One stream in, two out, whose FIFOs hold a beat: their beats have to leave in turns."""


def paths() -> Design:
    """A window of one input, joined with another one: of the first, some rows are needed before any of the other."""
    sketch, x, y = Sketch(), Tensor((12, 4, 1), Int(3)), Tensor((12, 4, 9), Int(3))
    window = Window(x, (3, 3), (1, 1), (1, 1, 1, 1))
    (columns,) = sketch.add("window", window, [sketch.input("x", x)], SlidingFolding(1, 9), 2)
    sketch.add("sum", Add(y, y), [columns, sketch.input("y", y)], (9,), 2)
    return sketch.design()


A, B = Tensor((2, 3, 2), Int(5)), Tensor((2, 3, 5), Int(11))


def scores_and_label() -> Design:
    """Scores of three classes, and the greatest of them: what leaves first is not what a graph has first."""
    sketch, x = Sketch(), Tensor((1, 1, 3), Int(8))
    copies = sketch.add("fork", Fork(x), [sketch.input("x", x)], (1, 1), 4, 4)
    sketch.add("label", ArgMax(x), [copies[0]], ArgMaxFolding(1), 2)
    design = sketch.design()
    return replace(design, network=replace(design.network, outputs=design.network.outputs[::-1]))


SEVERAL = {
    "at once": (alone(Add(A, A), (1,), 1), 2),
    "by channels": (alone(Concat((A, B), 2), EvenFolding(1), 1), 2),
    "one behind the other": (alone(Concat((A, A, A), 0), EvenFolding(2), 1), 3),
    "weights first": (alone(MatMul(A, Tensor((1, 3, 2), Int(3))), MatMulFolding(1, 1), 1), 2),
    "no rhythm": (paths(), BeatArbiter.MAX_TURNS_IN_LOGIC + 1),
}
"""Several streams in, and how many turns of theirs have to be kept at least."""


def board(name: str) -> LinkedBoard:
    found = find_board(name)
    assert isinstance(found, LinkedBoard)
    return found


def as_bits(edge: Edge, values: np.ndarray) -> list[list[str]]:
    """By frame, its beats; the first bit is the lowest one of the first integer."""
    size = edge.type.dtype.bits
    beats = edge.order.to_beats(values)
    text = ["".join(f"{int(place) % (1 << size):0{size}b}"[::-1] for place in beat) for beat in beats]
    return [text[k : k + edge.beats] for k in range(0, len(text), edge.beats)]


def through(design: Design, link: Link, frames: list[bytes]) -> tuple[list[FrameResult], list[int]]:
    """What comes back from the design's circuit behind its end of the link; when beats of the first input came."""
    m = Module()
    m.submodules.end = end = LinkEnd(link)
    network = assemble(design)[0]
    m.submodules.network = ResetInserter(end.restart)(network)
    for side, source, sink in ((link.inputs, end, network), (link.outputs, network, end)):
        for port in side:
            for part in ("payload", "valid"):
                m.d.comb += getattr(sink, f"{port.name}_{part}").eq(getattr(source, f"{port.name}_{part}"))
            m.d.comb += getattr(source, f"{port.name}_ready").eq(getattr(sink, f"{port.name}_ready"))
    first, comes = link.inputs[0].name, []

    async def watch(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        cycle, waits = 0, False
        sampled = context.tick().sample(getattr(end, f"{first}_valid"), getattr(end, f"{first}_ready"))
        async for _, _, valid, ready in sampled:
            if valid and not waits:
                comes.append(cycle)
            cycle, waits = cycle + 1, bool(valid and not ready)

    talk, simulator = Conversation(link, frames, Wire(0.0, random.Random(1)), most=20_000), Simulator(m)
    simulator.add_process(watch)
    return talk.run(end, simulator).results, comes


def in_turns(beats: list[list[list[str]]], turns: tuple[tuple[int, int], ...]) -> list[bytes]:
    """Frames on the wire, of the beats by stream and frame."""
    frames = []
    for frame in range(len(beats[0])):
        left = [iter(of_stream[frame]) for of_stream in beats]
        bits = "".join(next(left[k]) for k, count in turns for _ in range(count))
        frames.append(int(bits[::-1], 2).to_bytes(-(-len(bits) // 8), "little"))
    return frames


def check_through(design: Design, link: Link) -> None:
    """Three frames of all inputs come back as golden's outputs, each in the turns that the link states."""
    values = golden.trace(design.network, random_frames(design, 3, 1))
    edges = {edge.tensor: edge for edge in design.edges()}
    into, out = (
        [as_bits(edges[boundary.tensor], values[boundary.tensor]) for boundary in side]
        for side in (design.network.inputs, design.network.outputs)
    )
    came, _ = through(design, link, in_turns(into, link.input_turns))
    assert [result.beats for result in came] == in_turns(out, link.output_turns)


def test_all_outputs_come_back_in_the_turns_that_the_link_states() -> None:
    link = link_of(FORK, 24)
    assert len(link.output_turns) > 4
    check_through(FORK, link)


@pytest.mark.parametrize(("design", "kept"), SEVERAL.values(), ids=SEVERAL)
def test_all_inputs_enter_in_the_order_in_which_they_are_needed(design: Design, kept: int) -> None:
    link = link_of(design, 24)
    assert len(BeatArbiter(link.input_turns).turns) >= kept
    check_through(design, link)


@pytest.mark.parametrize(
    "design", [FORK, unequal_branches(4), scores_and_label()], ids=["fork", "branches", "scores and label"]
)
def test_frames_take_as_long_as_the_law_says(design: Design) -> None:
    link = link_of(design, 24)
    frames = [random.Random(k).randbytes(link.input_bytes) for k in range(8)]
    came = list(takewhile(lambda result: not result.waited, through(design, link, frames)[0]))
    began, ended = [result.began for result in came], [result.ended for result in came]
    seen = BehindALink(design, link).compare(began, ended)
    assert seen.frames >= 4
    assert seen.exact == seen.frames
    assert not seen.wrong
    late = [*ended[:2], ended[2] + 1, *ended[3:]]
    assert BehindALink(design, link).compare(began, late).wrong == ((2, 1),)


def test_frames_that_come_bit_by_bit_take_as_long_as_the_law_says() -> None:
    """What does not fit into the buffer enters with gaps, which the chip does not tell; here they are seen."""
    design = alone(Fork(Tensor((4, 4, 3), Int(11))), (2, 2), 1)
    link = replace(link_of(design, 24), input_buffer=128, output_buffer=4096)
    frames = [random.Random(k).randbytes(link.input_bytes) for k in range(6)]
    results, comes = through(design, link, frames)
    free = list(takewhile(lambda result: not result.waited, results))
    ended = [result.ended for result in free]
    beats = np.reshape(comes, (len(frames), -1))[: len(free)]
    assert not link.frame_at_once and len(free) >= 4 and np.ptp(np.diff(beats)) > 2, "there are gaps"
    law, first = BehindALink(design, link), free[0].began
    assert first is not None
    assert law.compare_traced(first, ended, beats).wrong == ()
    assert law.compare_traced(first, [*ended[:2], ended[2] + 1, *ended[3:]], beats).wrong == ((2, 1),)


def test_the_circuit_s_digest_is_that_of_all_else() -> None:
    place = board("icebreaker")
    design = on_board(FORK, place, clock_of(place, None))

    one = netlist_of(design)
    deeper = netlist_of(on_board(alone(Fork(Tensor((2, 2, 3), Int(11))), (2, 2), 3), place, 24.0))
    assert one.link is not None and deeper.link is not None
    assert len(one.link.digest) == 16 and bytes(16) != one.link.digest != deeper.link.digest
    assert (one.pins, one.clock_mhz) == (3, 24)
    again = netlist_of(design)
    assert again == one


def test_a_link_needs_a_clock_that_is_fast_enough() -> None:
    place = replace(board("hx8k_b_evn"), link=Uart(6_000_000))
    with pytest.raises(UserError, match="6,000,000 baud need a clock of 24 MHz or more, not 18 MHz"):
        netlist_of(on_board(FORK, place, 18.0))


@pytest.mark.parametrize(
    ("bytes_in", "bytes_out", "baud", "frames"),
    [
        (64, 10, 1_000_000, 1408),  # 71 bytes
        (784, 10, 3_000_000, 369),  # four packets of 7 bytes more
        (640, 640, 12_000_000, 1778),  # three packets of results, of 217 bytes and 8 more
        (1, 1, 1_000_000, 5556),
        (3072, 10, 1_000_000, 32),
    ],
)
def test_what_a_link_carries(bytes_in: int, bytes_out: int, baud: int, frames: int) -> None:
    assert round(frames_a_second(bytes_in, bytes_out, Uart(baud))) == frames


def test_a_design_is_the_cheapest_that_keeps_the_link_busy() -> None:
    network = flow.quantize(flow.read(EXAMPLES / "digits" / "digits.onnx"))
    place = board("ulx3s")
    slow, fast = (replace(place, link=Uart(baud)) for baud in (115_200, 3_000_000))
    designs = [schedule_for_board(one, network)[0] for one in (slow, fast)]
    for one, design in zip((slow, fast), designs, strict=True):
        carried = most_frames_a_second(network, one.link)
        assert design.clock_mhz * 1e6 / design.interval >= carried
    assert designs[0].resources().mac_lanes < designs[1].resources().mac_lanes
    asked = schedule_for_board(slow, network, ScheduleRequest(multipliers=20))[0]
    assert asked.interval < designs[0].interval
