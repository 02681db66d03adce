"""What is far too large for a board is refused before it is quantized, with widths that fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from onnx import TensorProto
from onnx_hw.commands import build_stages, check, early_fit
from onnx_hw.commands.build import build
from onnx_hw.commands.fit_boards import BoardFit, fit_boards
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.runtime.options import BuildOptions, QuantizeOptions
from onnx_hw.runtime.progress import Silent
from onnx_hw.runtime.stage import Stage
from support.onnx_files import model, tensor, value, write

BOARD = "icebreaker"


@pytest.fixture
def asked(tmp_path: Path) -> Callable[..., BuildOptions]:
    """Options of a build of a product of floats with a number of outputs."""

    def options(outputs: int, **bits: int) -> BuildOptions:
        draw = np.random.default_rng(1)
        weights = tensor("w", TensorProto.FLOAT, (200, outputs), draw.normal(size=200 * outputs).astype(np.float32))
        sides = {"inputs": [value("x", (1, 200))], "outputs": [value("y", (1, outputs))]}
        path = write(tmp_path, model([make_node("MatMul", ["x", "w"], ["y"], "fc")], constants=[weights], **sides))
        np.savez(tmp_path / "x.npz", x=draw.normal(size=(4, 1, 200)).astype(np.float32))
        return BuildOptions(
            model=path,
            calibration=tmp_path / "x.npz",
            board=BOARD,
            stop_after=Stage.SCHEDULE,
            out=tmp_path / "out",
            quantizing=QuantizeOptions(**bits),
        )

    return options


def test_refused_before_it_is_quantized(asked: Callable[..., BuildOptions], monkeypatch: pytest.MonkeyPatch) -> None:
    """No sample is looked at. What the hint says is true, and the rates are those of ``onnx-hw boards``."""
    monkeypatch.setattr(build_stages, "SampleRanges", lambda *_: pytest.fail("samples are looked at"))
    options = asked(120)
    with pytest.raises(UserError, match=r"needs (at least )?\d+ block RAMs of 28") as error:
        build(options)
    assert error.value.exit_code == ExitCode.DOES_NOT_FIT
    hint = error.value.problems[0].hint
    bits = re.match(
        r"`--bits weights=(\d),data=(\d)` fits: \d+ lanes, ([\d.]+) frames a second; `--accuracy-loss", hint
    )
    assert bits is not None
    monkeypatch.undo()
    built = build(asked(120, weights=int(bits[1]), data=int(bits[2]))).report
    assert built.serial is not None
    assert float(bits[3]) == pytest.approx(built.serial.delivered_frames_per_second, rel=0.01)
    rates = dict(re.findall(r"`--board (\w+)` fits: \d+ lanes, ([\d.]+) frames", hint))
    assert len(rates) > 3
    some = islice(((board, fit) for board, fit in fit_boards(options.model) if board.name in rates), 2)
    for board, fit in some:
        assert not isinstance(fit, UserError)
        assert float(rates[board.name]) == pytest.approx(fit.frames_per_second, rel=0.01)


def test_bits_decide_the_verdicts_of_check_and_boards(asked: Callable[..., BuildOptions]) -> None:
    wide, narrow = asked(120), asked(120, weights=4, data=4)
    refused = check.check_hardware(wide)
    assert refused is not None and refused.exit_code == ExitCode.DOES_NOT_FIT
    assert check.check_hardware(narrow) is None
    ((_, larger),) = fit_boards(wide.model, (BOARD,))
    ((_, smaller),) = fit_boards(wide.model, (BOARD,), quantizing=narrow.quantizing)
    assert isinstance(larger, UserError) and isinstance(smaller, BoardFit)


def test_the_verdict_is_said_before_the_search_for_widths(
    asked: Callable[..., BuildOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search may take a minute."""
    heard = Silent()

    def search(error: UserError, *_: Any) -> UserError:
        assert [error.problems[0].message in warning for warning in heard.warnings] == [True]
        return error

    monkeypatch.setattr(build_stages, "with_widths_that_fit", search)
    with pytest.raises(UserError, match=r"block RAMs of 28"):
        build(asked(120), heard)


