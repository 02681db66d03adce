"""What goes wrong most often, through the real command line: one clear message, the right exit code, no traceback."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from onnx_hw.cli.cli import main
from onnx_hw.implement import synthesize  # noqa: F401  # loaded before somebody else has to be able to read its file
from onnx_hw.runtime.stage import Stage
from support.fixture_paths import EXAMPLES

DIGITS, FLOAT = (EXAMPLES / "digits" / name for name in ("digits.onnx", "digits_float.onnx"))
IMAGES = EXAMPLES / "digits" / "digits_test.npz"


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def told(done: Result, exit_code: int, code: str) -> str:
    """The one message of a failed command: what is said after its code."""
    assert done.exit_code == exit_code, done.output
    assert "Traceback" not in done.output
    (said,) = done.stderr.split("error[")[1:]
    assert said.startswith(f"{code}]: "), said
    return said


# ---- the model ------------------------------------------------------------------------------------------------------

PAGE = "<!DOCTYPE html>\n<title>Sign in</title>"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
COMMANDS = {
    "build": ("--out", "out"),
    "run": ("--inputs", IMAGES, "--engine", "golden"),
    "check": (),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        (None, "no-such-file", "did you mean `modal.onnx`?"),
        (PAGE, "html-page", "use the Raw button"),
        (POINTER, "git-lfs-pointer", "git lfs pull"),
        ("", "empty-file", "it is empty"),
        ("truncated", "not-onnx", "it may be truncated"),
    ],
    ids=["missing", "page", "pointer", "empty", "truncated"],
)
def test_what_is_no_model(command: str, content: str | None, code: str, says: str) -> None:
    Path("modal.onnx").write_text("")
    if content == "truncated":
        Path("model.onnx").write_bytes(DIGITS.read_bytes()[:3000])
    elif content is not None:
        Path("model.onnx").write_text(content)
    said = told(call(command, "model.onnx", *COMMANDS[command]), 1, code)
    assert says in said and "where  model.onnx" in said
    assert not Path("model-ecp5").exists()  # a file that is refused leaves no folder


# ---- samples --------------------------------------------------------------------------------------------------------

GOOD = np.zeros((3, 1, 1, 8, 8), np.float32)
SAMPLES = {
    "shape": (GOOD[:, 0, 0], "samples-shape", "[1,1,8,8], or [n,1,8,8] or [n,1,1,8,8] for n samples, not [3,8,8]"),
    "dtype": (GOOD.astype(np.uint8), "samples-dtype", "uint8 leaves open which ones its 0 .. 0 stand for"),
    "nan": (np.where(np.arange(64).reshape(8, 8) == 9, np.float32("nan"), GOOD), "samples-finite", "[0, 0, 0, 1, 1]"),
}


@pytest.mark.parametrize("wrong", SAMPLES)
@pytest.mark.parametrize(
    "command",
    [
        ("run", DIGITS, "--engine", "golden", "--inputs"),
        ("run", DIGITS, "--engine", "reference", "--inputs"),
        ("build", DIGITS, "--out", "out", "--inputs"),
        ("build", FLOAT, "--out", "out", "--calibration"),
        ("run", FLOAT, "--engine", "golden", "--inputs", IMAGES, "--calibration"),
    ],
    ids=lambda command: f"{command[0]} {command[-1]}",
)
def test_samples_that_do_not_fit(command: tuple[object, ...], wrong: str) -> None:
    array, code, says = SAMPLES[wrong]
    np.savez("samples.npz", image=array)
    said = told(call(*command, "samples.npz"), 1, code)
    assert says in said and 'where  samples.npz["image"]' in said
    assert not Path("out").exists()  # a build reads them first


def test_samples_and_calibration_are_refused_at_once() -> None:
    np.savez("samples.npz", image=SAMPLES["shape"][0])
    np.savez("calibration.npz", image=SAMPLES["dtype"][0])
    done = call("build", FLOAT, "--inputs", "samples.npz", "--calibration", "calibration.npz", "--out", "out")
    assert done.exit_code == 1
    assert re.findall(r"^error\[(.*?)\]", done.stderr, re.MULTILINE) == ["samples-shape", "samples-dtype"]
    assert not Path("out").exists()


def test_calibration_without_effect_is_told() -> None:
    np.savez("samples.npz", image=GOOD)
    done = call("build", DIGITS, "--calibration", "samples.npz", "--out", "out", "--stop-after", "quantize")
    assert done.exit_code == 0
    assert "warning: the model brings its scales: --calibration has no effect" in done.stderr
    assert json.loads(Path("out/report.json").read_text())["warnings"]


@pytest.mark.parametrize(
    ("content", "says"), [(PAGE, "it begins with b'<!DOCTYP'"), (POINTER, "git lfs pull"), ("", "it is empty")]
)
def test_samples_that_are_no_samples(content: str, says: str) -> None:
    Path("samples.npz").write_text(content)
    said = told(call("run", DIGITS, "--engine", "golden", "--inputs", "samples.npz"), 1, "samples-format")
    assert says in said and "pickle" not in said


# ---- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_board(command: str) -> None:
    said = told(call(command, DIGITS, *COMMANDS[command], "--board", "epc5"), 1, "unknown-board")
    assert "not `epc5`" in said and "hint   did you mean `ecp5` (LFE5U-85F)?" in said
    assert not Path("out").exists()


def test_a_board_is_looked_for_also_where_none_is_used() -> None:
    told(call("run", DIGITS, "--inputs", IMAGES, "--engine", "reference", "--board", "epc5"), 1, "unknown-board")


# ---- the output folder ----------------------------------------------------------------------------------------------


class Disk:
    """A small disk of our own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.path)], check=True)


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Disk]:
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={request.param}", "tmpfs", str(path)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user cannot mount a small disk")
    yield Disk(path)
    subprocess.run(["umount", "-l", str(path)], check=True)  # lazily: the compiled circuit stays loaded


