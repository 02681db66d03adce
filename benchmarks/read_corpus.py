"""How the front end judges a corpus of good and bad ONNX files, beside what other software was measured to answer.

    python benchmarks/read_corpus.py [FOLDER]

FOLDER holds the files and ``expectations.json``; by default it is the one the tests use (``ONNX_HW_IRCORPUS``).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.load.check_file import CheckReport, check
from onnx_hw.onnx.load.read import read

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "ircorpus"
OTHERS = {"onnx_checker": "onnx checker", "onnx_checker_full": "onnx checker, full", "onnxruntime": "onnxruntime"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(os.environ.get("ONNX_HW_IRCORPUS") or DEFAULT))
    folder = parser.parse_args().folder
    cases: dict[str, Any] = json.loads((folder / "expectations.json").read_text())
    firm = {name: case for name, case in cases.items() if not case.get("ambiguous")}
    reports, seconds = {}, {}
    for name in cases:
        start = time.perf_counter()
        reports[name] = check(folder / name)
        seconds[name] = time.perf_counter() - start
    wrong = [name for name, case in firm.items() if not agrees(case, reports[name])]
    print(f"verdict and stage   {len(firm) - len(wrong)} of {len(firm)} firm cases")
    for name in wrong:
        print(f"  {name}: expected {firm[name].get('stage') or 'accepted'}, not {reports[name].stage or 'accepted'}")
    for key, title in OTHERS.items():
        answers = {name: case[key] for name, case in firm.items() if key in case}
        right = sum((answer == "accepts") == firm[name]["valid"] for name, answer in answers.items())
        print(f"{title:19} {right} of {len(answers)} (verdict only)")
    pairs = [(name, run) for name, case in cases.items() for run in case.get("run", ())]
    print(f"numeric pairs       {sum(computes(folder / name, run) for name, run in pairs)} of {len(pairs)}")
    slowest = max(seconds, key=lambda name: seconds[name])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"time                {sum(seconds.values()):.2f} s, longest {seconds[slowest]:.2f} s ({slowest}); {peak} MB")


def agrees(case: dict[str, Any], report: CheckReport) -> bool:
    return report.valid == case["valid"] and (not case.get("stage") or report.stage == case["stage"])


def computes(path: Path, run: dict[str, Any]) -> bool:
    """Whether the reference engine gives the expected outputs."""
    try:
        results = reference.run(read(path), {name: array(given) for name, given in run["inputs"].items()})
    except UserError:
        return False
    return all(
        results[name].shape == tuple(expected["shape"]) and np.allclose(results[name], array(expected), equal_nan=True)
        for name, expected in run["outputs"].items()
    )


def array(given: dict[str, Any]) -> np.ndarray:
    return np.array(given["data"], given["dtype"]).reshape(given["shape"])


if __name__ == "__main__":
    main()
