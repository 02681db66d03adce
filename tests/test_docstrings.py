"""Examples in docstrings run, and give what they say."""

import doctest
import importlib

import pytest

from support.fixture_paths import CHECKOUT

ROOTS = {"onnx_hw": ".", "onnx_hw_rtl": "rtl", "onnx_hw_sim": "sim", "onnx_hw_tools": "sim", "onnx_hw_boards": "boards"}


def modules_with_examples():
    for package, root in ROOTS.items():
        for path in sorted((CHECKOUT / root / package).rglob("*.py")):
            if ">>> " in path.read_text(encoding="utf-8"):
                yield ".".join(path.relative_to(CHECKOUT / root).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_examples_in_docstrings(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
