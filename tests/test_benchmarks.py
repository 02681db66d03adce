"""The benchmarks still run: scripts that nothing else calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_networks_are_drawn_and_judged() -> None:
    script = [sys.executable, CHECKOUT / "benchmarks" / "exporter_networks.py", "2", "--seed", "2", "--list"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=True)
    assert "accepted            100.0% with samples at hand" in done.stdout
    assert "100.000% of" in done.stdout


def test_drawn_floats_are_quantized_by_both() -> None:
    """A dense network, of which onnxruntime leaves nothing in floats: integers at the output cost it something."""
    script = [sys.executable, CHECKOUT / "benchmarks" / "drawn_quantization.py", "1", "--calibration", "16"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=True)
    _, row, _, _, kind, whole = done.stdout.splitlines()
    sums, best_sums, few, best_few = map(float, row.removeprefix("dense0").split())
    assert 20 < few < sums < 50 and 15 < best_few < best_sums < 50
    _, better, mean, least, *of_few = kind.split()
    assert better == f"{sums > best_sums:d}/1" and mean == least and abs(float(mean) - (sums - best_sums)) < 0.02
    assert whole.split() == ["all", better, mean, least, *of_few]


def test_circuits_are_drawn_and_proven() -> None:
    script = [sys.executable, CHECKOUT / "benchmarks" / "random_circuits.py", "2", "add", "chains"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=True)
    core, networks = done.stdout.splitlines()
    assert core.startswith("add: 2 cases, none wrong")
    assert networks.startswith("chains: 2 networks, ") and "0 stop as predicted, none wrong" in networks


@pytest.mark.slow
def test_soft_multipliers_take_what_they_are_said_to_take() -> None:
    """72 look-up tables for 8 × 8 bits on an ECP5, fewer in proportion; known integers on average."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    script = [sys.executable, CHECKOUT / "benchmarks" / "soft_multipliers.py", "--widest", "8", "--constants", "20"]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=True)
    _, *rows, total = (line.split() for line in done.stdout.splitlines())
    counted = {}
    for a, *cells in (list(map(int, row)) for row in rows[:8]):
        counted |= {(a, b): pair for b, pair in enumerate(zip(cells[::2], cells[1::2], strict=True), 1)}
    assert len(counted) == 36 and all(abs(count - estimate) <= 2 for count, estimate in counted.values())
    assert all(count == estimate for (a, _), (count, estimate) in counted.items() if a >= 5)
    assert counted[8, 8][0] <= 80 and counted[8, 4][0] <= 36 and counted[8, 2][0] <= 16
    found, estimated = int(total[1].rstrip(",")), int(total[2])
    assert 0.85 * found < estimated < 1.15 * found < 20 * 40
