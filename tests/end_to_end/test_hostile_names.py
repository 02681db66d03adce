"""Names that command a terminal, forge a message or turn the direction of the text are shown, never obeyed."""

from __future__ import annotations

import json
import re
import sys
import tomllib
import unicodedata
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_hw.cli.cli import main
from onnx_hw.cli.error_report import explain
from onnx_hw.cli.terminal import Terminal
from onnx_hw.messages.errors import Problem
from onnx_hw.messages.text import abridged, file_name, legible, printable, quote, short, to_json
from onnx_hw.messages.toml import quoted
from onnx_hw.runtime.stage import Stage
from onnx_hw_tools.process import ToolFailed
from support.qdq_models import Sketch

FORGED = "other.onnx: can be built"
MARKS = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u200b\u200d\ufeff\u2028\u2029\u00ad"
EVIL = f"\x1b[2J\x1b]0;t\x07\x9b31m\r\n{FORGED}\n\n{MARKS}\x00\x08\x7f[red]b[/red]:smile:[link=http://x]\\'\"`"


def assert_harmless(text: str) -> None:
    found = {unicodedata.name(c, hex(ord(c))) for c in text if not c.isprintable() and c != "\n"}
    assert not found, (found, text[:2000])
    assert not any(line.startswith(FORGED) for line in text.splitlines()), text


def call(*arguments: object) -> Result:
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code in (0, 1, 2), done.output
    assert_harmless(done.stdout)
    assert_harmless(done.stderr)
    return done


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def base() -> onnx.ModelProto:
    """A bit of everything that has a name: with head, hardware and tail, a subgraph, a function, sides of all kinds."""
    generator = np.random.default_rng(1)
    sketch = Sketch()
    x = sketch.through_integers(sketch.node("Transpose", "x", perm=[0, 3, 1, 2]), 2**-3, 4)
    weights = sketch.dequantized(generator.integers(-9, 10, (3, 2, 2, 2)).astype(np.int8), np.float32(2**-4))
    y = sketch.through_integers(sketch.node("Conv", x, weights), 2**-2, -5)
    total = sketch.node("ReduceSum", "x", keepdims=0)
    condition = sketch.node("Greater", total, sketch.constant(np.float32(0)))
    result = helper.make_tensor_value_info("r", TensorProto.FLOAT, [1, 3, 3, 4])
    branch = helper.make_graph([helper.make_node("Abs", [y], ["r"], "abs")], "branch", [], [result])
    y = sketch.node("If", condition, then_branch=branch, else_branch=branch)
    sketch.nodes.append(helper.make_node("Twice", [y], ["y"], "twice", domain="org.example"))
    graph = helper.make_graph(
        sketch.nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4, 5, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3, 3, 4])],
        sketch.constants,
        doc_string="doc",
        value_info=[helper.make_tensor_value_info(y, TensorProto.FLOAT, [1, 3, 3, 4])],
    )
    inner = [helper.make_node("Add", ["a", "a"], ["b"], "add")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("org.example", 1)]
    twice = helper.make_function("org.example", "Twice", ["a"], ["b"], inner, opsets[:1])
    model = helper.make_model(graph, opset_imports=opsets, functions=[twice], ir_version=8, producer_name="p")
    helper.set_model_props(model, {"key": "value"})
    return model


def texts(message: Message) -> Iterator[tuple[Message, str, int | None]]:
    """Every text of a message: (owner, field, index)."""
    for field, value in message.ListFields():
        repeated = not isinstance(value, Message) and hasattr(value, "append")
        if field.cpp_type == field.CPPTYPE_MESSAGE:
            for part in value if hasattr(value, "__len__") else (value,):
                yield from texts(part)
        elif field.cpp_type == field.CPPTYPE_STRING and field.name not in ("raw_data", "s", "strings", "string_data"):
            yield from ((message, field.name, k) for k in (range(len(value)) if repeated else (None,)))


def replaced(model: onnx.ModelProto, place: tuple[Message, str, int | None], text: str) -> None:
    owner, field, index = place
    if index is None:
        setattr(owner, field, text)
    else:
        getattr(owner, field)[index] = text


