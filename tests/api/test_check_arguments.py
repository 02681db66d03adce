"""Arguments of the Python functions: numbers of numpy are taken, other types are refused by the keyword's name."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnx_hw
from onnx_hw.api.check_arguments import ARGUMENTS
from support.fixture_paths import EXAMPLES
from support.tiny_float_model import IMAGES, tiny_float_model

FUNCTIONS = (onnx_hw.build, onnx_hw.infer, onnx_hw.quantize, onnx_hw.update)

NUMBERS: tuple[Any, ...] = (2.5, "3", True, [3], b"3", 1j)
WRONG: dict[str, tuple[Any, ...]] = {
    "a whole number": NUMBERS,
    "a number": NUMBERS[1:],
    "a text": (3, b"sim", Path("sim")),
    "a name or a path": (5, b"x", ["x"], True),
    "True or False": ("no", 0, 1.0, []),
    "names of tensors": (5, [1], {"a": 1}.items()),
    "sizes by the names of dimensions": (5, {"n": "3"}, {1: 3}, ["n"]),
    "True, False or an object that receives the progress": (3, "yes"),
    "the result of `onnx_hw.build`, or the folder of a build": (5, b"x", None),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_other_types_are_refused_by_name(name: str) -> None:
    taking = [function for function in FUNCTIONS if name in inspect.signature(function).parameters]
    assert taking
    for function in taking:
        for given in WRONG[ARGUMENTS[name][0]]:
            needed = {"inputs": IMAGES, "build": "nowhere"} if function in (onnx_hw.infer, onnx_hw.update) else {}
            if function is not onnx_hw.infer:
                needed["model"] = EXAMPLES / "digits" / "digits.onnx"
            with pytest.raises(onnx_hw.UserError, match=f"`{name}` must be {ARGUMENTS[name][0]}, not"):
                function(**{**needed, name: given})  # type: ignore[operator]


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    narrow = onnx_hw.quantize(tiny_float_model(), IMAGES, bits={"weights": np.int8(4), "data": 6})  # type: ignore[dict-item]
    assert "6 bits" in repr(narrow)
    built = onnx_hw.build(
        narrow,
        board="icebreaker",
        multipliers=np.int64(2),  # type: ignore[arg-type]
        fps=np.float32(3),
        seed=np.int32(5),  # type: ignore[arg-type]
        witness=np.bool_(False),  # type: ignore[arg-type]
        stop_after="schedule",
        out=tmp_path,
    )
    assert built.design is not None


def test_an_unknown_keyword_is_named_by_python() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'boards'"):
        onnx_hw.build("model.onnx", boards="icebreaker")  # type: ignore[call-arg]


@pytest.mark.parametrize("given", [None, "x.npz", Path("x.npz")])
def test_a_path_is_no_array(given: Any) -> None:
    network = onnx_hw.quantize(tiny_float_model(), IMAGES)
    with pytest.raises(onnx_hw.UserError, match="there must be an array of numbers, not"):
        network(given)


def test_a_surplus_array_is_answered_with_the_inputs() -> None:
    with pytest.raises(onnx_hw.UserError, match="no input `img`") as raised:
        onnx_hw.quantize(tiny_float_model(), {"image": IMAGES, "img": IMAGES})
    assert "leave it out: the graph has `image`" in str(raised.value)
