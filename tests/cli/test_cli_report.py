"""``onnx-hw report``: one build, two builds, and folders that are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from onnx_hw.report.model import Report
from onnx_hw.report.read import read_report
from support.cli_runner import Instead, call
from support.sample_report import FULL


def written(folder: Path, told: Report) -> Path:
    folder.mkdir()
    told.write(folder / "report.json")
    return folder


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Instead:
    """Notes which page would be shown."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return Instead(open=lambda page: None)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    early = Report(FULL.model, FULL.board)
    assert read_report(written(tmp_path / "a", FULL)) == FULL
    assert read_report(written(tmp_path / "b", early)) == early


def test_a_page_for_a_build(tmp_path: Path, opened: Instead) -> None:
    folder = written(tmp_path / "out", FULL)
    done = call("report", folder, by=opened)
    assert done.exit_code == 0 and "conv1" in done.stdout and str(folder / "report.html") in done.stderr
    ElementTree.parse(folder / "report.html")
    assert opened.asked == []
    call("report", folder, "--open", by=opened)
    assert opened.asked == [(folder.resolve() / "report.html").as_uri()]


def test_where_there_is_a_screen_the_page_is_opened(
    tmp_path: Path, opened: Instead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    folder = written(tmp_path / "out", FULL)
    call("report", folder, by=opened)
    call("report", folder, "--no-open", by=opened)
    assert len(opened.asked) == 1


def test_two_builds_side_by_side(tmp_path: Path, opened: Instead) -> None:
    assert FULL.design is not None
    core = replace(FULL.design.nodes[0], cycles=640, name="conv<0>")
    other = replace(FULL, design=replace(FULL.design, interval_cycles=640, nodes=(core, FULL.design.nodes[1])))
    one, two = written(tmp_path / "one", FULL), written(tmp_path / "two", other)
    done = call("report", one, two, by=opened)
    assert done.exit_code == 0
    (interval,) = (line for line in done.stdout.splitlines() if "interval" in line)
    assert interval.split() == ["interval", "1,152", "cycles", "640", "cycles"]
    text = (one / "compared.html").read_text(encoding="utf-8")
    rows = [row for row in ElementTree.fromstring(text).iter() if row.tag.endswith("}tr") and row.get("class") == "hot"]
    marked = ["".join(cell.itertext()).strip() for row in rows for cell in list(row)[:1]]
    assert {"interval", "conv1", "conv<0>"} <= set(marked) and "conv2" not in marked and "model" not in marked


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "is not there"),
        ("{", "it is not JSON"),
        ("[]", "Expected `object`, got `array`"),
        ('{"model": {}}', "required field `name` - at `$.model`"),
        (FULL.to_json().replace('"macs": 23680', '"macs": true', 1), "got `bool` - at `$.model.macs`"),
        (FULL.to_json().replace('"turns": 64', '"turns": 64, "again": 1'), "`$.io[0].loops[0].again` must be left out"),
    ],
)
def test_what_is_no_build_is_refused(tmp_path: Path, opened: Instead, text: str | None, told: str) -> None:
    if text is not None:
        (tmp_path / "report.json").write_text(text)
    done = call("report", tmp_path, by=opened)
    assert done.exit_code == 1 and told in done.stderr and "bug" not in done.stderr
