"""Drawn hostile cases: what a user may hand to a command by mistake or on purpose, one command line per case.

A case damages a copy of a small build, or of what goes into one. Whatever it is, the command must end by itself with
one of the documented exit codes, and without a traceback.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import onnx
from onnx import numpy_helper
from onnx_hw.messages.errors import ExitCode

ALLOWED = frozenset((*map(int, ExitCode), 130)) - {int(ExitCode.BUG)}
SECONDS = 240
"""Time of a case on a loaded machine; a command that waits for ever is stopped then."""

Words = list[str]


@dataclass(frozen=True)
class Materials:
    """What cases begin with.

    Attributes:
        model: file of a float model.
        samples: npz with its samples.
        build: folder of a build of it, to the end of the simulation.
    """

    model: Path
    samples: Path
    build: Path


Kind = Callable[[random.Random, Materials, Path], Words]
"""Function that makes the files of a case in a folder, and returns its command."""


@dataclass(frozen=True)
class HostileEnd:
    """End of a case.

    Attributes:
        words: the command.
        code: exit code; None where it had to be stopped.
        said: what it printed.
    """

    words: tuple[str, ...]
    code: int | None
    said: str

    @property
    def fault(self) -> str:
        """What must not be; empty if nothing."""
        if self.code is None:
            return f"no end after {SECONDS} s"
        if self.code not in ALLOWED:
            return f"exit code {self.code}"
        return "a traceback" if "Traceback (most recent call last)" in self.said else ""


def run_case(kind: Kind, seed: int, materials: Materials, folder: Path) -> HostileEnd:
    """Run the case of a kind and a seed in a folder of its own."""
    draw = random.Random(seed)
    return run_command(kind(draw, materials, folder), folder, kind.__name__)


def run_command(words: Words, folder: Path, kind: str = "") -> HostileEnd:
    """Run a command in a folder."""
    command = [sys.executable, "-m", "onnx_hw", *words]
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        return HostileEnd((kind, *words), None, _text(error.stdout) + _text(error.stderr))
    return HostileEnd((kind, *words), done.returncode, _text(done.stdout) + _text(done.stderr))


def _text(given: bytes | str | None) -> str:
    return given if isinstance(given, str) else (given or b"").decode(errors="replace")


# ---- bytes, numbers and texts ----------------------------------------------------------------------------------------


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Return bytes that are cut, flipped, doubled, zeroed or replaced in some place."""
    at, end = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    how = draw.randrange(6)
    if how == 0:
        return data[:at]
    if how == 1:
        return data[:at] + bytes(end - at) + data[end:]
    if how == 2:
        return data[:at] + data[at:end] * 2 + data[end:]
    if how == 3:
        return draw.randbytes(draw.randrange(2000))
    flipped = bytearray(data)
    for _ in range(1 << draw.randrange(8)):
        if flipped:
            flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
    return bytes(flipped)


ODD_TEXTS = (
    "", " ", "nan", "inf", "-inf", "1e400", "-1", "0", "0x10", "1_0", "1,2,3", "\u0661", "a" * 5000, "..", "/dev/null",
    "/dev/zero", "/proc/self/mem", "\x1b[31m", "'; --", "{}", "=", ":", "None", "9" * 40, "1e-320", "\udce4", "-", "--",
    "@x", "%s", "\u202e", "ecp5 ", "ECP5",
)  # fmt: skip

ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 10**9, 10**30, 1.5, float("nan"), float("inf"), "", "x", "0", [], {}, [[]], [None],
    {"": None}, [0] * 50, "a" * 3000, -(2**63), 2**64, [1, 2], {"a": 1},
)  # fmt: skip


def odd_number(draw: random.Random) -> str:
    return draw.choice(
        (*ODD_TEXTS, str(draw.randrange(-5, 70)), str(draw.uniform(-3, 3)), str(10 ** draw.randrange(1, 30)))
    )