def at(place: tuple[Message, str, int | None]) -> str:
    owner, field, index = place
    return getattr(owner, field) if index is None else getattr(owner, field)[index]


KEPT = ("op_type",)
"""Names with a meaning: another one is another model."""


def all_evil() -> onnx.ModelProto:
    """The base with every name, but operators' and attributes', evil in a way of its own."""
    model = base()
    for place in list(texts(model)):
        owner, field, _ = place
        attribute = isinstance(owner, onnx.AttributeProto) and field == "name"
        known_domain = field == "domain" and not at(place)
        if not attribute and not known_domain and (field not in KEPT or at(place) == "Twice") and at(place):
            replaced(model, place, at(place) + (EVIL.replace("\x00", "") if at(place) == "x" else EVIL))
    return model


def test_an_evil_model_is_checked_run_and_built(tmp_path: Path) -> None:
    model = Path(f"m{EVIL.replace('/', '').replace(chr(0), '')}.onnx")
    model.write_bytes(all_evil().SerializeToString())
    checked = call("check", model)
    assert checked.exit_code == 0, checked.output
    assert "[red]" in checked.stdout and ":smile:" in checked.stdout
    facts = json.loads(call("check", model, "--json").stdout)
    assert facts["verdict"] == "accepted" and facts["path"] == str(model)
    np.savez("x.npz", **{f"x{EVIL}".replace("\x00", ""): np.ones((3, 1, 4, 5, 2), np.float32)})
    results = []
    for engine in ("reference", "golden"):
        done = call("run", model, "--inputs", "x.npz", "--engine", engine, "--out", f"{engine}.npz")
        assert done.exit_code == 0, done.output
        with np.load(f"{engine}.npz") as stored:
            results.append(dict(stored))
    assert results[0].keys() == results[1].keys() and len(results[0]) == 1
    done = call("build", model, "--inputs", "x.npz", "--stop-after", "assemble")
    assert done.exit_code == 0, done.output
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    for file in (folder, *folder.iterdir()):
        assert file.name.isprintable()
        if file.is_file() and file.suffix != ".npz":  # arrays, whose texts nobody reads as such
            assert_harmless(file.read_text(encoding="utf-8"))
    assert {"network.txt", "design.txt", "folding.toml", "report.json"} <= {file.name for file in folder.iterdir()}
    again = call("build", model, "--folding", folder / "folding.toml", "--out", "again", "--stop-after", "schedule")
    assert again.exit_code == 0, again.output
    call("build", model, "--multipliers", 1, "--fps", 1e7, "--clock", 50, "--out", "again", "--json")


def test_every_name_alone(tmp_path: Path) -> None:
    """Most are refused then, in words that hold the name."""
    told = 0
    for number in range(len(list(texts(base())))):
        model = base()
        place = list(texts(model))[number]
        replaced(model, place, at(place) + EVIL)
        Path("m.onnx").write_bytes(model.SerializeToString())
        done = call("check", "m.onnx", *(("--json",) if number % 3 == 0 else ()))
        told += "red]" in done.output
    assert told >= 40


def test_names_in_side_files(tmp_path: Path) -> None:
    for key, text in (
        ("location", EVIL),
        ("location", f"../{EVIL}"),
        ("offset", EVIL),
        (EVIL, "3"),
        ("checksum", EVIL),
    ):
        model = base()
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.ClearField("float_data")
        tensor.data_location = TensorProto.EXTERNAL
        for name, value in {"location": "w.bin", key: text}.items():
            tensor.external_data.add(key=name, value=value)
        Path("m.onnx").write_bytes(model.SerializeToString())
        assert call("check", "m.onnx").exit_code == 1


