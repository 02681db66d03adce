"""The benchmarks still run: scripts that nothing else calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.fixture_paths import CHECKOUT, EXAMPLES


def test_models_are_built_and_told_row_by_row(tmp_path: Path) -> None:
    """One of them cannot be read."""
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    digits = EXAMPLES / "digits" / "digits.onnx"
    script = [sys.executable, CHECKOUT / "benchmarks" / "build_models.py", digits, broken]
    options = ["--until", "schedule", "--multipliers", "20", "--json", tmp_path / "facts.json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([*script, *options], env=environment, capture_output=True, text=True, check=True)  # type: ignore[list-item]
    head, good, bad = done.stdout.splitlines()
    assert head.split()[:3] == ["read", "quantize", "schedule"]
    assert good.startswith("digits") and bad.startswith("broken") and "error" in bad
    facts = json.loads((tmp_path / "facts.json").read_text())[str(digits)]
    assert facts["seconds"].keys() == {"read", "quantize", "schedule"} <= facts["memory"].keys()
    assert all(10 < mib < 4000 for mib in facts["memory"].values())
    assert facts["golden_ms"] > 0 and facts["reference_ms"] > 0 and facts["design"]["lanes"] <= 20