def change_json(value: Any, draw: random.Random) -> Any:
    """Change one thing somewhere inside of a JSON value."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(sorted(value))
        how, rest = draw.random(), {name: one for name, one in value.items() if name != key}
        if how < 0.15:
            return rest
        if how < 0.2:
            return {**rest, f"{key}x": value[key]}
        return {**value, key: change_json(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.8:
        at, how = draw.randrange(len(value)), draw.random()
        if how < 0.1:
            return value[:at] + value[at + 1 :]
        if how < 0.2:
            return value + value[at:]
        return [*value[:at], change_json(value[at], draw), *value[at + 1 :]]
    if isinstance(value, int) and not isinstance(value, bool) and draw.random() < 0.5:
        return value + draw.choice((-1, 1, 7, -value, 10**6, -(10**12)))
    return draw.choice(ODD_VALUES)


# ---- kinds of cases --------------------------------------------------------------------------------------------------


def model_bytes(draw: random.Random, given: Materials, folder: Path) -> Words:
    (folder / "m.onnx").write_bytes(damaged(given.model.read_bytes(), draw))
    return with_model(draw, given)


def model_structure(draw: random.Random, given: Materials, folder: Path) -> Words:
    """Change nodes, shapes, types and constants of a model."""
    model = onnx.load(given.model)
    for _ in range(draw.randrange(1, 4)):
        _change_model(model, draw)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return with_model(draw, given)


def _change_model(model: onnx.ModelProto, draw: random.Random) -> None:
    graph = model.graph
    node = draw.choice(list(graph.node)) if graph.node else onnx.NodeProto()
    how = draw.randrange(11)
    if how == 0:
        node.op_type = draw.choice(
            ("Einsum", "Loop", "If", "Scan", "Reshape", "Conv", "Pad", "Resize", "", "LSTM", "Tile")
        )
    elif how == 1 and node.input:
        node.input[draw.randrange(len(node.input))] = draw.choice((*node.output, "", "x", "kernel", "image"))
    elif how == 2 and node.output:
        node.output[0] = draw.choice(("", "image", "probabilities", node.input[0] if node.input else "y"))
    elif how == 3 and graph.node:
        graph.node.remove(node)
    elif how == 4:
        name = draw.choice(("pads", "axis", "strides", "group", "auto_pad", "to"))
        value: Any = draw.choice(([1000] * 4, -1, [0, 0], 10**9, "SAME", [1.5]))
        node.attribute.append(onnx.helper.make_attribute(name, value))
    elif how == 5 and graph.initializer:
        one = draw.choice(list(graph.initializer))
        one.dims.append(draw.choice((0, 1, 2, -1, 1 << 40)))
    elif how == 6 and graph.initializer:
        one = draw.choice(list(graph.initializer))
        array = numpy_helper.to_array(one)
        worst = draw.choice((np.nan, np.inf, 1e38, 0.0, -1e-45))
        one.CopyFrom(numpy_helper.from_array(np.full_like(array, worst), one.name))
    elif how == 7:
        dims = graph.input[0].type.tensor_type.shape.dim
        dims[draw.randrange(len(dims))].dim_value = draw.choice((0, -1, 3, 1 << 20, 1 << 40))
    elif how == 8:
        graph.input[0].type.tensor_type.elem_type = draw.choice((0, 2, 8, 9, 11, 16, 23, 999))
    elif how == 9:
        model.opset_import[0].version = draw.choice((-1, 0, 1, 6, 11, 13, 99, 1 << 40))
    else:
        graph.node.append(node)


def with_model(draw: random.Random, given: Materials) -> Words:
    return draw.choice((
        ["check", "m.onnx"],
        ["check", "m.onnx", "--lenient", "--json"],
        ["run", "m.onnx", "--inputs", str(given.samples), "--engine", "reference"],
        ["build", "m.onnx", "--calibration", str(given.samples), "--stop-after", "assemble", "--out", "o"],
        ["boards", "m.onnx", "--fits"],
    ))  # fmt: skip


def options(draw: random.Random, given: Materials, folder: Path) -> Words:
    """Options with odd values, two at a time, some of them twice."""
    valued = ("--board", "--out", "--inputs", "--calibration", "--resize", "--fps", "--latency", "--fastest", "--clock",
              "--multipliers", "--folding", "--seed", "--bits", "--precision", "--sqnr", "--accuracy-loss", "--cut-at",
              "--state", "--dim", "--output-kind", "--stop-after", "--store")  # fmt: skip
    words = ["build", str(given.model), "--stop-after", "schedule", "--calibration", str(given.samples)]
    for _ in range(draw.randrange(1, 4)):
        words += [draw.choice(valued), odd_number(draw).replace("\0", "")]
    if draw.random() < 0.2:
        words.append(draw.choice(("--streaming", "--random-calibration", "--waves", "--strict", "--json")))
    (folder / "x").touch()
    return words


SNIPPETS = (
    "raise ValueError('no')", "import sys; sys.exit({n})", "import os; os._exit({n})", "raise KeyboardInterrupt",
    "def board(): return {value!r}", "board = {value!r}", "1 / 0", "def f(): f()\nf()", "class Board: pass", "(((",
    "\x00", "import onnx_hw_boards\nraise SystemExit({value!r})", "BOARD = lambda: {value!r}", "while True: break",
    "class E(Exception):\n    def __str__(self): raise self\nraise E", "print('x' * 100000)", "import no_such_thing",
    "x = [0] * 10 ** 12", "import os; os.kill(os.getpid(), 9)", "import threading; raise threading.ThreadError",
)  # fmt: skip


def board_file(draw: random.Random, given: Materials, folder: Path) -> Words:
    """A board of the user's own that is anything, or that of the example with something changed."""
    example = (Path(__file__).parents[2] / "examples" / "own_board" / "sensor_node.py").read_text(encoding="utf-8")
    if draw.random() < 0.5:
        text = draw.choice(SNIPPETS).format(n=draw.choice((0, 1, 3, 70, 255)), value=draw.choice(ODD_VALUES))
    else:
        lines = example.splitlines()
        at = draw.randrange(len(lines))
        new = draw.choice(
            ("", "    " + lines[at], lines[at].replace("1", "0").replace("2", "-7"), "pass", lines[at][::-1])
        )
        text = "\n".join([*lines[:at], new, *lines[at + 1 :]])
    (folder / "own.py").write_bytes(text.encode("utf-8", "surrogateescape"))
    words = ["build", str(given.model), "--board", "own.py", "--calibration", str(given.samples)]
    return (
        [*words, "--stop-after", "assemble"]
        if draw.random() < 0.8
        else ["check", str(given.model), "--board", "own.py"]
    )


