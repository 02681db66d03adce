"""Bits that a user asks for: on the command line, and of single layers and values in a file."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from onnx_hw import flow
from onnx_hw.cli.cli import main
from onnx_hw.cli.option_groups import widths
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.matmul import MatMul
from onnx_hw.quantization.scheme import Precision
from onnx_hw.quantization.scheme_from_options import scheme_from_options
from onnx_hw.runtime.options import QuantizeOptions
from support.fixture_paths import EXAMPLES

DIGITS = EXAMPLES / "digits"


def test_nothing_asked_for_is_no_scheme() -> None:
    assert scheme_from_options(QuantizeOptions()) is None


def test_bits_of_all_and_of_single_ones(tmp_path: Path) -> None:
    """They reach the circuit: as weights of so many bits, and as streams."""
    model = flow.read(DIGITS / "digits_float.onnx")
    with np.load(DIGITS / "digits_calibration.npz") as stored:
        frames = {"image": stored["image"][:8]}
    first, *_, last = (node.label for node in model.graph.nodes if node.op_type in ("Conv", "Gemm", "MatMul"))
    file = tmp_path / "bits.toml"
    file.write_text(f'[weights]\n"{last}" = 3\n')
    scheme = scheme_from_options(QuantizeOptions(weights=5, data=9, precision=file))
    assert scheme is not None and scheme.data == Precision(9) and scheme.weight_precision(first).bits == 5
    network = flow.quantize(model, frames, scheme)
    largest = [int(np.abs(n.operator.weights).max()) for n in network.nodes if isinstance(n.operator, MatMul)]
    assert all(7 < most <= 15 for most in largest[:-1]) and largest[-1] <= 3
    assert {grid.bits for grid in network.grids.values()} == {9}


@pytest.mark.parametrize("bits", ["weights", "weights=x", "bias=3", "weights=4,weights=5", "data=999", ""])
def test_bits_that_are_none(bits: str) -> None:
    done = CliRunner().invoke(main, ["run", "m.onnx", "--inputs", "x.npz", "--bits", bits])
    assert done.exit_code == 1 and "weights=N, data=N or both" in done.output


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[weights]\nx = 1", "`x` in [weights] must be 2 to 16"),
        ("[data]\nx = 17\ny = true", "`x` in [data] must be 1 to 16"),
        ("[date]\nx = 8", "there must be tables [weights] and [data], and nothing else"),
        ("data = 8", "there must be tables"),
        ("[data", "must be TOML"),
    ],
)
def test_files_that_say_nothing_true(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "bits.toml").write_text(text)
    with pytest.raises(UserError) as refused:
        scheme_from_options(QuantizeOptions(precision=tmp_path / "bits.toml"))
    assert told in str(refused.value) and "bits.toml" in str(refused.value)


def test_what_cannot_be() -> None:
    for asked, told in (
        (QuantizeOptions(weights=1), "2 to 16 bits, not 1"),
        (QuantizeOptions(data=0), "1 to 16 bits, not 0"),
    ):
        with pytest.raises(UserError, match=told):
            scheme_from_options(asked)
    with pytest.raises(UserError, match="readable"):
        scheme_from_options(QuantizeOptions(precision=Path("nowhere.toml")))


@pytest.mark.parametrize(
    ("text", "bits"),
    [("4", {"weights": 4, "data": 4}), ("weights=4", {"weights": 4}), (" 12 ", {"weights": 12, "data": 12})],
)
def test_one_number_is_for_weights_and_data(text: str, bits: dict[str, int]) -> None:
    context = click.Context(main)
    assert widths(context, click.Option(["--bits"]), text) == bits
    with pytest.raises(click.BadParameter, match="it must be N, or weights=N"):
        widths(context, click.Option(["--bits"]), "4,5")
