"""What cores are said to cost, against what yosys makes of them.

    nice python benchmarks/estimates.py [N] [--family NAME] [--seed SEED] [--kind KIND] [--below LUT] [--kept FILE]
    python benchmarks/estimates.py --record

Draws N cores of all operators in turn (``support.random_cores``), each with a folding, synthesizes each of them alone
as a build does, and prints the estimate over the count, in look-up tables and in flip-flops; then the share of cores
that are within 15 % in both. What is measured is kept in the file, so that another run does not synthesize it again.
``--record`` writes down what is said of some, which a test holds on to (``tests/assemble/recorded_estimates.txt``).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from onnx_hw_boards.cells import Cells
from support.estimate_cases import FAMILIES, Estimate, made_of, said_of
from support.random_cores import drawn_in_turn, kinds
from support.recorded_estimates import RECORDED, lines

KEPT = Path(gettempdir()) / "onnx_hw_estimates.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=72, metavar="N")
    parser.add_argument("--family", choices=list(FAMILIES), default=next(iter(FAMILIES)), help="of chips")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--kind", choices=list(kinds()), help="of these cores alone")
    parser.add_argument("--below", type=int, metavar="LUT", help="cores of fewer look-up tables, as estimated")
    parser.add_argument("--kept", type=Path, default=KEPT, help=f"file of counts; {KEPT} if none is given")
    parser.add_argument("--record", action="store_true", help="write the estimates of the tests anew, and end")
    given = parser.parse_args()
    if given.record:
        RECORDED.write_text("\n".join(lines()) + "\n", encoding="utf-8")
        return
    known: dict[str, list[int]] = json.loads(given.kept.read_text()) if given.kept.exists() else {}
    found, family = [], FAMILIES[given.family]
    for number, core in enumerate(drawn_in_turn(given.seed, given.count)):
        if given.kind not in (None, core.name):
            continue
        said = said_of(core, family)
        if given.below is not None and said.lut >= given.below:
            continue
        key = f"{given.family} {given.seed} {number} {core!r}"
        if key not in known:
            with TemporaryDirectory() as folder:
                made = made_of(core, Path(folder) / "build", family)
            known[key] = [made.lut, made.ff, made.dsp, made.bram]
            given.kept.write_text(json.dumps(known))
        one = Estimate(said, Cells(*known[key]))
        found.append(one)
        print(f"{number:4} {str(core)[:70]:70} {one}", flush=True)
    close = sum(one.close for one in found)
    print(f"{close} of {len(found)} within 15 %, {sum(one.far for one in found)} off by more than 30 %")
    print(f"{sum(one.exact for one in found)} of {len(found)} with the very multipliers and block RAMs")


if __name__ == "__main__":
    main()
