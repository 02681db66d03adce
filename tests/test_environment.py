"""Paths, files and surroundings that nobody plans for: each is one error in words, with exit code 1."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from onnx_hw.cli.cli import main
from onnx_hw.cli.error_report import explain
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.model import Value
from onnx_hw.samples.read_samples import read_samples, write_samples
from support.fixture_paths import EXAMPLES

DIGITS, FLOAT = (EXAMPLES / "digits" / name for name in ("digits.onnx", "digits_float.onnx"))
IMAGES = EXAMPLES / "digits" / "digits_test.npz"
COMMANDS = {
    "check": ("check", "{}"),
    "build": ("build", "{}", "--stop-after", "read", "--out", "out"),
    "build beside": ("build", "{}", "--stop-after", "read"),
    "inputs": ("run", DIGITS, "--inputs", "{}", "--engine", "golden"),
    "calibration": ("build", FLOAT, "--calibration", "{}", "--stop-after", "quantize", "--out", "out"),
    "folding": ("build", DIGITS, "--folding", "{}", "--stop-after", "schedule", "--out", "out"),
    "out": ("build", DIGITS, "--out", "{}/x", "--stop-after", "read"),
    "results": ("run", DIGITS, "--inputs", "one.npz", "--engine", "reference", "--out", "{}/x"),
}
PATHS = {
    "loop": "loop",
    "in a loop": "loop/model.onnx",
    "nowhere": "dangling",
    "long name": "x" * 5000,
    "just too long": "x" * 256,
    "long path": "/".join(["y" * 200] * 25),
    "through a file": "file/model.onnx",
    "zero byte": "a\0b",
    "folder": "folder",
    "odd bytes": os.fsdecode(b"n\xff.onnx"),
    "device": "/dev/zero",
    "memory": "/proc/self/mem",
}


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def assert_told(done: Result) -> None:
    assert done.exit_code == 1 and done.stderr.count("error[") == 1 and "bug" not in done.stderr, done.output
    assert len(done.stderr) < 8000


@pytest.mark.parametrize("command", COMMANDS)
def test_paths(tmp_path: Path, command: str) -> None:
    Path("loop").symlink_to("loop")
    Path("dangling").symlink_to("nothing/there")
    Path("folder").mkdir()
    Path("file").write_text("")
    with np.load(IMAGES) as images:
        np.savez("one.npz", **{name: array[:1] for name, array in images.items()})
    for name, path in PATHS.items():
        if command in ("out", "results") and name in ("folder", "odd bytes"):
            continue  # as good as others
        if command in ("out", "results") and name == "nowhere":
            path = "dangling/deeper"
        assert_told(call(*(str(part).format(path) for part in COMMANDS[command])))


@pytest.mark.parametrize("option", ["--out", "--inputs", "--folding", "--calibration"])
def test_no_path_at_all(option: str) -> None:
    done = call("build", DIGITS, option, "")
    assert_told(done)
    assert "must not be empty" in done.stderr


@pytest.mark.parametrize(("place", "says"), [("folder", "not a folder"), (".", "not a folder"), ("/", "not a folder")])
def test_results_go_into_a_file(place: str, says: str) -> None:
    Path("folder").mkdir()
    with pytest.raises(UserError, match=says):
        write_samples(Path(place), {"y": np.zeros(2)})


def test_a_device_is_written_and_not_replaced(tmp_path: Path) -> None:
    """A pipe stands for it."""
    os.mkfifo("pipe")
    reader = subprocess.Popen([sys.executable, "-c", "print(len(open('pipe', 'rb').read()))"], stdout=subprocess.PIPE)
    write_samples(Path("pipe"), {"y": np.zeros(2)})
    told, _ = reader.communicate(timeout=20)
    assert int(told) > 100 and Path("pipe").is_fifo()


def test_archives_of_other_things(tmp_path: Path) -> None:
    """Members that are no arrays, and an archive whose bytes were changed one at a time."""
    with zipfile.ZipFile("other.npz", "w") as archive:
        archive.writestr("input", b"hello")
    done = call("run", DIGITS, "--inputs", "other.npz", "--engine", "golden")
    assert_told(done)
    assert "only numpy arrays" in done.stderr and "`input`" in done.stderr
    stored = io.BytesIO()
    np.savez_compressed(stored, x=np.arange(6, dtype=np.float32))
    whole, generator = stored.getvalue(), np.random.default_rng(1)
    for _ in range(300):
        changed = bytearray(whole)
        for at in generator.integers(0, len(whole), generator.integers(1, 4)):
            changed[at] = generator.integers(0, 256)
        Path("changed.npz").write_bytes(changed)
        try:
            read_samples(Path("changed.npz"), [Value("x", "float", (6,))])
        except UserError as error:
            assert error.problems[0].stage == "samples"  # noqa: PT017


FOLDINGS = {
    "deep": "a=" + "[" * 20_000,
    "digits": "[folding]\nx = " + "9" * 5000,
    "many digits": "[folding]\nx = " + "9" * 4000 + "\n[fifo]\ny = " + "9" * 4000,
    "hexadecimal": "[folding]\nx = 0x" + "f" * 5000 + "\n[fifo]\ny = 0x" + "f" * 5000,
    "bytes": b"[folding]\n\xff = 1",
    "large": "#" * (1 << 24) + "\n",
}


@pytest.mark.parametrize("kind", FOLDINGS)
def test_folding_files(kind: str) -> None:
    content = FOLDINGS[kind]
    Path("f.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
    done = call("build", DIGITS, "--folding", "f.toml", "--out", "out", "--stop-after", "schedule")
    assert done.exit_code == 1 and "error[fo" in done.stderr and "bug" not in done.stderr, done.output[:3000]


def test_numbers_of_the_folding_that_are_too_large(tmp_path: Path) -> None:
    call("build", DIGITS, "--out", "out", "--stop-after", "schedule")
    text = (tmp_path / "out" / "folding.toml").read_text(encoding="utf-8")
    for number in (10**9, 2**31, 2**62, 2**64, 10**400, -(10**400)):
        for changed in (
            text.replace("lanes = 1", f"lanes = {number}", 1),
            text.replace("steps = ", f"steps = {number} #", 1),
            text + f'"x" = {number}\n',
        ):
            Path("f.toml").write_text(changed, encoding="utf-8")
            done = call("build", DIGITS, "--folding", "f.toml", "--out", "out", "--stop-after", "schedule")
            assert done.exit_code == 1 and "bug" not in done.stderr, (number, done.stderr[:3000])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--clock", "1e308"), "within 0.001 .. 10000, not 1e+308"),
        (("--clock", "1e-300"), "within 0.001 .. 10000, not 1e-300"),
        (("--fps", "1e308"), "within 1e-06 .. 1e+10, not 1e+308"),
        (("--fps", "1e-300"), "within 1e-06 .. 1e+10, not 1e-300"),
        (("--dim", "N=1", "--dim", "N=2"), "`N` must have one size, not 1 and 2"),
        (("--dim", "N=" + "9" * 5000), "at most 18 digits, not 5000"),
        (("--dim", "N=" + "9" * 19), "at most 18 digits, not 19"),
        (("--dim", "N=-1"), "a whole number"),
    ],
)
def test_numbers_without_a_meaning(arguments: tuple[str, ...], says: str) -> None:
    for command in (("check", DIGITS), ("build", DIGITS), ("run", DIGITS, "--inputs", "x", "--engine", "reference")):
        done = call(*command, *arguments)
        assert_told(done)
        assert says in done.stderr


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (np.full(2, -7), "within 0 .. 9, the elements of the first output, not -7"),
        (np.array([3, 10]), "within 0 .. 9, the elements of the first output, not 10"),
        (np.array([3, 2**63], dtype=np.uint64), "not 9223372036854775808"),
        (np.array([1.0, 2.0]), "must be integers"),
        (np.array([True, False]), "must be integers"),
        (np.array([1, 2, 3]), "one label per sample, 2, not 3"),
        (np.zeros(0, dtype=np.int64), "one label per sample, 2, not 0"),
    ],
)
def test_labels_that_name_no_class(labels: np.ndarray, says: str) -> None:
    with np.load(IMAGES) as images:
        arrays = {name: array[:2] for name, array in images.items() if name != "labels"}
    np.savez("x.npz", labels=labels, **arrays)
    done = call("build", DIGITS, "--inputs", "x.npz", "--out", "out", "--stop-after", "read")
    assert_told(done)
    assert says in done.stderr


def process(*arguments: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[bytes]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME", "XDG_CACHE_HOME") if name in os.environ}
    command = [sys.executable, "-m", "onnx_hw", *(os.fsencode(str(argument)) for argument in arguments)]
    return subprocess.run(command, capture_output=True, env={**kept, **environment}, cwd=cwd, timeout=120)


def test_an_ascii_locale_and_folders_of_other_letters(tmp_path: Path) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for letters, stage in (("größe", "assemble"), (os.fsdecode(b"n\xff"), "quantize")):
        folder = tmp_path / letters
        folder.mkdir()
        model = folder / f"{letters}.onnx"
        model.write_bytes(DIGITS.read_bytes())
        done = process("build", model, "--out", folder / letters, "--stop-after", stage, "--json", **ascii_only)
        assert done.returncode == 0, done.stderr
        assert done.stdout.isascii() and done.stderr.isascii()
        assert (folder / letters / "report.json").read_bytes().decode("utf-8")
        done = process("check", model, "--json", "--onnx-only", **ascii_only)
        assert done.returncode == 0 and done.stdout.isascii(), done.stderr
        assert process("check", folder / "other.onnx", **ascii_only).returncode == 1
    done = process("check", tmp_path / "größe" / "größe.onnx", "--json", "--onnx-only", PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout.decode("ascii"))["path"].endswith("größe.onnx")


def test_a_current_folder_that_has_vanished(tmp_path: Path) -> None:
    """And a home that nobody knows."""
    script = (
        "import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); "
        "from onnx_hw.cli.cli import main; main(sys.argv[1:])"
    )
    for arguments, code in (
        (("check", DIGITS), 0),
        (("check", "m.onnx"), 1),
        (("build", DIGITS, "--stop-after", "quantize"), 1),
        (("build", DIGITS, "--stop-after", "quantize", "--out", tmp_path / "out"), 0),
        (("run", DIGITS, "--inputs", IMAGES, "--engine", "golden", "--out", "y.npz"), 1),
    ):
        environment = {**os.environ, "HOME": "/nowhere/at/all", "XDG_CACHE_HOME": "/proc/nothing"}
        command = [sys.executable, "-c", script, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=120)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr and (code == 0 or "error[" in done.stderr)


def test_what_the_file_system_says() -> None:
    """What is taken away while onnx-hw is at work is no bug of it; a file that it should have made is."""
    kept = Path.cwd()
    for error, code in (
        (PermissionError(13, "Permission denied", "x"), "file-system"),
        (OSError(40, "Too many levels of symbolic links", "x"), "file-system"),
        (FileNotFoundError(2, "No such file or directory", str(kept / "gone" / "x")), "file-system"),
        (FileNotFoundError(2, "No such file or directory", str(kept / "x")), "bug"),
        (FileNotFoundError(2, "No usable temporary directory found"), "file-system"),
    ):
        assert explain(error).problems[0].code == code
