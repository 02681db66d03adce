"""Libraries and values that pages embed; the page of an exploration."""

from __future__ import annotations

import hashlib
import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from onnx_hw.commands.explore.grid import Choice
from onnx_hw.commands.explore.report import page
from onnx_hw.commands.explore.result import Explored, Tally
from onnx_hw.commands.explore.row import ExploreRow, State, with_front
from onnx_hw.messages.html import duration, figures
from onnx_hw.messages.page_scripts import LIBRARIES, TEMPLATES, embedded, json_of
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw_boards.cells import Cells
from support.page_checks import check_page, data_of, words

HOSTILE = "<b>&\"'</script><img src='http://x'>\x1b[2J\u202e{{ 7 * 6 }}]]>"


def explored(name: str = "digits", accuracies: tuple[float | None, ...] = 4 * (None,)) -> str:
    rows = with_front(
        ExploreRow(
            lanes,
            Choice(board="icebreaker", scheduling=ScheduleRequest(multipliers=lanes)),
            f"onnx-hw build {name} --multipliers {lanes}",
            State.PLANNED,
            lanes=lanes,
            interval=9_216 // lanes,
            estimate=Cells(500 * lanes, 3_000, lanes, 0),
            frames_per_second=2e6 * lanes,
            accuracy=accuracies[lanes - 1],
        )
        for lanes in range(1, 5)
    )
    refused = ExploreRow(5, replace(rows[0].choice, seed=5), name, State.REFUSED, "too few lanes")
    return page(Explored(Path(), rows=(*rows, refused), tally=Tally(), seconds=1.0), name)


def test_libraries_are_as_published_and_bring_their_licences():
    for library in LIBRARIES:
        for name, sha256 in library.sha256.items():
            assert hashlib.sha256((TEMPLATES / "vendor" / name).read_bytes()).hexdigest() == sha256
            text = str(embedded(name))
            assert library.version in text and "Permission is hereby granted" in text
            assert "sourceMappingURL" not in text


def test_every_choice_is_a_row_and_every_built_one_a_point():
    text = explored()
    root = check_page(text)
    rows = {element.get("id") for element in root.iter() if element.get("data-row")}
    assert rows == {f"row-{number}" for number in range(1, 6)}
    plotted = data_of(text)["explored"]
    assert [point["number"] for point in plotted["rows"]] == [1, 2, 3, 4]
    assert [axis["label"] for axis in plotted["axes"]] == ["LUT4", "multipliers"], "no design has block RAMs"
    assert plotted["rows"][1]["values"] == {"LUT4": 1_000, "multipliers": 2}
    assert "8,000,000" in words(text) and "MHz" not in words(text), "nothing was routed"
    assert text.count('<code class="command">') == 5


def test_accuracy_is_a_column_and_an_axis_where_rows_differ_in_it():
    text = explored(accuracies=(0.9, 0.95, 0.95, 0.97))
    plotted = data_of(text)["explored"]
    assert plotted["axes"][-1] == {"key": "accuracy, %", "label": "accuracy, %", "from_zero": False}
    assert [round(row["values"]["accuracy, %"], 6) for row in plotted["rows"]] == [90, 95, 95, 97]
    assert "95.00" in words(text) and "and a higher accuracy" in words(text)
    alike = explored(accuracies=4 * (0.9,))
    assert "90.00" in words(alike) and len(data_of(alike)["explored"]["axes"]) == 2
    assert "accuracy" not in words(explored()), "unknown everywhere"


def test_names_do_not_leave_their_place():
    text = explored(HOSTILE)
    check_page(text)
    assert not any(part in text for part in ("<b>&", "\x1b", "\u202e"))


def test_json_is_the_value_whatever_characters_it_has():
    value = {"a": [HOSTILE.replace("\x1b", "").replace("\u202e", ""), 1.5, None, True], "<": {"b": ()}}
    text = str(json_of(value))
    assert json.loads(text) == {**value, "<": {"b": []}} and not set("<>&") & set(text)
    with pytest.raises(ValueError, match="JSON"):
        json_of([math.nan])


def test_no_figure_has_a_power_of_ten():
    draw = random.Random(1)
    for _ in range(500):
        number = draw.choice((-1, 1)) * 10 ** draw.uniform(-12, 12)
        digits = draw.randint(2, 5)
        text = figures(number, digits)
        assert "e" not in text and float(text.replace(",", "")) == pytest.approx(number, rel=0.51 * 10 ** (1 - digits))
    assert [figures(n, 3) for n in (2604.2, 999.96, 0.5, 100, 0)] == ["2,604", "1,000", "0.5", "100", "0"]
    assert duration(1234.6) == "1,235 s" and duration(0.00012) == "120 µs"
