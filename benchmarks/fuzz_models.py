"""Mutants of small networks through ``check`` and ``run``: what crashes, takes long, or takes much memory.

    nice python benchmarks/fuzz_models.py [N] [--seed FIRST] [--keep FOLDER]

Draws N mutants (``support.mutations``), each in limited time and memory, and prints every root once, with the number of
its first mutant.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.fuzzing import outcome
from support.mutations import mutant

SECONDS = 5
GIB = 1 << 30
ADDRESS_SPACE = 4 * GIB
"""Libraries included; the growth of what is really used is told."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=1000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, help="of the first mutant")
    parser.add_argument("--keep", type=Path, help="folder for the first mutant of every root")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    signal.signal(signal.SIGPROF, _too_long)
    stages: Counter[str] = Counter()
    roots: Counter[str] = Counter()
    slow, peak, started = 0, 0, time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        for number in range(given.seed, given.seed + given.count):
            model = mutant(number)
            signal.setitimer(signal.ITIMER_PROF, 4 * SECONDS)
            found = outcome(model, Path(place))
            signal.setitimer(signal.ITIMER_PROF, 0)
            stages[found.stage] += 1
            fault = found.fault
            if not fault and found.seconds > SECONDS:
                slow += 1
                fault = "slow"
                print(f"{number}: {found.seconds:.1f} s, {found.stage}", flush=True)
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
            if used > peak * 1.2 and used > GIB // 2:
                print(f"{number}: {used >> 20} MiB", flush=True)
            peak = max(peak, used)
            if fault:
                roots[fault] += 1
                if roots[fault] == 1:
                    print(f"{number}: {fault}", flush=True)
                    if given.keep is not None:
                        given.keep.mkdir(parents=True, exist_ok=True)
                        (given.keep / f"{number}.onnx").write_bytes(model.SerializeToString())
            if (number - given.seed + 1) % 1000 == 0:
                print(
                    f"-- {number - given.seed + 1:,} in {time.perf_counter() - started:,.0f} s",
                    dict(stages),
                    flush=True,
                )
    print(f"{given.count:,} mutants, {dict(stages)}, {slow} over {SECONDS} s, at most {peak >> 20} MiB")
    for root, count in roots.most_common():
        print(f"{count:6} {root}")


def _too_long(*_: object) -> None:
    raise TimeoutError


if __name__ == "__main__":
    main()
