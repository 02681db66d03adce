"""Networks whose beats hold several pixels, proven: every value, every firing, and the interval.

    python benchmarks/several_pixels.py [N] [--seed FIRST]

Draws N networks (``support``) for 2 pixels a beat and N for 4, and simulates each with its input
as fast as it is taken and with random stalls.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.design_bench import Bench, no_stall, random_stall
from support.random_multi_pixel_designs import draw

FRAMES = 4  # at full rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=30, metavar="N")
    parser.add_argument("--seed", type=int, default=0, help="of the first network")
    given = parser.parse_args()
    for pixels in (2, 4):
        counts: Counter[str] = Counter()
        for seed in range(given.seed, given.seed + given.count):
            found = prove(seed, pixels)
            counts += found
            if found["wrong values"] or found["wrong firings"] or found["other intervals"]:
                print(f"draw({seed}, {pixels}): {dict(found)}")
        print(f"{pixels} pixels: " + "; ".join(f"{counts[name]:,} {name}" for name in NAMES), flush=True)


NAMES = (
    "networks", "cores", "conversions of pixels", "values", "wrong values", "firings", "wrong firings",
    "deadlocks", "other intervals",
)  # fmt: skip


def prove(seed: int, pixels: int) -> Counter[str]:
    """What was counted of one network, by ``NAMES``."""
    design = draw(seed, pixels)
    cores = Counter(type(node.operator).__name__ for node in design.network.nodes)
    found = Counter(networks=1, cores=cores.total())
    found["conversions of pixels"] = cores["Regroup"]
    bench = Bench(design)
    fast = bench.prove(no_stall(design, FRAMES), frames=FRAMES, seed=seed)
    found["other intervals"] = int(fast.interval_cycles != design.interval)
    for run in (fast, bench.prove(random_stall(design, 2, seed), frames=2, seed=seed + 1)):
        found["values"] += run.values_compared
        found["wrong values"] += run.mismatches
        found["firings"] += run.firings_compared
        found["wrong firings"] += run.firing_mismatches
        found["deadlocks"] += bool(run.deadlock)
    return found


if __name__ == "__main__":
    main()
