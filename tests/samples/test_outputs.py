"""Outputs that are no numbers: texts, and a map from labels to numbers for each row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_hw.messages.errors import UserError
from onnx_hw.samples.outputs import answers_of, share_right
from onnx_hw.samples.read_samples import write_samples
from onnx_hw.samples.samples import stack_outputs

FRAMES = [{"label": np.array([text], object), "maps": [{"a": a, "b": 1 - a}]} for text, a in (("a", 0.75), ("b", 0.25))]
OUTPUTS = stack_outputs(FRAMES)


def test_answers_are_the_places_of_the_greatest_numbers() -> None:
    assert answers_of(OUTPUTS, 2).tolist() == [0, 1]
    assert share_right(OUTPUTS, np.array([0, 0])) == 0.5
    assert answers_of({"y": np.array([[7], [3]])}, 2).tolist() == [7, 3]
    with pytest.raises(UserError, match="labels are compared with an output of numbers; `label` holds texts"):
        answers_of({"label": OUTPUTS["label"]}, 2)


def test_a_file_holds_texts_and_a_field_for_each_label(tmp_path: Path) -> None:
    write_samples(tmp_path / "y.npz", OUTPUTS)
    with np.load(tmp_path / "y.npz") as stored:
        assert stored["label"].tolist() == [["a"], ["b"]]
        assert stored["maps"]["a"].tolist() == [[0.75], [0.25]] and stored["maps"]["b"].tolist() == [[0.25], [0.75]]