def test_what_the_command_line_names(tmp_path: Path) -> None:
    Path("m.onnx").write_bytes(base().SerializeToString())
    name = EVIL.replace("\x00", "")
    np.savez("keys.npz", **{name.replace("/", ""): np.ones(3, np.float32)})
    with zipfile.ZipFile("odd.npz", "w") as archive:
        archive.writestr(f"{name}.npy", b"hello")
        archive.writestr(name, b"hello")
    keys = json.dumps(EVIL)
    toml = f"{keys} = 1\n[folding]\n{keys} = {keys}\n[fifo]\n{keys} = {keys}\n"
    Path("keys.toml").write_text(toml.replace("\x7f", ""))
    for arguments in (
        ("check", name),
        ("check", f"{name}/{name}.onnx"),
        (name,),
        ("check", "m.onnx", name),
        ("check", "m.onnx", f"--{name}"),
        ("check", "m.onnx", "--board", name),
        ("check", "m.onnx", "--dim", name),
        ("check", "m.onnx", "--dim", f"{name}=3"),
        ("check", "m.onnx", "--multipliers", name),
        ("check", "m.onnx", "--clock", name),
        ("run", "m.onnx", "--inputs", name, "--engine", "golden"),
        ("run", "m.onnx", "--inputs", "keys.npz", "--engine", "golden"),
        ("run", "m.onnx", "--inputs", "odd.npz", "--engine", "golden"),
        ("run", "m.onnx", "--inputs", "keys.npz", "--engine", name),
        ("build", "m.onnx", "--stop-after", name),
        ("build", "m.onnx", "--folding", "keys.toml", "--out", "out"),
        ("build", "m.onnx", "--folding", name, "--out", "out"),
        ("build", "m.onnx", "--out", f"m.onnx/{name}"),
    ):
        done = call(*arguments)
        assert done.exit_code == 1 and "error[" in done.stderr, (arguments, done.output)


def test_the_terminal_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever comes to it: lines of stages, warnings, problems, logs, results."""
    terminal = Terminal()
    with terminal.stage(Stage.READ) as running:
        running.fact = EVIL
    terminal.warn(EVIL, EVIL)
    terminal.note(EVIL)
    terminal.problems([Problem("code", EVIL, EVIL, EVIL)])
    ending = explain(ToolFailed(f"yosys{EVIL}", EVIL, Path(EVIL.replace("\x00", "")), (EVIL, EVIL)))
    terminal.problems(ending.problems)
    shown = capsys.readouterr()
    assert_harmless(shown.err)
    assert shown.err.count("[red]") == shown.err.count("[/red]") >= 10 and ":smile:" in shown.err


def test_a_real_terminal_is_commanded_by_its_own_styles_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with terminal.err.capture() as caught:
        terminal.problems([Problem("code", EVIL, EVIL, EVIL)])
        terminal.warn(EVIL)
    styles = re.compile(r"\x1b\[[0-9;]*m")
    assert styles.search(caught.get())
    assert_harmless(styles.sub("", caught.get()))


def test_every_character_is_shown() -> None:
    for code in (*range(0x3100), *range(0xD000, sys.maxunicode + 1, 31)):
        character = chr(code)
        if not character.isprintable():
            shown = printable(character)
            assert shown.isascii() and shown.startswith("\\") and shown.isprintable()


@given(st.text() | st.text(alphabet=st.sampled_from(EVIL + "\ud800aä€😀")))
def test_ways_to_spell_a_name(text: str) -> None:
    for spelled in (printable(text), quote(text), short(text), abridged(text, 30), file_name(text)):
        assert spelled.isprintable()
    assert len(abridged(text * 50, 30)) <= 33 and len(quote(text * 50)) < 1000
    assert "/" not in file_name(text) and len(file_name(text * 99).encode()) <= 200
    assert_harmless("x" + legible(text))
    assert json.loads(to_json({"key": text})) == {"key": text}
    assert to_json(text).rstrip("\n").isprintable()
    if not re.search("[\ud800-\udfff]", text):
        assert tomllib.loads(f"a = {quoted(text)}") == {"a": text}
        assert quoted(text).isprintable()


def test_a_name_of_any_length(tmp_path: Path) -> None:
    model = base()
    for place in list(texts(model)):
        if at(place) in ("x", "graph"):
            replaced(model, place, "n" * 300_000)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w" * 300_000))
    Path("m.onnx").write_bytes(model.SerializeToString())
    done = call("check", "m.onnx")
    assert done.exit_code == 0 and len(done.output) < 20_000
    for board in ("b" * 100_000,):
        assert len(call("check", "m.onnx", "--board", board).output) < 20_000
