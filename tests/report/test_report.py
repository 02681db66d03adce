"""report.json against its schema; the generated files in docs/ against the dataclasses."""

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

from onnx_hw.report.json_schema import DESCRIPTION_FILE, SCHEMA_FILE, description, json_schema, keys, sections
from onnx_hw.report.model import Report
from support.fixture_paths import CHECKOUT
from support.sample_report import FULL

PUBLISHED = json.loads((CHECKOUT / "docs" / SCHEMA_FILE).read_text(encoding="utf-8"))


def without(data, *path):
    *outer, last = path
    for key in outer:
        data = data[key]
    del data[last]


def test_published_files_are_the_generated_ones():
    regenerate = "run `python -m onnx_hw.report.json_schema docs`"
    assert json_schema() == PUBLISHED, regenerate
    assert description() == (CHECKOUT / "docs" / DESCRIPTION_FILE).read_text(encoding="utf-8"), regenerate


def test_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)


def test_full_report_is_valid():
    jsonschema.validate(json.loads(FULL.to_json()), PUBLISHED)


def test_report_of_an_early_stop_is_valid():
    early = json.loads(Report(FULL.model, FULL.board).to_json())
    jsonschema.validate(early, PUBLISHED)
    assert early["synthesis"] is None
    assert early["io"] == []


@pytest.mark.parametrize(
    "path", [("model", "macs"), ("design", "fifos", 0, "rate_depth"), ("simulation",), ("io", 0, "beats_per_frame")]
)
def test_a_missing_key_is_invalid(path):
    data = json.loads(FULL.to_json())
    without(data, *path)
    with pytest.raises(jsonschema.ValidationError, match=f"'{path[-1]}' is a required property"):
        jsonschema.validate(data, PUBLISHED)


@pytest.mark.parametrize(("section", "key", "value"), [("model", "macs", "many"), ("model", "size", 1)])
def test_a_wrong_or_unknown_key_is_invalid(section, key, value):
    data = json.loads(FULL.to_json())
    data[section][key] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, PUBLISHED)


def test_every_key_says_what_it_means():
    for section in sections():
        assert section.__doc__
        for name, meaning in keys(section):
            assert len(meaning) > 5, f"{section.__name__}.{name}"


def test_numbers_of_numpy_are_written_as_numbers(tmp_path):
    odd = replace(FULL, seconds={"read": np.float32(0.5)}, model=replace(FULL.model, macs=np.int64(7)))  # type: ignore[dict-item]
    odd.write(tmp_path / "report.json")
    data = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (data["seconds"]["read"], data["model"]["macs"]) == (0.5, 7)
    jsonschema.validate(data, PUBLISHED)


def test_no_number_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        replace(FULL, seconds={"read": float("nan")}).to_json()
