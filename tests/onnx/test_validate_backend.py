"""The ``onnx`` package's own cases are valid models: none may be refused, or our rules are too strict."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import onnx
from onnx_hw.onnx.load.check_file import check
from support.onnx_files import write

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


@pytest.mark.parametrize("path", sorted(DATA.glob("**/*.onnx")), ids=lambda path: path.parent.name)
def test_stored_models_are_valid(path):
    report = check(path)
    assert report.valid, [str(problem) for problem in report.problems]


@pytest.mark.slow
def test_node_cases_are_valid(tmp_path):
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases compute infinities on purpose
        cases = collect_testcases(None)
    refused = {}
    for case in cases:
        report = check(write(tmp_path, case.model))
        if not report.valid:
            refused[case.name] = [str(problem) for problem in report.problems]
    assert len(cases) > 1000
    assert not refused
