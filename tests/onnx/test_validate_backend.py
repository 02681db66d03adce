"""The stored models of the ``onnx`` package are valid: none may be refused, or our rules are too strict.

Its cases of single operators: ``test_check_node_models.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import onnx
from onnx_hw.onnx.load.check_file import check

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


@pytest.mark.parametrize("path", sorted(DATA.glob("**/*.onnx")), ids=lambda path: path.parent.name)
def test_stored_models_are_valid(path):
    report = check(path)
    assert report.valid, [str(problem) for problem in report.problems]
