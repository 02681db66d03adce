"""Cores and networks drawn at random, simulated and proven: other ones in every run.

    nice python benchmarks/random_circuits.py [N] [NAME ...]

Proves N of each NAME (a core, ``chains``, ``residuals`` or ``likenesses``; by default of all of them), with and without
stalls. The first one that does not agree is made as small as possible and printed as it was drawn.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.long_runs import STRATEGIES, prove_core, prove_networks
from support.random_designs import chains, likenesses, residuals

NETWORKS = {"chains": chains, "residuals": residuals, "likenesses": likenesses}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=200, metavar="N")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*STRATEGIES, *NETWORKS)))
    given = parser.parse_args()
    settings.register_profile("at length", deadline=None)
    settings.load_profile("at length")
    for name in given.names or (*STRATEGIES, *NETWORKS):
        started = time.perf_counter()
        if name in STRATEGIES:
            prove_core(STRATEGIES[name], given.count)
            told = f"{given.count} cases"
        else:
            seen = prove_networks(NETWORKS[name](5, 250), settings(max_examples=given.count))
            told = f"{seen['networks']} networks, {seen['firings']:,} firings, {seen['deadlocks']} stop as predicted"
        print(f"{name}: {told}, none wrong, {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
