"""What fits on which board, and what comes through its link: the table of docs/boards.md.

    nice python benchmarks/boards.py [--boards A,B] [--frames N] [--route] [MODEL.onnx ...]

Without a MODEL: the digits of the examples. Each network is scheduled as a build does, its circuit made; with
``--frames``, so many random frames pass the whole chip, simulated bit by bit behind a port, and are compared with
golden, and the frames a second by the simulated clock are told; a share of all bytes may be hit by a fault. With
``--route``, the chip is synthesized, placed, routed and packed, and its cells and its clock are measured (otherwise
those of the network alone are estimated).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

import onnx_hw_boards
from onnx_hw import flow
from onnx_hw.assemble.elaborate import to_linked_chip
from onnx_hw.assemble.host_model_file import host_model
from onnx_hw.assemble.netlist import Netlist, bit_rate_of
from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.quantization.ranges.assume import assume_ranges
from onnx_hw.report.collect.sections import describe_serial
from onnx_hw.runtime.build_folder import opened
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_link.chip import Chip
from onnx_hw_link.frames import in_turns
from onnx_hw_link.host_model import HostModel
from onnx_hw_link.link import Link
from onnx_hw_link.transport import TRANSPORTS
from onnx_hw_sim.serial_line import WireFaults
from onnx_hw_tools.process import ToolFailed

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits" / "digits.onnx"
AT_ONCE = 200  # frames that golden computes
TITLES = ("network", "board", "lanes", "LUT4", "flip-flops", "multipliers", "block RAMs", "MHz", "cycles a frame")
MORE = ("frames/s", "limit", "through the link", "seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--boards", help="some, with commas between; all with a link unless said otherwise")
    parser.add_argument("--frames", type=int, default=0, metavar="N", help="through the simulated link")
    parser.add_argument("--faults", type=float, default=0.0, metavar="SHARE", help="of the bytes on the wire")
    parser.add_argument("--route", action="store_true", help="up to the bitstream")
    given = parser.parse_args()
    boards = [onnx_hw_boards.board(name) for name in onnx_hw_boards.names()]
    linked = [board for board in boards if isinstance(board, LinkedBoard)]
    chosen = linked if given.boards is None else [board for board in linked if board.name in given.boards.split(",")]
    print("|", " | ".join((*TITLES, *MORE)), "|")
    print("|---" * len((*TITLES, *MORE)) + "|")
    for path in given.models or [DIGITS]:
        network = flow.quantized(flow.read(path), assume_ranges).network
        name = path.parent.name if path.stem == "model" else path.stem
        for board in chosen:
            begun = time.monotonic()
            try:
                cells = row(network, board, given.frames, given.faults, given.route)
            except (UserError, ToolFailed) as error:
                cells = [str(error).splitlines()[0], *[""] * (len(TITLES) + len(MORE) - 4)]
            print(
                "|", " | ".join((name, f"`{board.name}`", *cells, f"{time.monotonic() - begun:.0f}")), "|", flush=True
            )


def row(network: Network, board: LinkedBoard, frames: int, faults: float, routes: bool) -> list[str]:
    """What is said of a network on a board."""
    design = flow.schedule(network, board.name)
    netlist = flow.assemble(design)
    serial = describe_serial(design)
    assert serial is not None
    came = through_the_link(design, netlist, frames, faults) if frames else ""
    total = design.with_fifos()
    taken = Cells(total.lut, total.ff, total.dsp, total.bram)
    clock = f"{design.clock_mhz:g}"
    if routes:
        taken, reached = on_the_chip(netlist)
        clock = f"{reached:.0f} of {design.clock_mhz:g}"
    speed = min(serial.frames_per_second, design.clock_mhz * 1e6 / design.interval)
    cells, about = board.cells, "" if routes else "~"
    amounts = (f"{about}{amount:,} of {there:,}" for amount, there in amounts_of(taken, cells))
    lanes = str(total.mac_lanes)
    return [lanes, *amounts, clock, f"{design.interval:,}", f"{speed:,.0f}", serial.limit, came]


def amounts_of(taken: Cells, there: Cells) -> list[tuple[int, int]]:
    """Pairs in the order of the table."""
    return [(getattr(taken, kind), getattr(there, kind)) for kind in ("lut", "ff", "dsp", "bram")]


def on_the_chip(netlist: Netlist) -> tuple[Cells, float]:
    """(cells, MHz) of the bitstream."""
    with tempfile.TemporaryDirectory() as place, opened(Path(place) / "build") as folder:
        synthesized = flow.synthesize(netlist, folder)
        routed = flow.route(synthesized, netlist, folder)
        flow.pack(routed, folder)
        return synthesized.used, routed.fmax_mhz


def drawn_frames(design: Design, link: Link, count: int) -> tuple[list[bytes], list[bytes]]:
    """(frames, what golden makes of them), as both travel."""
    edges = {edge.tensor: edge for edge in design.edges()}
    draw, sent, wanted = np.random.default_rng(1), list[bytes](), list[bytes]()
    types = {boundary.tensor: design.network.tensors[boundary.tensor] for boundary in design.network.inputs}
    for begin in range(0, count, AT_ONCE):
        some = min(AT_ONCE, count - begin)
        integers = {name: draw.integers(*t.range, (some, *t.shape), endpoint=True) for name, t in types.items()}
        values = golden.trace(design.network, integers)
        for frames_of, side, turns in ((sent, "inputs", link.input_turns), (wanted, "outputs", link.output_turns)):
            ports = getattr(link, side)
            tensors = dict.fromkeys(boundary.tensor for boundary in getattr(design.network, side))
            for k in range(some):
                beats = [edges[name].order.to_beats(values[name][k : k + 1]) for name in tensors]
                frames_of.append(in_turns(ports, turns, beats))
    return sent, wanted


def through_the_link(design: Design, netlist: Netlist, frames: int, faults: float) -> str:
    """How many of so many random frames came back through the simulated pins as golden has them, and how soon."""
    assert netlist.link is not None
    board = design.target.board
    assert isinstance(board, LinkedBoard)
    kind, clock_mhz = board.link.kind, netlist.clock_mhz
    host = HostModel.of(json.loads(host_model(design, netlist.link, bit_rate_of(netlist), kind)))
    link, transport = host.link, TRANSPORTS[kind](host.baud)
    sent, wanted = drawn_frames(design, link, frames)
    rtlil = to_linked_chip(design, link, board.link, clock_mhz)
    with tempfile.TemporaryDirectory() as place, board.link.simulated_port(rtlil, clock_mhz, Path(place)) as port:
        if faults:
            port.faults = WireFaults(faults, seed=1)
        with Chip(port.path, baud=host.baud, digest=link.digest, timeout=300, transport=transport) as device:
            before = port.cycle
            came = [result.beats for result in device.stream(sent)]
            cycles = port.cycle - before
    right = sum(a == b for a, b in zip(came, wanted, strict=True))
    rate = link.clock_hz * frames / cycles
    return f"{right:,} of {frames:,} right, {rate:,.0f} frames/s"


if __name__ == "__main__":
    main()
