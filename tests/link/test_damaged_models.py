"""``model.json`` of anybody's making: every wrong field is named, before anything is computed with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw_link.host_model import FILE, HostModel, NotOurs

MODEL: dict[str, Any] = {
    "format": 2,
    "name": "small",
    "protocol": 2,
    "digest": "00" * 16,
    "clock_hz": 10**7,
    "baud": 10**6,
    "input_buffer": 512,
    "output_buffer": 512,
    "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
    "outputs": ["y"],
    "streams_in": [
        {"name": "e0", "beats": 2, "width": 1, "bits": 8, "signed": True, "value": "x_int8", "places": [0, 1]}
    ],
    "streams_out": [{"name": "e1", "beats": 1, "width": 2, "bits": 8, "signed": True}],
    "turns_in": [[0, 2]],
    "turns_out": [[0, 1]],
    "values_out": [{"value": "y_int8", "stream": 0, "places": [0, 1], "shape": [2], "dtype": "int8"}],
    "head": [{"op": "QuantizeLinear", "inputs": ["x", "scale", "zero"], "output": "x_int8", "attributes": {}}],
    "tail": [
        {"op": "DequantizeLinear", "inputs": ["y_int8", "scale", "zero"], "output": "y_real", "attributes": {}},
        {"op": "Add", "inputs": ["y_real", "scale"], "output": "y", "attributes": {}},
    ],
    "constants": {
        "scale": {"dtype": "float32", "shape": [], "data": [0.5]},
        "zero": {"dtype": "int8", "shape": [], "data": [0]},
    },
    "elsewhere": [],
}


def used(data: Any) -> None:
    """Send a frame and read its results, as the driver does."""
    model = HostModel.of(data)
    _, values = model.entering({"x": np.ones(2, np.float32)})
    model.leaving(bytes(model.link.output_bytes), values)


def changed(*path: str | int, value: Any) -> dict[str, Any]:
    data = deepcopy(MODEL)
    inner: Any = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return data


def test_the_sound_one() -> None:
    used(MODEL)


CASES: list[tuple[tuple[str | int, ...], Any, str]] = [
    (("digest",), "00" * 5, "the digest must have 16 bytes, not 5"),
    (("digest",), "zz" * 16, "`digest` must be hexadecimal digits"),
    (("streams_in", 0, "places"), [0], "`streams_in[0].places` must be 2 whole numbers"),
    (("streams_in", 0, "places"), [0, 2], "places of `x_int8`, which has 2 elements"),
    (("streams_in", 0, "bits"), 10**9, "`streams_in[0].bits` must be a whole number in 1 .. 64, not 1000000000"),
    (("streams_in", 0, "beats"), 10**12, "`streams_in[0].beats` must be a whole number"),
    (("streams_in", 0, "signed"), "no", "`streams_in[0].signed` must be true or false, not 'no'"),
    (("streams_in", 0, "value"), "z", "model.json must say how the host computes `z`"),
    (("values_out", 0, "places"), [0, 2], "`values_out[0].places` must be 2 whole numbers in 0 .. 1"),
    (("values_out", 0, "shape"), [10**9, 10**9], "`values_out[0].shape` must be lengths whose product is at most"),
    (("values_out", 0, "dtype"), "object", "`values_out[0].dtype` must be an element type of numpy, not 'object'"),
    (("values_out", 0, "stream"), 1, "`values_out[0].stream` must be a whole number in 0 .. 0, not 1"),
    (("head", 0, "op"), "Conv", "`head[0].op` must be an operator of the host, not 'Conv'"),
    (("head", 0, "attributes"), {"bits": 10**9}, "`head[0].attributes.bits` must be 0 .. 64"),
    (("head", 0, "attributes"), {"depth": 1}, "`head[0].attributes.depth` must be an attribute of QuantizeLinear"),
    (("tail", 1, "attributes"), {"out": 1}, "`tail[1].attributes.out` must be an attribute of Add"),
    (("tail", 0, "inputs"), ["q"], "`tail[0].inputs[0]` must be the name of a value that is known by then, not 'q'"),
    (("tail", 0, "inputs"), ["y_int8"], "an operator of model.json must fit its inputs"),
    (("constants", "scale", "shape"), [10**12], "`constants.scale.shape` must be lengths whose product is at most"),
    (("constants", "scale", "shape"), [3], "`constants.scale.shape` must be that of 1 elements"),
    (("constants", "zero", "dtype"), "V1000000000", "`constants.zero.dtype` must be an element type of numpy"),
    (("inputs", 0, "shape"), [-1], "`inputs[0].shape` must be lengths"),
    (("turns_in",), [[0, 1]], "the input_turns must be those of [2] beats, not [1]"),
    (("outputs",), ["z"], "`outputs[0]` must be the name of a value, not 'z'"),
    (("name",), [[[]]], "`name` must be a text, not what is nested"),
]


@pytest.mark.parametrize(("path", "value", "told"), CASES, ids=lambda case: "" if isinstance(case, str) else repr(case))
def test_a_wrong_field_is_named(path: tuple[str | int, ...], value: Any, told: str) -> None:
    with pytest.raises(NotOurs) as refused:
        used(changed(*path, value=value))
    assert told in str(refused.value)


@pytest.mark.parametrize("field", sorted({*MODEL} - {"format", "protocol"}))
def test_a_missing_field_is_named(field: str) -> None:
    data = {name: value for name, value in MODEL.items() if name != field}
    with pytest.raises(NotOurs, match=f"`{field}` must be there"):
        HostModel.of(data)


def test_results_that_no_memory_holds_are_refused() -> None:
    """The sum of a row and a column of 20,000 has 400 million elements."""
    data = deepcopy(MODEL)
    for name, shape in (("row", [1, 20_000]), ("column", [20_000, 1])):
        data["constants"][name] = {"dtype": "float32", "shape": shape, "data": [0.0] * 20_000}
    data["tail"].append({"op": "Add", "inputs": ["row", "column"], "output": "large", "attributes": {}})
    with pytest.raises(NotOurs, match="Add makes 400,000,000 elements, more than 67,108,864"):
        used(data)


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda file: file.write_text("[" * 200_000 + "]" * 200_000), "it is nested too deep"),
        (lambda file: file.write_bytes(bytes(100)), "it is no JSON"),
        (lambda file: file.mkdir(), "it is no file"),
    ],
)
def test_files_that_hold_no_object(write: Callable[[Path], Any], told: str, tmp_path: Path) -> None:
    write(tmp_path / FILE)
    with pytest.raises(NotOurs, match=told):
        HostModel.read(tmp_path)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(data=st.data())
def test_anything_in_any_place_is_taken_or_refused(data: st.DataObject) -> None:
    path: list[Any] = []
    inner: Any = MODEL
    while isinstance(inner, dict | list) and inner and (not path or data.draw(st.booleans())):
        keys = sorted(inner) if isinstance(inner, dict) else list(range(len(inner)))
        path.append(data.draw(st.sampled_from(keys)))
        inner = inner[path[-1]]
    try:
        used(json.loads(json.dumps(changed(*path, value=data.draw(ANYTHING)))))
    except NotOurs:
        pass
