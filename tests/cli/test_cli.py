"""The command line as a whole: arguments that are none, help, and the commands that only list something."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import onnx_hw_boards
from onnx_hw import __version__
from onnx_hw.cli.cli import main
from onnx_hw.cli.help_groups import COMMAND_EXAMPLES, COMMAND_GROUPS, OPTION_GROUPS, OTHER, TERMS, group_of
from onnx_hw.cli.usage_hints import COMMANDS_ELSEWHERE, OPTIONS_ELSEWHERE
from onnx_hw.commands.fit_boards import BoardFit, fit_boards
from onnx_hw_tools import tools
from support.cli_runner import Instead, call
from support.fixture_paths import EXAMPLES

DIGITS = str(EXAMPLES / "digits" / "digits.onnx")


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """Commands may write into the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        ["build"],
        ["build", "m.onnx", "--multipliers", "0"],
        ["build", "m.onnx", "--multipliers", "many"],
        ["build", "m.onnx", "--clock", "0"],
        ["build", "m.onnx", "--fps", "0"],
        ["run", "m.onnx", "--fps", "-1"],
        ["build", "m.onnx", "--stop-after", "lunch"],
        ["run", "m.onnx", "--engine", "golden"],
        ["run", "m.onnx", "--inputs", "x.npz", "--engine", "steam"],
        ["check", "m.onnx", "--dim", "N"],
        ["check", "m.onnx", "--dim", "N=-1"],
    ],
    ids=" ".join,
)
def test_wrong_arguments(arguments):
    workshop = Instead(build=print, run=print, answer_for_hardware=print)
    done = call(*arguments, by=workshop)
    assert done.exit_code == 1
    assert done.stderr.startswith("error[usage]: ")
    assert f"hint   `main {arguments[0]} --help` shows how it is used" in done.stderr
    assert workshop.asked == []


@pytest.mark.parametrize("option", ["--fps", "--clock"])
@pytest.mark.parametrize("number", ["nan", "inf"])
def test_numbers_that_are_none(option, number):
    for command in (["build", DIGITS], ["check", DIGITS], ["run", DIGITS, "--inputs", "x", "--engine", "golden"]):
        done = call(*command, option, number)
        assert done.exit_code == 1
        assert f"must be positive, not {number}\n  where  {option}" in done.stderr


def test_nearest_names():
    assert call("build", "m.onnx", "--bord", "ecp5").stderr == (
        "error[usage]: there is no option `--bord`\n  hint   did you mean `--board`?\n"
    )
    assert call("biuld").stderr == "error[usage]: there is no command `biuld`\n  hint   did you mean `build`?\n"


@pytest.mark.parametrize(
    ("option", "meant"),
    [("-o", "--out"), ("--output-dir", "--out"), ("-b", "--board"), ("--target", "--board"), ("--freq", "--clock"),
     ("--calib", "--calibration"), ("--input", "--inputs"), ("--throughput", "--fps"), ("--weights-bits", "--bits"),
     ("--latency-us", "--latency"), ("--force", ""), ("--quiet", ""), ("--jobs", "")],
)  # fmt: skip
def test_the_option_that_may_have_been_meant(option, meant):
    (hint,) = call("build", "m.onnx", option, "x").stderr.splitlines()[1:]
    assert hint.endswith(f"did you mean `{meant}`?" if meant else "build --help` shows how it is used")


@pytest.mark.parametrize(
    ("command", "meant"),
    [("compile", "build"), ("synth", "build"), ("list", "boards"), ("flash", "program"), ("simulate", "run"),
     ("predict", "infer"), ("help", "--help"), ("version", "--version"), ("frobnicate", "")],
)  # fmt: skip
def test_the_command_that_may_have_been_meant(command, meant):
    done = call(command, "m.onnx")
    message, hint = done.stderr.splitlines()
    assert (done.exit_code, message) == (1, f"error[usage]: there is no command `{command}`")
    assert hint.endswith(f"did you mean `{meant}`?" if meant else "--help` shows how it is used")


def test_names_in_other_programs_lead_to_what_there_is():
    options = {name for command in main.commands.values() for option in command.params for name in option.opts}
    assert set(OPTIONS_ELSEWHERE) <= options
    assert set(COMMANDS_ELSEWHERE) <= {*main.commands, "--help", "--version"}
    for elsewhere in (OPTIONS_ELSEWHERE, COMMANDS_ELSEWHERE):
        names = [name for names in elsewhere.values() for name in names]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(option):
    assert call(option).stdout == f"onnx-hw {__version__}\n"


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        ("explore", "--until", "`--stop-after` now"),
        ("build", "--output", "`--output-kind` now; or did you mean `--out`?"),
    ],
)
def test_an_old_name_of_an_option_gives_the_new_one(command, old, new):
    done = call(command, "m.onnx", old, "schedule")
    assert done.exit_code == 1
    assert done.stderr == f"error[usage]: there is no option `{old}`\n  hint   it is called {new}\n"


