"""Many frames through the pins of a whole chip, simulated bit by bit behind a port: values, cycles, faults.

    nice python benchmarks/link.py [MODEL.onnx] [--board NAME] [--frames N] [--faulty N] [--share SHARE] [--law N]

The design is the one that a build makes for the board; random frames pass by the driver that users have, and are
compared with golden. Their cycles, as the chip counts them, are compared with the firing law's: of the first ones
each, by what the chip tells and by when each beat came to the network; of all others how far they are apart. Then some
frames pass while a share of the bytes on the wire is hit by a fault, and what that leaves of the frames a second is
told.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from itertools import pairwise, takewhile
from pathlib import Path

import numpy as np

from boards import DIGITS, drawn_frames
from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.elaborate import assemble, to_rtlil
from onnx_hw.assemble.host_model_file import host_model
from onnx_hw.assemble.netlist import bit_rate_of
from onnx_hw.quantization.ranges.assume import assume_ranges
from onnx_hw.timing.link_times import CLOCK, BehindALink
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_link.chip import Chip
from onnx_hw_link.host_model import HostModel
from onnx_hw_link.session import FrameResult
from onnx_hw_rtl.shells.shell import Shell
from onnx_hw_rtl.shells.uart_shell import TracedUartShell, UartShell
from onnx_hw_sim.pseudo_terminal import PseudoTerminal
from onnx_hw_sim.serial_line import SerialChip, WireFaults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path, default=DIGITS, metavar="MODEL.onnx")
    parser.add_argument("--board", default="icebreaker", metavar="NAME")
    parser.add_argument("--frames", type=int, default=1000, metavar="N", help="without faults")
    parser.add_argument("--faulty", type=int, default=1000, metavar="N", help="frames with them")
    parser.add_argument("--share", type=float, default=0.001, help="of the bytes that are hit")
    parser.add_argument("--law", type=int, default=100, metavar="N", help="frames whose cycles are predicted")
    given = parser.parse_args()
    board = find_board(given.board)
    assert isinstance(board, LinkedBoard)
    design = flow.schedule(flow.quantized(flow.read(given.model), assume_ranges).network, given.board)
    netlist = flow.assemble(design)
    assert netlist.link is not None
    host = HostModel.of(json.loads(host_model(design, netlist.link, bit_rate_of(netlist))))
    divisor = round(host.link.clock_hz / host.baud)
    traced = len(host.link.inputs) == 1
    rtlil = to_rtlil(Shell((TracedUartShell if traced else UartShell)(assemble(design)[0], host.link, divisor)))
    sent, wanted = drawn_frames(design, host.link, max(given.frames, given.faulty))
    print(f"{given.model.stem} on {given.board}: a frame every {design.interval:,} cycles by the law", flush=True)

    def passed(count: int, share: float) -> tuple[list[FrameResult], int, np.ndarray]:
        """(results, cycles, those in which beats came to the network)."""
        faults = WireFaults(share, seed=1)
        with tempfile.TemporaryDirectory() as place:
            chip = SerialChip(rtlil, divisor, Path(place), traced=traced)
            with (
                PseudoTerminal(chip, faults) as port,
                Chip(port.path, baud=host.baud, digest=host.link.digest, timeout=300) as device,
            ):
                before, began = chip.cycle, time.monotonic()
                results = list(device.stream(sent[:count]))
                cycles, seconds = chip.cycle - before, time.monotonic() - began
                right = sum(result.beats == frame for result, frame in zip(results, wanted, strict=False))
                print(
                    f"{right:,} of {count:,} right, {cycles / count:,.0f} cycles a frame, "
                    f"{host.link.clock_hz * count / cycles:,.1f} frames/s, {faults.hit:,} bytes hit; "
                    f"{device.session.faults}; {seconds:.0f} s",
                    flush=True,
                )
                return results, cycles, chip.comes

    results, clean, comes = passed(given.frames, 0.0)
    free = list(takewhile(lambda result: not result.waited, results))[: given.law]
    if len(host.link.inputs) == 1 and free and free[0].began is not None:
        law, ended = BehindALink(design, host.link), [result.ended for result in free]
        beats = comes.reshape(given.frames, -1)[: len(free)]
        for name, seen in (
            ("what the chip tells", law.compare([result.began for result in free], ended)),
            ("beats as they came", law.compare_traced(free[0].began, ended, beats)),
        ):
            print(f"by the law and {name}: {seen.frames:,} frames, {seen.exact:,} of them known to the cycle; ", end="")
            print(f"wrong: {seen.wrong or 'none'}")
    apart = Counter((after.ended - before.ended) % CLOCK for before, after in pairwise(results))
    print("cycles from frame to frame:", ", ".join(f"{cycles:,} ({n:,})" for cycles, n in apart.most_common(5)))
    alone = Counter(result.latency_cycles for result in results if result.began is not None)
    print("from first beat in to last beat out:", ", ".join(f"{c:,} ({n:,})" for c, n in alone.most_common(3)))
    if given.faulty:
        _, hit, _ = passed(given.faulty, given.share)
        print(f"{clean / given.frames / (hit / given.faulty):.1%} of the frames a second, by a share of {given.share}")


if __name__ == "__main__":
    main()
