"""Errors and warnings of the Python functions name keywords, and every option of the command line is one."""

import inspect

import pytest

import onnx_hw
from onnx_hw.api.keywords import OPTIONS, in_keywords
from onnx_hw.cli.build import build
from onnx_hw.cli.infer import infer


@pytest.mark.parametrize(
    ("said", "keyword"),
    [
        ("`--multipliers 3` fits: 3 lanes", "`multipliers=3` fits: 3 lanes"),
        ("`--board icebreaker` fits", '`board="icebreaker"` fits'),
        ("without --multipliers, `--fps 12.5` fits", "without multipliers, `fps=12.5` fits"),
        ("(--multipliers)", "(multipliers)"),
        ("`--port sim` simulates the whole chip", '`port="sim"` simulates the whole chip'),
        ("--clock", "clock_mhz"),
        ("`--state h:hn` keeps it", '`state={"h": "hn"}` keeps it'),
        ("--bits weights=12 loses less", 'bits={"weights": 12} loses less'),
        ("`--bits weights=4,data=4`", '`bits={"weights": 4, "data": 4}`'),
        ("give real samples with --calibration", "give real samples with calibration"),
        ("`--no-gate-level`", "`gate_level=False`"),
        ("`--no-witness`", "`witness=False`"),
        ("`--no-bitstream-check`", "`bitstream_check=False`"),
        ("build it without --stop-after", "build it without stop_after"),
        ("--dim NAME=NUMBER", 'dimensions={"NAME": NUMBER}'),
        ("`onnx-hw program DIR --flash` writes it", "`onnx-hw program DIR --flash` writes it"),
        ("`onnx-hw build MODEL --board ...` makes one", "`onnx-hw build MODEL --board ...` makes one"),
        ("`onnx-hw infer DIR --port sim`, or --port", "`onnx-hw infer DIR --port sim`, or port"),
        ("each of --bits and --sqnr sets the bits", "each of bits and sqnr sets the bits"),
    ],
)
def test_options_become_keywords(said: str, keyword: str) -> None:
    assert in_keywords(said) == keyword


@pytest.mark.parametrize("function", [onnx_hw.build, onnx_hw.infer, onnx_hw.quantize, onnx_hw.update])
def test_every_keyword_has_a_type(function: object) -> None:
    for parameter in inspect.signature(function).parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty
        assert parameter.kind is not inspect.Parameter.VAR_KEYWORD


def test_options_that_are_translated_exist() -> None:
    known = {name.removeprefix("--") for option in (*build.params, *infer.params) for name in option.opts}
    assert known >= OPTIONS
    assert known - OPTIONS <= {"model", "folder", "json", "-v", "verbose", "self-test"}
