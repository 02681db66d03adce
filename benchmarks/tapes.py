"""Drawn networks whose weights come from outside the chip: values and firings that are wrong, and tapes that stop.

    nice python benchmarks/tapes.py [--networks N] [--seed SEED] [--minutes M]

Each network has one to four products on a tape, with a tile each, buffers and FIFOs of random capacities, and its
weights come from a source of its own, a flash or an SDRAM, whose gaps are those of the model of the memory. It is
simulated without stalls and with random ones; every value and every firing is compared. A second tape holds the same
groups in a random order: where the firing law says that the network stops with it, the circuit must stop, and the other
way round.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from onnx_hw.ir.design import Design
from onnx_hw.timing.frame_times import Frames
from support.design_bench import Bench, no_stall, random_stall
from support.taped_designs import shuffled, taped_designs

FRAMES = 3


@dataclass
class Tally:
    """What was seen so far."""

    ends: float
    seen: Counter[str] = field(default_factory=Counter)
    tiles: set[int] = field(default_factory=set)

    def look_at(self, design: Design, seed: int) -> None:
        """Simulate a design with its tape, and with one in another order."""
        if time.monotonic() > self.ends:
            return
        self.seen["networks"] += 1
        self.seen["on a tape"] += len(design.taped_ports())
        self.tiles |= {getattr(node.operator, "tile", 1) for node in design.network.nodes}
        self.run("", design, seed)
        other = shuffled(design, Random(seed))
        if other is not None:
            self.seen["wrong orders"] += 1
            self.run(" in a wrong order", other, seed)
        if self.seen["networks"] % 20 == 0:
            print(self, file=sys.stderr, flush=True)

    def __str__(self) -> str:
        numbers = ", ".join(f"{count:,} {what}" for what, count in self.seen.items())
        return f"{numbers}; tiles of {', '.join(map(str, sorted(self.tiles)))}"

    def run(self, which: str, design: Design, seed: int) -> None:
        """Simulate a design with and without stalls, and count what is wrong."""
        bench, live = Bench(design), Frames(design).times(FRAMES, interval=0).live
        for stall in (no_stall(design, FRAMES), random_stall(design, FRAMES, seed)):
            run = bench.prove(stall, frames=FRAMES, seed=seed, false_start=seed % 50)
            self.seen["values"] += run.values_compared
            self.seen["firings"] += run.firings_compared
            self.seen["wrong values"] += run.mismatches
            self.seen["wrong firings"] += run.firing_mismatches
            self.seen[f"deadlocks{which}"] += bool(run.deadlock)
            self.seen["deadlocks not as predicted"] += bool(run.deadlock) == live


def main() -> int:
    """Draw networks, simulate them, and print how many of what were seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600, help="after which no more are simulated")
    asked = parser.parse_args()
    tally = Tally(time.monotonic() + 60 * asked.minutes)

    @seeded(asked.seed)
    @settings(
        max_examples=asked.networks,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(taped_designs(4, 120), st.integers(0, 999))
    def every_network(design: Design, seed: int) -> None:
        tally.look_at(design, seed)

    every_network()
    print(tally)
    wrong = ("wrong values", "wrong firings", "deadlocks not as predicted")
    return 1 if any(tally.seen[what] for what in wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
