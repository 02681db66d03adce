"""onnx's own models of single operators through the whole of ``check``: valid; every refusal in words, none about data.

None may be called invalid, or our rules are too strict.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from onnx_hw.commands.check import check_hardware
from onnx_hw.onnx.load.check_file import check
from onnx_hw.runtime.options import BuildOptions
from support.backend_cases import node_cases

LONGEST = 5.0  # seconds of this process
ABOUT_DATA = ("feed-", "samples-", "calibration-")


def survive(folder: Path, cases: Sequence) -> int:
    """How many of the cases can be built; whatever one raises fails the test."""
    path, built = folder / "model.onnx", 0
    for case in cases:
        path.write_bytes(case.model.SerializeToString())
        started = time.process_time()
        report = check(path)
        assert report.valid, (case.name, [str(problem) for problem in report.problems])
        if report.verdict == "accepted":
            refusal = check_hardware(BuildOptions(model=path))
            problems = refusal.problems if refusal else ()
            told = [problem for problem in problems if problem.code.startswith(ABOUT_DATA)]
            assert not told, (case.name, told)
            built += refusal is None
        assert time.process_time() - started < LONGEST, case.name
    return built


def test_a_share(tmp_path: Path) -> None:
    assert survive(tmp_path, node_cases()[::37]) >= 1


@pytest.mark.slow(minutes=1.5)
def test_all(tmp_path: Path) -> None:
    cases = node_cases()
    assert len(cases) > 1000
    assert survive(tmp_path, cases) >= 100
