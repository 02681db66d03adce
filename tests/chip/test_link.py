# amaranth: UnusedElaboratable=no
"""Designs behind a link: frames come back as golden has them, and the design is as fast as the link, no faster."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Module, ResetInserter
from amaranth.sim import Simulator

from design_bench import random_frames
from link_bench import Conversation, Wire
from material_folders import EXAMPLES
from onnx_hw import flow, golden
from onnx_hw.assemble import assemble
from onnx_hw.board import clock_of, find_board, schedule_on
from onnx_hw.chip.link import link_of
from onnx_hw.chip.netlist import netlist_of
from onnx_hw.design import Design, Edge
from onnx_hw.errors import UserError
from onnx_hw.exact.integers import Int
from onnx_hw.link_rate import frames_a_second, most_frames_a_second
from onnx_hw.ops.fork import Fork
from onnx_hw.tensor import Tensor
from onnx_hw_boards.linked_board import LinkedBoard, Uart
from onnx_hw_link.link import Link
from onnx_hw_rtl.link import LinkEnd
from sketched_designs import alone

FORK = alone(Fork(Tensor((2, 2, 3), Int(11))), (2, 2), 1)
"""One stream in, two out, whose FIFOs hold a beat: their beats have to leave in turns."""


def board(name: str) -> LinkedBoard:
    found = find_board(name)
    assert isinstance(found, LinkedBoard)
    return found


def as_bytes(edge: Edge, values: np.ndarray) -> list[list[bytes]]:
    """By frame, its beats."""
    size = -(-edge.type.dtype.bits // 8)
    beats = edge.order.to_beats(values)
    text = [b"".join(int(place).to_bytes(size, "little", signed=True) for place in beat) for beat in beats]
    return [text[k : k + edge.beats] for k in range(0, len(text), edge.beats)]


def through(design: Design, link: Link, frames: list[bytes]) -> list[bytes]:
    """What comes back from the design's circuit behind its end of the link."""
    m = Module()
    m.submodules.end = end = LinkEnd(link)
    network = assemble(design)[0]
    m.submodules.network = ResetInserter(end.restart)(network)
    for side, source, sink in ((link.inputs, end, network), (link.outputs, network, end)):
        for port in side:
            for part in ("payload", "valid"):
                m.d.comb += getattr(sink, f"{port.name}_{part}").eq(getattr(source, f"{port.name}_{part}"))
            m.d.comb += getattr(source, f"{port.name}_ready").eq(getattr(sink, f"{port.name}_ready"))
    talk = Conversation(link, frames, Wire(0.0, random.Random(1)), most=20_000)
    return [result.beats for result in talk.run(end, Simulator(m)).results]


def test_all_outputs_come_back_in_the_turns_that_the_link_states() -> None:
    link = link_of(FORK, 24)
    values = golden.trace(FORK.network, random_frames(FORK, 3, 1))
    edges = {edge.tensor: edge for edge in FORK.edges()}
    (into,), out = FORK.network.inputs, FORK.network.outputs
    sent = [b"".join(frame) for frame in as_bytes(edges[into.tensor], values[into.tensor])]
    beats = [as_bytes(edges[boundary.tensor], values[boundary.tensor]) for boundary in out]
    expected = []
    for frame in range(len(sent)):
        left = [iter(of_stream[frame]) for of_stream in beats]
        expected.append(b"".join(next(left[k]) for k, count in link.output_turns for _ in range(count)))
    assert len(link.output_turns) > 4
    assert through(FORK, link, sent) == expected


def test_the_circuit_s_digest_is_that_of_all_else() -> None:
    place = board("icebreaker")
    design = replace(FORK, clock_mhz=clock_of(place, None))

    one = netlist_of(design, place)
    deeper = netlist_of(replace(alone(Fork(Tensor((2, 2, 3), Int(11))), (2, 2), 3), clock_mhz=24.0), place)
    assert one.link is not None and deeper.link is not None
    assert len(one.link.digest) == 16 and bytes(16) != one.link.digest != deeper.link.digest
    assert (one.pins, one.clock_mhz) == (3, 24)
    again = netlist_of(design, place)
    assert again == one


def test_a_link_needs_a_clock_that_is_fast_enough() -> None:
    place = replace(board("hx8k_b_evn"), link=Uart(6_000_000))
    with pytest.raises(UserError, match="6,000,000 baud need a clock of 24 MHz or more, not 18 MHz"):
        netlist_of(replace(FORK, clock_mhz=18.0), place)


@pytest.mark.parametrize(
    ("bytes_in", "bytes_out", "baud", "frames"),
    [(64, 10, 1_000_000, 1316), (784, 10, 3_000_000, 377), (640, 640, 12_000_000, 1840), (3072, 10, 1_000_000, 32)],
)
def test_what_a_link_carries(bytes_in: int, bytes_out: int, baud: int, frames: int) -> None:
    assert round(frames_a_second(bytes_in, bytes_out, Uart(baud))) == frames


def test_a_design_is_the_cheapest_that_keeps_the_link_busy() -> None:
    network = flow.quantize(flow.read(EXAMPLES / "digits" / "digits.onnx"))
    place = board("ulx3s")
    slow, fast = (replace(place, link=Uart(baud)) for baud in (115_200, 3_000_000))
    designs = [schedule_on(one, network)[0] for one in (slow, fast)]
    for one, design in zip((slow, fast), designs, strict=True):
        carried = most_frames_a_second(network, one.link)
        assert design.clock_mhz * 1e6 / design.interval >= carried
    assert designs[0].resources().mac_lanes < designs[1].resources().mac_lanes
    asked = schedule_on(slow, network, multipliers=20)[0]
    assert asked.interval < designs[0].interval