def test_every_command_and_option_has_a_heading():
    assert sorted(name for names in COMMAND_GROUPS.values() for name in names) == sorted(main.commands)
    headings: dict[Any, Any] = {}
    for command in main.commands.values():
        for option in command.get_params(click.Context(command)):
            if isinstance(option, click.Option):
                assert group_of(option) != OTHER, f"{command.name} {option.opts}"
                headings.setdefault(option.opts[-1], set()).add(group_of(option))
    listed = [name for names in OPTION_GROUPS.values() for name in names]
    assert sorted(listed) == sorted(set(listed)), "an option has one heading"
    text = CliRunner().invoke(main, ["build", "--help"]).stdout
    assert next(iter(OPTION_GROUPS)) in text and re.search(r"^Integers:\n  --\S", text, re.MULTILINE)
    assert re.search(r"^Terms:\n  lane ", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("onnx-hw bui", ["build"]),
        ("onnx-hw build m.onnx --calib", ["--calibration"]),
        ("onnx-hw build m.onnx --board tiny", ["tinyfpga_bx"]),
        ("onnx-hw explore m.onnx --board icebreaker,ulx3s_1", ["icebreaker,ulx3s_12f"]),
        ("onnx-hw boards --chip LFE5U-1", ["LFE5U-12F"]),
        ("onnx-hw build m.onnx --stop-after sy", ["synthesize"]),
    ],
)
def test_completion_in_a_shell(typed, completed, monkeypatch):
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    monkeypatch.setenv("_ONNX_HW_COMPLETE", "bash_complete")
    lines = CliRunner().invoke(main, prog_name="onnx-hw").stdout.splitlines()
    assert [line.partition(",")[2] for line in lines] == completed


def test_the_help_of_each_command_ends_with_its_examples():
    assert sorted(COMMAND_EXAMPLES) == sorted(main.commands)
    for name, examples in COMMAND_EXAMPLES.items():
        shown = CliRunner().invoke(main, [name, "--help"]).stdout
        assert shown.endswith("Examples:\n" + "".join(f"  {line}\n" for e in examples for line in e.splitlines()))
        assert 1 <= len(examples) <= 2 and all(example.startswith(f"onnx-hw {name}") for example in examples)


def test_examples_of_the_help_work_one_after_the_other(tmp_path, monkeypatch):
    """Of those that need a whole build or minutes, the options are read; the folders are those of examples."""
    monkeypatch.chdir(tmp_path)
    made = {"digits", "digits-icebreaker"}
    for line in (line.replace("\\\n", "") for lines in COMMAND_EXAMPLES.values() for line in lines):
        _, name, *words = shlex.split(line.partition(" > ")[0])
        assert {word.partition("/")[0] for word in words if word.startswith("digits")} <= made
        if name not in ("example", "check", "build", "run"):
            main.commands[name].make_context(name, [*words])
            continue
        if name == "build":
            words += ["--stop-after", "schedule"]
        done = call(name, *words)
        assert done.exit_code == 0, done.output
        assert all(Path(word).exists() for word in words if word.startswith("digits/"))
    assert {path.name for path in tmp_path.iterdir()} >= made


def test_no_command_shows_the_help():
    done = call()
    assert done.exit_code == 1
    for name in ("build", "run", "check", "boards", "doctor", "ops"):
        assert f"\n  {name} " in done.output


@pytest.mark.parametrize("command", [[], *([name] for name in sorted(main.commands))], ids=" ".join)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_help_fits(command, width):
    shown = CliRunner().invoke(main, [*command, "--help"], terminal_width=width).stdout.splitlines()
    assert max(map(len, shown)) <= width
    options = [line for line in shown if line.startswith("  --")]
    assert all(len(re.split(" {2,}", line.strip())[0]) <= 30 for line in options), "one column of options"


def test_boards():
    done = call("boards")
    assert done.exit_code == 0
    assert "ecp5" in done.stdout
    assert "83,640" in done.stdout
    assert set(onnx_hw_boards.names()) <= set(done.stdout.split())


