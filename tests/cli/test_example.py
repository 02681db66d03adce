"""Command ``onnx-hw example``: files that come with the installation."""

from __future__ import annotations

import runpy
from pathlib import Path
from unittest.mock import patch

import pytest

from onnx_hw.commands import example
from support.cli_runner import call
from support.fixture_paths import CHECKOUT


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_its_files_are_written_and_its_model_can_be_read() -> None:
    done = call("example", "digits")
    assert done.exit_code == 0
    assert done.stdout.split()[0] == "digits/digits.onnx"
    assert done.stderr == "next: `onnx-hw build digits/digits.onnx`\n"
    for file in done.stdout.split():
        assert Path(file).read_bytes() == (CHECKOUT / "examples" / file).read_bytes()
    assert call("check", "digits/digits.onnx", "--onnx-only").exit_code == 0
    assert call("example", "digits", "--out", "mine").stdout.split()[0] == "mine/digits.onnx"


def test_a_file_of_the_user_is_not_overwritten() -> None:
    assert call("example", "digits").exit_code == call("example", "digits").exit_code == 0
    Path("digits/digits.onnx").write_text("mine")
    done = call("example", "digits")
    assert done.exit_code == 1
    assert "error[example-exists]: `digits/digits.onnx` must not be there with other contents" in done.stderr
    assert Path("digits/digits.onnx").read_text() == "mine"


def test_an_unknown_example() -> None:
    done = call("example", "digit")
    assert done.exit_code == 1
    assert done.stderr == "error[unknown-example]: there is no example `digit`\n  hint   did you mean `digits`?\n"


def test_the_wheel_holds_all_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    with patch("setuptools.setup"):
        command = runpy.run_path("setup.py")["BuildWithExamples"]
    build = object.__new__(command)
    build.build_lib = "lib"
    files = {f"lib/onnx_hw/examples/{name}/{file}" for name, files in example.EXAMPLES.items() for file in files}
    assert set(build.examples()) == files
    assert all(Path(source).is_file() for source in build.examples().values())
