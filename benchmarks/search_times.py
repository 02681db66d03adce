"""How long the search takes: CPU seconds of a process of its own for each network, from the network to its design.

    nice python benchmarks/search_times.py MODEL ... [--board NAME ...] [--multipliers N ...]

Beside the seconds: those that ten million additions take just before and just after, on average, since they differ
from machine to machine and with what else runs on it; and the design's interval, or why nothing fits. Float models are
quantized without samples.
"""

from __future__ import annotations

import argparse
import multiprocessing
from pathlib import Path
from time import process_time

import onnx_hw_boards
from onnx_hw import flow
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.messages.errors import UserError
from onnx_hw.quantization.quantize import without_data
from onnx_hw.runtime.options import DEFAULT_BOARD


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--board", nargs="+", choices=onnx_hw_boards.names(), default=[DEFAULT_BOARD])
    parser.add_argument("--multipliers", nargs="+", type=int, default=[None], metavar="N")
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    for case in [(model, b, lanes) for model in given.models for b in given.board for lanes in given.multipliers]:
        with context.Pool(1) as fresh:  # nothing is remembered from another search
            print(fresh.apply(searched, case), flush=True)


def searched(model: Path, board: str, multipliers: int | None) -> str:
    """A line of the table."""
    what = f"{model.parent.name if model.stem == 'model' else model.stem} {board} {multipliers or ''}"
    try:
        network = verify_network(flow.quantized(flow.read(model), without_data).network)
    except UserError as error:
        return f"{what:44} not read: {error.problems[0].message}"
    before = additions()
    start = process_time()
    try:
        found = f"{flow.schedule(network, board, multipliers=multipliers).interval:,} cycles"
    except UserError as error:
        found = error.problems[0].message
    seconds = process_time() - start
    return f"{what:44} {seconds:5.2f} s, additions {(before + additions()) / 2:.2f} s: {found}"


def additions() -> float:
    """Seconds that ten million take."""
    start, total = process_time(), 0
    for number in range(10_000_000):
        total += number
    return process_time() - start


if __name__ == "__main__":
    main()
