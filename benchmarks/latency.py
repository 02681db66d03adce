"""Latency as the goal of the search: against all foldings of small networks, and of the networks in a folder.

    nice python benchmarks/latency.py [NETWORKS] [--models FOLDER NAME ... --multipliers N ...]

Draws NETWORKS small networks (50 unless given) and compares the latency that is chosen with the least one of all legal
foldings, tried one after the other. For each named model, ``FOLDER/NAME/*.onnx`` with integers, prints the interval and
the latency of the fastest pipeline, and of the design of the least latency, on ``ecp5``, in cycles by the firing law.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "schedule"))

import test_search_latency as small

from onnx_hw import flow
from onnx_hw.messages.errors import UserError
from onnx_hw.runtime.schedule_request import ScheduleRequest, SpeedGoal
from onnx_hw.schedule.search_latency import cycles_of_frame_alone


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="?", type=int, default=50)
    parser.add_argument("--models", nargs="+", default=[], metavar="FOLDER NAME")
    parser.add_argument("--multipliers", nargs="+", type=int, default=[156])
    asked = parser.parse_args()
    compared = [small.chosen_and_least(np.random.default_rng(seed)) for seed in range(asked.networks)]
    worse = [(seed, *pair) for seed, pair in enumerate(compared) if pair[0] != pair[1]]
    print(f"{len(compared)} networks: {len(worse)} latencies are not the least one", *worse)
    for name in asked.models[1:]:
        for multipliers in asked.multipliers:
            print_model(Path(asked.models[0]), name, multipliers)
    return len(worse)


def print_model(folder: Path, name: str, multipliers: int) -> None:
    """Print interval and latency of both goals."""
    (path,) = (folder / name).glob("*.onnx")
    network = flow.quantized(flow.read(path), None).network
    for goal in SpeedGoal:
        try:
            design = flow.schedule(network, "ecp5", ScheduleRequest(fastest=goal, multipliers=multipliers))
        except UserError as error:
            print(f"{name}, {multipliers} lanes, {goal}: {error.problems[0].message}")
            continue
        cycles = cycles_of_frame_alone(design)
        print(f"{name}, {multipliers} lanes, {goal}: interval {design.interval:,}, latency {cycles:,} cycles")


if __name__ == "__main__":
    sys.exit(main())
