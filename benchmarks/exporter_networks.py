"""How many networks as people have them can be built, and how near golden is to onnxruntime.

    python benchmarks/exporter_networks.py [N] [--seed FIRST] [--simulate K] [--list]

Draws N networks as converters write them, quantized by onnxruntime (``support.random_exported_models``). Each is tried
with the quantizer's samples at hand and without. ``--simulate K`` proves the circuits of the first K that are accepted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.exports.verdicts import Comparison, Verdict, compared, judged, proven
from support.random_exported_models import DrawnExport, draw


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=300, metavar="N")
    parser.add_argument("--seed", type=int, default=0, help="of the first network")
    parser.add_argument("--simulate", type=int, default=0, metavar="K")
    parser.add_argument("--list", action="store_true", help="a line for each network that is refused or differs")
    given = parser.parse_args()
    told = Summary()
    with tempfile.TemporaryDirectory() as place:
        for seed in range(given.seed, given.seed + given.count):
            told.take(draw(seed, Path(place)), simulate=told.proven < given.simulate, listed=given.list)
    told.say()


class Summary:
    """What was seen so far."""

    def __init__(self) -> None:
        self.drawn = self.accepted = self.accepted_without = self.proven = self.disproven = 0
        self.codes: Counter[str] = Counter()
        self.codes_without: Counter[str] = Counter()
        self.seconds: list[float] = []
        self.compared: list[Comparison] = []
        self.start = time.perf_counter()

    def take(self, drawn: DrawnExport, *, simulate: bool, listed: bool) -> None:
        without = judged(drawn, samples=False)
        verdict = without if without.design else judged(drawn, samples=True)  # who needs no samples is not judged twice
        self.drawn += 1
        self.accepted_without += without.design is not None
        self.seconds.append(verdict.seconds)
        self.codes.update(verdict.codes)
        self.codes_without.update(without.codes)
        if verdict.design:
            note = self._accepted(drawn, verdict, simulate, whole=without.design is not None)
        else:
            note = "; ".join(verdict.problems[:2])
        if listed and note:
            print(f"{drawn!r}\n    {', '.join(verdict.codes)} {note}", flush=True)

    def _accepted(self, drawn: DrawnExport, verdict: Verdict, simulate: bool, *, whole: bool) -> str:
        """What there is to say against an accepted network; ``whole`` if its author quantized all of it."""
        assert verdict.network is not None
        self.accepted += 1
        note = ""
        if whole:  # what we quantize with samples is in floats for onnxruntime
            comparison = compared(drawn, verdict.network)
            self.compared.append(comparison)
            if comparison.near < comparison.values:
                far = comparison.values - comparison.near
                note = f"{far} of {comparison.values} values differ, by up to {comparison.worst:.1f} steps"
                note += " (averages)" if comparison.averages else ""
        if simulate:
            proof = proven(drawn, verdict.network)
            self.proven += proof.agrees
            self.disproven += not proof.agrees
            note += "" if proof.agrees else f" {proof!r}"
        return note

    def say(self) -> None:
        print(f"drawn               {self.drawn}, in {time.perf_counter() - self.start:.0f} s")
        print(f"accepted            {self.accepted / self.drawn:.1%} with samples at hand")
        self._say_codes(self.codes)
        print(f"                    {self.accepted_without / self.drawn:.1%} without")
        self._say_codes(self.codes_without)
        for averages in (False, True):
            few = [one for one in self.compared if one.averages is averages]
            values, near = sum(one.values for one in few), sum(one.near for one in few)
            if values:
                what = "with averages" if averages else "without averages"
                worst = max(one.worst for one in few)
                print(f"golden {what:16} {near / values:.3%} of {values:,} values within one step; worst {worst:.1f}")
        print(f"check               {sum(self.seconds):.0f} s, longest {max(self.seconds):.1f} s")
        if self.proven + self.disproven:
            print(f"simulated           {self.proven} proven, {self.disproven} not")

    @staticmethod
    def _say_codes(codes: Counter[str]) -> None:
        for code, count in codes.most_common():
            print(f"  {count:4} refused: {code}")


if __name__ == "__main__":
    main()