def host_model(draw: random.Random, given: Materials, folder: Path) -> Words:
    """``model.json`` with something changed."""
    build = _copy(given, folder)
    stored = json.loads((build / "model.json").read_text(encoding="utf-8"))
    for _ in range(draw.randrange(1, 3)):
        stored = change_json(stored, draw)
    text = json.dumps(stored) if draw.random() < 0.9 else "[" * 200_000
    (build / "model.json").write_text(text, encoding="utf-8")
    return _with_build(draw, given)


def build_folder(draw: random.Random, given: Materials, folder: Path) -> Words:
    """A file of a build that is gone, cut, zeroed, a folder, a pipe, a link to itself, or something else."""
    build = _copy(given, folder)
    files = sorted(path for path in build.rglob("*") if path.is_file())
    for file in draw.sample(files, draw.choice((1, 1, 2, len(files)))):
        _spoil(file, draw)
    return _with_build(draw, given)


def _spoil(file: Path, draw: random.Random) -> None:
    content, how = file.read_bytes(), draw.randrange(8)
    if how < 3:
        file.write_bytes(damaged(content, draw))
        return
    if how == 3 and file.suffix == ".json":
        try:
            changed = change_json(json.loads(content), draw)
        except ValueError:
            changed = None
        file.write_text(json.dumps(changed), encoding="utf-8")
        return
    file.unlink()
    if how == 4:
        file.mkdir()
    elif how == 5:
        os.mkfifo(file)
    elif how == 6:
        file.symlink_to(draw.choice((file.name, "/dev/zero", "/nowhere", "..")))


