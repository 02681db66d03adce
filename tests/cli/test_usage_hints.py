"""Next steps that the command line gives for a wrong value, a missing file and a folder that is no build."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_hw.messages.errors import user_error
from onnx_hw.messages.near_paths import hint_for_build_folder, hint_for_missing_file
from onnx_hw.messages.toml import read_toml
from support.cli_runner import Instead, call
from support.fixture_paths import EXAMPLES

DIGITS = str(EXAMPLES / "digits" / "digits.onnx")


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands may write into the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("build m.onnx --stop-after synthesis", "did you mean `synthesize`?"),
        ("build m.onnx --stop-after sim", "did you mean `simulate`?"),
        ("run m.onnx --inputs x --engine gate", "did you mean `gates`?"),
        ("verify folder --stalls al", "did you mean `all`?"),
        ("build m.onnx --multipliers 4,8", "`onnx-hw explore` tries several values"),
        ("build m.onnx --fps 30Hz", "`--fps 24` means 24 fps"),
        ("check m.onnx --fps fast", "`--fps 24` means 24 fps"),
        ("build m.onnx --clock 1GHz", "`--clock 24` means 24 MHz"),
        ("build m.onnx --hepl", "did you mean `--help`?"),
        ("check m.onnx --board ice40", "`icebreaker`, "),
        ("check m.onnx --board LFE5U-25F", "`icepi_zero`, "),
        ("check m.onnx --board lfe5u-85f-6", "`ulx3s`, "),
        ("check m.onnx --board ulx3s_85f", "did you mean `ulx3s` (LFE5U-85F), `ulx3s_12f` (LFE5U-12F) or "),
        ("check m.onnx --board icebraker", "did you mean `icebreaker` (iCE40UP5K)?"),
        ("check m.onnx --board arty", "`verilog` writes Verilog for any other chip"),
        ("cache --prune 10", "`main cache --help` shows how it is used"),
    ],
)
def test_next_step_for_a_wrong_value(arguments: str, hint: str) -> None:
    done = call(*arguments.replace("m.onnx", DIGITS).split())
    (said,) = (line for line in done.stderr.splitlines() if line.startswith("  hint"))
    assert done.exit_code == 1 and hint in said


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [("--clock 24MHz", "clock_mhz", 24.0), ("--fps 30fps", "fps", 30.0), ("--latency 500us", "latency_us", 500.0),
     ("--clock 24", "clock_mhz", 24.0)],
)  # fmt: skip
def test_a_number_may_have_its_unit(given: str, field: str, value: float) -> None:
    asked = Instead(build=lambda options, *_: options)
    call("build", "m.onnx", *given.split(), by=asked)
    assert getattr(asked.asked[0].scheduling, field) == value


def test_explore_takes_units_too() -> None:
    done = call("explore", DIGITS, "--clock", "30MHz,40", "--board", "ecp5,up5k", "--stop-after", "schedule")
    assert done.exit_code == 0 and "4 choices" in done.stderr


def test_the_file_that_may_have_been_meant() -> None:
    for name in ("digits/digits_calibration.npz", "digits/digits_test.npz", "digits/digits.onnx"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    for missing, near in (
        ("digits/calibration.npz", "digits/digits_calibration.npz"),
        ("digits/digits_calibrtion.npz", "digits/digits_calibration.npz"),
        ("digit/digits.onnx", "digits/digits.onnx"),
    ):
        assert hint_for_missing_file(Path(missing)) == f"did you mean `{near}`?"
    assert hint_for_missing_file(Path("digits/x.npz"), "write it") == "write it"  # no typing error of any other
    assert hint_for_missing_file(Path("digits/calibration.npy"), "write it") == "write it"
    assert hint_for_missing_file(Path("digits/digits.onnx"), "it is there") == "it is there"
    assert hint_for_missing_file(Path("elsewhere/x.npz")) == "there is no folder `elsewhere`"
    assert hint_for_missing_file(Path("x" * 5000), "too long") == "too long"


def test_the_build_that_may_have_been_meant() -> None:
    for name in ("digits-icebreaker", "digits-ulx3s", "other-ecp5"):
        Path(name).mkdir()
        Path(name, "report.json").touch()
    assert hint_for_build_folder(Path("digits/digits.onnx"), "report.json", "") == (
        "did you mean `digits-icebreaker` or `digits-ulx3s`?"
    )
    assert hint_for_build_folder(Path("othr-ecp5"), "report.json", "") == "did you mean `other-ecp5`?"
    assert hint_for_build_folder(Path("nowhere"), "report.json", "build one") == "build one"
    for command in ("report", "verify", "program"):
        assert "did you mean `digits-icebreaker`" in call(command, "digits-icebreker").stderr


def test_a_file_with_a_byte_order_mark_is_toml() -> None:
    Path("bits.toml").write_bytes(b"\xef\xbb\xbf[weights]\nconv1 = 4\n")
    assert read_toml(Path("bits.toml"), 100, lambda must_be: user_error("x", must_be)) == {"weights": {"conv1": 4}}
