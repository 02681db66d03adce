"""The corpus of good and bad ONNX files: verdict, stage, warning and numbers of each."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.load.check_file import check
from onnx_hw.onnx.load.read import read
from support.fixture_paths import IRCORPUS, needs_ircorpus


def expectations() -> dict[str, Any]:
    path = IRCORPUS / "expectations.json"
    return json.loads(path.read_text()) if path.is_file() else {}


CASES = expectations()
RUNS = [(name, index) for name, case in CASES.items() for index in range(len(case.get("run", ())))]

#: The file has the warning we give every file without a domain; it does not count as a remark on the case.
ALWAYS = {"model-domain"}


@needs_ircorpus
@pytest.mark.parametrize("name", CASES)
def test_verdict_and_stage(name):
    case = CASES[name]
    report = check(IRCORPUS / name)
    json.dumps(report.to_json())
    if case.get("ambiguous"):
        return
    assert report.valid == case["valid"], [str(problem) for problem in report.problems]
    if not case["valid"] or case.get("stage"):
        assert report.stage == case["stage"], [str(problem) for problem in report.problems]
    if case["valid"] and case.get("warn") and "model_domain" not in name:
        assert {problem.code for problem in report.warnings} - ALWAYS
    for problem in report.problems:
        assert problem.code and problem.message and problem.stage
        assert problem.message.isprintable()
        assert problem.where.isprintable()


@needs_ircorpus
@pytest.mark.parametrize(("name", "index"), RUNS)
def test_numbers(name, index):
    run = CASES[name]["run"][index]
    results = reference.run(read(IRCORPUS / name), {key: array(given) for key, given in run["inputs"].items()})
    assert set(results) == set(run["outputs"])
    for key, expected in run["outputs"].items():
        np.testing.assert_allclose(results[key], array(expected), rtol=1e-6)
        assert list(results[key].shape) == expected["shape"]


@needs_ircorpus
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "run_error" in case])
def test_feeds_that_must_be_refused(name):
    (refused,) = CASES[name]["run_error"]
    feeds = {key: array(given) for key, given in refused["inputs"].items()}
    model = read(IRCORPUS / name)
    with pytest.raises(UserError):
        reference.run(model, feeds)


def array(given: dict[str, Any]) -> np.ndarray:
    return np.array(given["data"], given["dtype"]).reshape(given["shape"])