def _copy(given: Materials, folder: Path) -> Path:
    shutil.copytree(given.build, folder / "b")
    return folder / "b"


def _with_build(draw: random.Random, given: Materials) -> Words:
    return draw.choice((
        ["infer", "b", "--self-test", "--port", "sim"],
        ["infer", "b", "--inputs", str(given.samples), "--port", "nowhere"],
        ["verify", "b", "--frames", "3", "--jobs", "1"],
        ["report", "b", "--no-open"],
        ["program", "b", "--dry-run"],
        ["build", str(given.model), "--calibration", str(given.samples), "--board", "icebreaker", "--out", "b",
         "--stop-after", "simulate"],
    ))  # fmt: skip


def samples(draw: random.Random, given: Materials, folder: Path) -> Words:
    """Samples of any type and shape, or a file that is no npz."""
    how, file = draw.randrange(7), folder / "s.npz"
    shape = draw.choice(((4, 1, 4, 4), (0, 1, 4, 4), (4, 4), (), (3, 1, 4, 4, 1), (2, 1, 5, 4), (1, 1, 1, 4, 4), (16,)))
    arrays: dict[str, Any] = {"image": np.random.default_rng(draw.randrange(99)).normal(size=shape)}
    if how == 0:
        arrays["image"] = arrays["image"].astype(draw.choice(("f2", "c8", "i8", "u1", "?", "S3", "U2", "M8[s]", "O")))
    elif how == 1:
        arrays["image"] = np.full(shape, draw.choice((np.nan, np.inf, 1e300, -1e300, 1e-320)))
    elif how == 2:
        arrays = {draw.choice(("x", "", "image ", "labels", "a/b", "\u00e4")): arrays["image"]}
    elif how == 3:
        arrays["labels"] = np.array(draw.choice(([0], [[1]], [-1] * 4, [1e9] * 4, ["a"] * 4, [np.nan] * 4)))
    np.savez(file, **arrays)
    if how >= 5:
        file.write_bytes(damaged(file.read_bytes(), draw))
    if how == 4:
        file.unlink()
        draw.choice((file.mkdir, lambda: os.mkfifo(file), lambda: file.symlink_to("s.npz"), lambda: file.touch()))()
    model = str(given.model)
    return draw.choice((
        ["run", model, "--inputs", "s.npz", "--engine", "reference"],
        ["run", model, "--inputs", "s.npz", "--calibration", str(given.samples)],
        ["build", model, "--calibration", "s.npz", "--stop-after", "quantize", "--out", "o"],
        ["build", model, "--inputs", "s.npz", "--calibration", str(given.samples), "--stop-after", "quantize"],
        ["verify", str(given.build), "--inputs", "s.npz", "--jobs", "1"],
    ))  # fmt: skip


def settings(draw: random.Random, given: Materials, folder: Path) -> Words:
    """Files with foldings and precisions."""
    folding = (given.build / "folding.toml").read_bytes()
    precision = b"[data]\nfeatures = 6\n[weights]\nconv = 4\n"
    option, content = draw.choice((("--folding", folding), ("--precision", precision)))
    if draw.random() < 0.5:
        content = damaged(content, draw)
    else:
        text = content.decode()
        numbers = [k for k, sign in enumerate(text) if sign.isdigit()]
        at = draw.choice(numbers) if numbers else 0
        content = (text[:at] + odd_number(draw) + text[at + 1 :]).encode("utf-8", "surrogateescape")
    (folder / "f.toml").write_bytes(content)
    words = ["build", str(given.model), "--calibration", str(given.samples), "--board", "icebreaker", "--out", "o"]
    return [*words, option, "f.toml", "--stop-after", "schedule"]


KINDS: tuple[Kind, ...] = (
    model_bytes, model_structure, options, board_file, host_model, build_folder, samples, settings,
)  # fmt: skip
