"""Programs called like yosys, nextpnr and ecppack that answer at once: what they write depends on what they get.

Every call is written down in the file that ``$PRETENDED_LOG`` names, when it begins and when it ends, and takes
``$PRETENDED_SECONDS``; ``$PRETENDED_VERSION`` is what all of them say of themselves.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import sys
import time
from pathlib import Path

NAME = Path(__file__).name.encode()
"""File name of this module, by which a running fake program is known in a list of processes."""

TOOLS = {"YOSYS": "yosys", "NEXTPNR_ECP5": "nextpnr-ecp5", "ECPPACK": "ecppack"}


def environment(log: Path, seconds: float = 0.0, version: str = "1.0") -> dict[str, str]:
    """Variables with which they are found."""
    named = {variable: f"{sys.executable} -S {__file__} {tool}" for variable, tool in TOOLS.items()}
    return {**named, "PRETENDED_LOG": str(log), "PRETENDED_SECONDS": str(seconds), "PRETENDED_VERSION": version}


def calls(log: Path) -> list[str]:
    """What was called and ended, in order: the tool and a digest of what it made."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [line.removeprefix("end ") for line in lines if line.startswith("end ")]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _yosys(arguments: list[str]) -> str:
    text = Path("top.il").read_text(encoding="utf-8")
    Path(arguments[arguments.index("-l") + 1]).write_text("done\n", encoding="utf-8")
    cells = {"LUT4": len(text) // 400, "TRELLIS_FF": len(text) // 500}
    counts = {"modules": {"\\top": {"num_cells_by_type": cells}}}
    Path("statistics.json").write_text(json.dumps(counts), encoding="utf-8")
    made = _digest(text)
    Path("netlist.json").write_text(json.dumps({"modules": {}, "of": made}), encoding="utf-8")
    return made


def _nextpnr(arguments: list[str]) -> str:
    given = dict(itertools.pairwise(arguments))
    netlist = Path(given["--json"]).read_text(encoding="utf-8")
    made = _digest(netlist, Path(given["--lpf"]).read_text(encoding="utf-8"), given["--seed"], given["--freq"])
    fmax = 80 + int(made[:4], 16) % 60
    report = {
        "fmax": {"clk": {"achieved": fmax, "constraint": 1}},
        "utilization": {"TRELLIS_COMB": {"used": 1, "available": 2}},
        "critical_paths": [],
    }
    Path(given["--report"]).write_text(json.dumps(report), encoding="utf-8")
    Path(given["--textcfg"]).write_text(made * 50, encoding="utf-8")
    return made


def _ecppack(arguments: list[str]) -> str:
    files = [Path(word) for word in arguments if re.search(r"\.(config|bit)$", word)]
    made = _digest(files[0].read_text(encoding="utf-8"))
    files[1].write_text(made, encoding="utf-8")
    return made


def main(tool: str, *arguments: str) -> None:
    if {"--version", "-V"} & {*arguments}:
        sys.stdout.write(f"pretended {os.environ['PRETENDED_VERSION']}\n")
        return
    note = Path(os.environ["PRETENDED_LOG"]).open("a", encoding="utf-8")  # noqa: SIM115
    note.write(f"begin {tool} {os.getpid()}\n")
    note.flush()
    time.sleep(float(os.environ["PRETENDED_SECONDS"]))
    made = {"yosys": _yosys, "nextpnr-ecp5": _nextpnr, "ecppack": _ecppack}[tool](list(arguments))
    note.write(f"end {tool} {made[:16]}\n")
    note.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