def test_what_fits_is_quantized(asked: Callable[..., BuildOptions], monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that might fit is not refused early."""
    calls: list[int] = []
    original = build_stages.quantize_model

    def counted(*some: Any, **options: Any) -> Any:
        calls.append(1)
        return original(*some, **options)

    monkeypatch.setattr(build_stages, "quantize_model", counted)
    build(asked(8))
    assert calls == [1]


def test_narrowest_integers_are_asked_first(
    asked: Callable[..., BuildOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they are far too large, too, no wider network is made only to say nothing of widths."""
    made: list[int] = []
    original = early_fit.far_too_large

    def counted(*some: Any) -> bool:
        made.append(1)
        return original(*some)

    monkeypatch.setattr(early_fit, "far_too_large", counted)
    with pytest.raises(UserError) as error:
        build(asked(4000))
    assert "`--bits weights" not in error.value.problems[0].hint
    assert len(made) == 2  # with the bits of the build, and with the narrowest


def test_weights_that_no_chip_holds_are_refused_at_once(
    asked: Callable[..., BuildOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No network is made, by ``check`` and by ``build``, and the bits are those of the weights."""
    monkeypatch.setattr(early_fit, "WEIGHTS_BEYOND_DOUBT", 0.05)  # of the 5,172,096 bits of an LFE5U-85F
    monkeypatch.setattr(early_fit, "_assumed", lambda *_: pytest.fail("a network is made"))
    monkeypatch.setattr(check, "quantize_model", lambda *_: pytest.fail("a network is made"))
    options = asked(1000)
    refused = check.check_hardware(options)
    with pytest.raises(UserError) as error:
        build(options)
    for each in (refused, error.value):
        assert each is not None and each.exit_code == ExitCode.DOES_NOT_FIT
        assert "the weights alone need 1,600,000 bits of the 207,360 in" in each.problems[0].message
        assert each.problems[0].where == "most: `fc` 1,600,000"


def test_weights_that_are_computed_of_constants_are_not_computed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standardized weights, of which a large model has too many to compute; unknown operators come first."""
    monkeypatch.setattr(early_fit, "WEIGHTS_BEYOND_DOUBT", 0.05)
    constants = [
        tensor("w", TensorProto.FLOAT, (1000, 200), np.ones(200_000, np.float32)),
        tensor("s", TensorProto.FLOAT, (1,), np.ones(1, np.float32)),
    ]
    made = [make_node("Mul", ["w", "s"], ["scaled"]), make_node("Transpose", ["scaled"], ["turned"])]
    sides = {"inputs": [value("x", (1, 200))], "outputs": [value("y", (1, 1000))]}
    known = write(
        tmp_path, model([*made, make_node("MatMul", ["x", "turned"], ["y"], "fc")], constants=constants, **sides)
    )
    with monkeypatch.context() as patch:
        patch.setattr(check, "prepare_model", lambda *_: pytest.fail("weights are computed"))
        refused = check.check_hardware(BuildOptions(model=known, board=BOARD))
    assert refused is not None and refused.exit_code == ExitCode.DOES_NOT_FIT
    assert "the weights alone need 1,600,000 bits" in refused.problems[0].message
    nodes = [*made, make_node("MatMul", ["x", "turned"], ["z"]), make_node("SVD", ["z"], ["y"], domain="org.example")]
    unknown = write(tmp_path, model(nodes, constants=constants, opset={"": 13, "org.example": 1}, **sides))
    refused = check.check_hardware(BuildOptions(model=unknown, board=BOARD))
    assert refused is not None and refused.problems[0].code == "operator-unsupported"


def test_weights_that_a_chip_may_hold_are_not_refused(
    asked: Callable[..., BuildOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(early_fit, "WEIGHTS_BEYOND_DOUBT", 0.05)
    options = asked(150)  # 240,000 bits
    assert "even the slowest design" in str(check.check_hardware(options))
