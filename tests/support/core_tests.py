"""Discovery of what the cores' own test files, ``tests/ops/test_<name>.py``, offer to the tests of all cores.

A test file of a core defines these names:

* ``STRATEGIES``: hypothesis strategies of pairs (operator, folding), by name;
* ``DRAWS``: functions that draw an operator with a ``Random``, by the kind of core, for estimates;
* ``CASES``: cases on which the proof must see faults, by name; the one with the core's name gets those of every core;
* ``FAULTS``: the core's deliberate faults;
* ``NARROW_CORES``, ``WIDE_CORES``: pairs (operator, folding) whose netlists are examined, by name.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from types import ModuleType
from typing import Any

from support.fixture_paths import CHECKOUT

OFFERS = ("STRATEGIES", "DRAWS", "CASES", "FAULTS", "NARROW_CORES", "WIDE_CORES")


def operator_files() -> list[str]:
    """Return the names of the hardware operators: files of ``ops/`` with a class that has a circuit."""
    files = sorted((CHECKOUT / "onnx_hw" / "ops").glob("*.py"))
    return [path.stem for path in files if path.stem != "operator" and "    def core(self" in path.read_text("utf-8")]


@cache
def load(name: str) -> ModuleType:
    """Return the module of a core's test file, which must define all that is listed above."""
    path = CHECKOUT / "tests" / "ops" / f"test_{name}.py"
    spec = importlib.util.spec_from_file_location(f"core_tests.{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    missing = [offer for offer in OFFERS if not hasattr(module, offer)]
    assert not missing, f"{path} must define {', '.join(missing)}: see tests/support/core_tests.py"
    return module


def collect(offer: str) -> dict[str, Any]:
    """Return the entries of a table of all test files, in the order of the files' names."""
    entries: dict[str, Any] = {}
    for name in operator_files():
        table = getattr(load(name), offer)
        twice = entries.keys() & table.keys()
        assert not twice, f"{offer} of test_{name}.py repeats names of other cores: {sorted(twice)}"
        entries |= table
    return entries