def test_boards_of_a_chip():
    names = [line.split()[0] for line in call("boards", "--chip", "ice40up5k").stdout.splitlines() if line[1] != " "]
    assert {"icebreaker", "icesugar", "up5k", "upduino3"} <= set(names)
    assert {onnx_hw_boards.board(name).device.name for name in names} == {"iCE40UP5K"}
    done = call("boards", "--chip", "iCE40UP4K")
    assert done.exit_code == 1
    assert "error[unknown-chip]: --chip must be a chip or a chip family of a board, not `iCE40UP4K`" in done.stderr
    assert "did you mean `iCE40UP5K`?" in done.stderr
    assert "must have a MODEL" in call("boards", "--fits").stderr
    assert "an option of reading or of integers must have a MODEL" in call("boards", "--bits", "4").stderr


@pytest.mark.slow
def test_the_example_fits_each_board():
    fits = {board.name: fit for board, fit in fit_boards(Path(DIGITS))}
    assert set(fits) == set(onnx_hw_boards.names())
    assert all(isinstance(fit, BoardFit) and fit.lanes > 2 and fit.frames_per_second > 150 for fit in fits.values())


def test_boards_on_which_a_model_fits(monkeypatch):
    real = onnx_hw_boards.board
    board = real("icebreaker")
    small = replace(board, name="small", device=replace(board.device, cells=replace(board.cells, logic=2000)))
    monkeypatch.setattr(onnx_hw_boards, "names", lambda: ("icebreaker", "icesugar", "small"))
    monkeypatch.setattr(onnx_hw_boards, "board", lambda name: small if name == "small" else real(name))
    done = call("boards", DIGITS)
    assert done.exit_code == 0
    fast, slow, none = done.stdout.splitlines()
    (name, quick), (other, behind) = fast.split(None, 1), slow.split(None, 1)
    assert (name, other) == ("icebreaker", "icesugar")
    assert quick == "8 lanes, 6,250 frames/s, bounded by the circuit; a frame alone takes 275 µs"
    assert behind == "3 lanes, 162 frames/s, bounded by the link; a frame alone takes 983 µs"
    assert "small" in none
    assert "does not fit: even the slowest design needs" in none
    assert call("boards", DIGITS, "--fits").stdout.splitlines() == [fast, slow]


def test_ops():
    lines = call("ops").stdout.splitlines()
    assert any(line.startswith("| Conv | 1, 11, 22 | yes | yes") for line in lines)
    assert any(line.startswith("| Unique |") and line.endswith("| yes | no |") for line in lines)


def test_doctor_says_what_is_missing(monkeypatch):
    def find(name):
        if name in ("yosys", "c++"):
            raise tools.ToolMissing(name, ("PATH",), name.upper())
        return tools.Tool(name, ("echo", "9.9"), "PATH")

    monkeypatch.setattr(tools, "find", find)
    done = call("doctor")
    assert done.exit_code == 3
    assert re.search(r"^ yosys +missing: synthesis, and the circuit as Verilog$", done.stdout, re.MULTILINE)
    assert ' pip install "onnx-hw[tools]", or set YOSYS\n' in done.stdout
    assert "a build cannot be finished without yosys\n" in done.stdout
    assert re.search(r"^ c\+\+ +missing: ", done.stdout, re.MULTILINE)
    assert "slow simulator" in done.stdout


def test_doctor_asks_for_the_programs_of_other_families_without_insisting(monkeypatch):
    others = ("nextpnr-ice40", "icepack", "nextpnr-himbaechel-gowin", "gowin_pack")

    def find(name):
        if name in others:
            raise tools.ToolMissing(name, ("PATH",), name.upper())
        return tools.Tool(name, ("echo", "9.9"), "PATH")

    monkeypatch.setattr(tools, "find", find)
    done = call("doctor")
    assert done.exit_code == 0
    for name in others:
        assert re.search(rf"^ {name} +missing: (place and route|the bitstream) for `", done.stdout, re.MULTILINE)
    assert 'pip install "onnx-hw[ice40]", or set ICEPACK; no other board needs it\n' in done.stdout
    assert 'pip install "onnx-hw[gowin]", or set GOWIN_PACK; no other board needs it\n' in done.stdout


def test_every_term_is_explained_where_it_is_used():
    helps = [call(*name, "--help").stdout for name in (("build",), ("infer",), ("boards",))]
    shown = [text.partition("\nTerms:\n")[2] for text in helps]
    for term in TERMS:
        assert any(re.search(rf"^  {term} ", text, re.MULTILINE) for text in shown), term
    assert "  link " in shown[1] and "  interval " in shown[0]
