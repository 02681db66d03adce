"""Small audio networks, drawn by seed, on a small iCE40: what their designs take of it.

    python benchmarks/audio_networks.py [--count 10] [--first SEED] [--board icebreaker]

Each is a float model of some 772 weights: 1-D convolutions, a residual addition, a mean or a flattened image, and a
product at the end (``tests/support/random_audio_networks.py``), quantized to int8 with its own samples. A row has the
logic cells and block RAMs of the design with its FIFOs, as estimated, of those that the link's shell leaves.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import onnx
from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.shell_area import shell_cells
from onnx_hw.messages.errors import UserError
from onnx_hw.schedule.schedule_for_board import full_budget, schedule_for_board
from support.random_audio_networks import AudioNetwork


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10, help="networks")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    parser.add_argument("--board", default="icebreaker")
    options = parser.parse_args()
    fitting = 0
    for seed in range(options.first, options.first + options.count):
        row = answer(seed, options.board)
        fitting += "needs" not in row
        print(f"{seed:4} {row}", flush=True)
    print(f"{fitting} of {options.count} fit")


def answer(seed: int, name: str) -> str:
    """Return what the design of a drawn network takes on a board, or what too much of it would be taken."""
    drawn, board = AudioNetwork(seed), find_board(name)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "audio.onnx"
        onnx.save(drawn.model, str(path))
        network = flow.quantize(flow.read(path), {"audio": drawn.samples})
    try:
        design, _ = schedule_for_board(board, network)
    except UserError as error:
        return f"{drawn.weights} weights  {error.problems[0].message}"
    room, used = full_budget(board, None, shell_cells(network, board, design.clock_mhz)), design.with_fifos()
    cells = f"{used.logic:,} logic cells of {room.logic:,}, {used.bram} block RAMs of {room.bram}"
    return f"{drawn.weights} weights  {cells}, {design.interval:,} cycles a frame"


if __name__ == "__main__":
    main()