@pytest.mark.parametrize("disk", ["1m"], indirect=True)
def test_a_read_only_disk(disk: Disk) -> None:
    disk.remount("ro")
    for out in (disk.path, disk.path / "new"):
        said = told(call("build", DIGITS, "--out", out), 1, "output-folder")
        assert "Read-only file system" in said and str(out) in said and "--out" in said
    told(
        call("run", DIGITS, "--inputs", IMAGES, "--engine", "golden", "--out", disk.path / "y.npz"), 1, "samples-write"
    )


def test_a_folder_of_somebody_else() -> None:
    """Root may write everywhere, so root becomes nobody for a moment."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o555)
    model = shutil.copy(DIGITS, place / "digits.onnx") if os.geteuid() == 0 else DIGITS
    before = os.geteuid()
    call("build", DIGITS, "--stop-after", "assemble")  # everything is loaded
    if before == 0:
        os.seteuid(65534)
    try:
        said = told(call("build", model, "--out", place / "out", "--stop-after", "assemble"), 1, "output-folder")
    finally:
        os.seteuid(before)
        place.chmod(0o755)
        shutil.rmtree(place)
    assert "Permission denied" in said and f"`{place / 'out'}`" in said


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_file_is_no_folder(out: str) -> None:
    Path("file").touch()
    assert f"`{out}` is not" in told(call("build", DIGITS, "--out", out), 1, "output-folder")


@pytest.mark.parametrize(
    ("disk", "stages"), [("4k", 3), ("64k", 5), pytest.param("8m", 6, marks=pytest.mark.slow)], indirect=["disk"]
)
def test_a_full_disk(disk: Disk, stages: int) -> None:
    """Wherever it becomes full: the first failure is told, and what is there stays whole."""
    done = call("build", DIGITS, "--out", disk.path / "out", "--multipliers", 12)
    assert done.exit_code == 1 and "Traceback" not in done.output
    (said,) = re.findall(r"^error\[(output-folder|disk)\]: (.*)$", done.stderr, re.MULTILINE)
    assert "No space left on device" in said[1] or "the disk is full" in said[1]
    assert "--out" in done.stderr
    assert done.stderr.count(f"/{len(Stage)}  ") == stages
    left = [path.name for path in (disk.path / "out").iterdir()]
    assert not any(name.endswith(".new") or name.startswith(".synthesis") for name in left)
    if "report.json" in left:
        json.loads((disk.path / "out" / "report.json").read_text())
    disk.remount("size=64m")
    again = call("build", DIGITS, "--out", disk.path / "out", "--multipliers", 12, "--stop-after", "schedule")
    assert again.exit_code == 0 and json.loads((disk.path / "out" / "report.json").read_text())["design"]


@pytest.mark.parametrize("name", ["network.txt", "design.txt", "folding.toml", "report.json"])
def test_a_write_that_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where no disk can be mounted: the kernel's own device for it."""
    write = Path.write_bytes

    def full(self: Path, *arguments: object, **options: object) -> int:
        return write(Path("/dev/full") if name in self.name else self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "write_bytes", full)
    said = told(call("build", DIGITS, "--out", "out", "--stop-after", "schedule"), 1, "output-folder")
    assert f"`{Path('out').resolve() / name}` is not: No space left on device" in said


def test_the_first_failure_is_told_even_if_no_report_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full(self: Path, *arguments: object, **options: object) -> int:
        return write(Path("/dev/full") if "report" in self.name else self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "write_bytes", full)
    told(call("build", DIGITS, "--folding", "nowhere.toml", "--out", "out"), 1, "folding-file")


# ---- tools ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variable", "tool"), [("YOSYS", "yosys"), ("CXX", "c++")], ids=lambda name: name)
def test_a_tool_that_is_not_there(variable: str, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "/no/such/program --fast")
    done = call("build", DIGITS, "--out", "out", "--stop-after", "simulate", "--multipliers", 12)
    said = told(done, 3, "tool-missing")
    assert re.search(rf"the program {re.escape(tool)} [\d.]+ or newer must be installed; ", said)
    assert f"looked at ${variable} = '/no/such/program --fast'" in said
    assert "`onnx-hw doctor` shows all" in said
    doctor = call("doctor")
    assert doctor.exit_code == 3
    assert re.search(rf"^ {re.escape(tool)} +missing: ", doctor.stdout, re.MULTILINE)
    assert f"a build cannot be finished without {tool}\n" in doctor.stdout


@pytest.mark.parametrize(
    ("variable", "stop_after", "code"),
    [("NEXTPNR_ECP5", "pack", 3), ("ECPPACK", "pack", 3), ("ECPPACK", "schedule", 0)],
)
def test_a_tool_that_will_be_missed_is_missed_at_once(
    variable: str, stop_after: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "/no/such/program")
    done = call("build", DIGITS, "--out", "out", "--stop-after", stop_after)
    assert done.exit_code == code
    assert ("/8" in done.stderr or "/3" in done.stderr) == (code == 0)


def test_a_tool_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("tool").write_text("#!/bin/sh\ncase $* in *version*) echo 1.0;; *) echo 'it is too hot'; exit 7;; esac\n")
    Path("tool").chmod(0o755)
    monkeypatch.setenv("YOSYS", str(Path("tool").resolve()))
    done = call("build", DIGITS, "--out", "out", "--stop-after", "simulate")
    said = told(done, 3, "tool-failed")
    assert "yosys failed: exit code 7; its last lines:\n    it is too hot\n" in said
    assert "it is too hot" in Path(re.findall(r"where  (.*)\n", said)[0]).read_text()
