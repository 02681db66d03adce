"""Integers of 1 to 16 bits, signed and unsigned, through simulated pins, by UART and SPI, by driver and C header.

    nice python benchmarks/link_widths.py [--bits A,B]

A chip returns what it gets; each width is a chip of its own. The last line tells how many integers did not come back.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.widths_through_pins import BEATS, FRAMES, LINKS, WIDTH, wrong_integers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", default=",".join(map(str, range(1, 17))), help="widths, with commas between")
    given = parser.parse_args()
    wrong = total = 0
    for kind in LINKS:
        for bits in map(int, given.bits.split(",")):
            for signed in (True, False):
                with tempfile.TemporaryDirectory() as place:
                    found = wrong_integers(LINKS[kind], ((bits, signed),), Path(place))
                wrong, total = wrong + sum(found.values()), total + len(found) * FRAMES * BEATS * WIDTH
                print(f"{kind}, {'signed' if signed else 'unsigned'} {bits} bits: {found} wrong", flush=True)
    print(f"{wrong:,} wrong of {total:,}")


if __name__ == "__main__":
    main()
