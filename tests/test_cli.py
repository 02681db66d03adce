"""Every command, with a flow that only notes what it was asked: arguments, output streams, exit codes."""

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

import onnx
from material_folders import EXAMPLES
from onnx import TensorProto, helper, numpy_helper
from onnx_hw import __version__, flow
from onnx_hw.build_folder import Made
from onnx_hw.cli import main
from onnx_hw.errors import ExitCode, Problem, UserError
from onnx_hw.flow import Build
from onnx_hw.options import BuildOptions, Engine, RunOptions, Stage
from onnx_hw.outputs import Outputs
from onnx_hw.report.schema import json_schema
from onnx_hw.route import BITSTREAM, RouteResult
from onnx_hw.synthesize import SynthesisResult
from onnx_hw_boards.device import Budget
from onnx_hw_sim import tools
from sample_report import FULL

DIGITS = str(EXAMPLES / "digits" / "digits.onnx")


class FakeBuild:
    """Runs two stages and returns a ready report; ``raises`` in the second one if told to."""

    def __init__(self) -> None:
        self.options: BuildOptions | None = None
        self.raises: BaseException | None = None
        self.exit_code = ExitCode.OK

    def __call__(self, options, progress):
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
def fake(monkeypatch):
    build = FakeBuild()
    monkeypatch.setattr(flow, "build", build)
    return build


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """Commands may write into the current folder."""
    monkeypatch.chdir(tmp_path)


def call(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


# ---- build ----------------------------------------------------------------------------------------------------------


def test_build_defaults(fake):
    assert call("build", "m.onnx").exit_code == 0
    assert fake.options == BuildOptions(Path("m.onnx"))
    assert fake.options.folder == Path("m-ecp5")


def test_build_every_option(fake):
    arguments = "--board b --out o --inputs i.npz --calibration c.npz --multipliers 7 --folding f.toml --clock 62.5"
    assert call("build", "m.onnx", *arguments.split(), "--fps", "30.5", "--stop-after", "route", "-v").exit_code == 0
    assert fake.options == BuildOptions(
        Path("m.onnx"), "b", Path("o"), Path("i.npz"), Path("c.npz"), 7, Path("f.toml"), 62.5, Stage.ROUTE, fps=30.5
    )


def test_build_speaks_on_standard_error_and_answers_on_standard_output(fake):
    done = call("build", "m.onnx", "--stop-after", "schedule")
    lines = done.stderr.splitlines()
    assert lines[0] == f"onnx-hw {__version__}   m.onnx → m-ecp5 for ecp5"
    assert lines[1].split() == ["1/3", "read", "9", "nodes", "0.0", "s"]
    assert lines[2:4] == ["warning: the clock is slow", "  hint   make it faster"]
    assert lines[4].split() == ["2/3", "quantize", "cached"]
    assert "← bottleneck" in done.stdout
    assert "m-ecp5/report.json" in done.stdout


def test_build_json_is_alone_on_standard_output(fake):
    done = call("build", "m.onnx", "--json")
    assert done.stdout == FULL.to_json()
    jsonschema.validate(json.loads(done.stdout), json_schema())
    assert "← bottleneck" in done.stderr


def test_build_returns_the_exit_code_of_the_flow(fake):
    fake.exit_code = ExitCode.DOES_NOT_FIT
    assert call("build", "m.onnx").exit_code == 2


@pytest.mark.parametrize("code", [ExitCode.USAGE, ExitCode.DOES_NOT_FIT, ExitCode.TOOL_FAILED, ExitCode.MISMATCH])
def test_user_errors_are_shown_in_one_shape(fake, code):
    fake.raises = UserError(Problem("a", "first", "here", "do this"), Problem("b", "second"), exit_code=code)
    done = call("build", "m.onnx")
    assert done.exit_code == code
    assert done.stderr.endswith("error[a]: first\n  where  here\n  hint   do this\n\nerror[b]: second\n")
    assert done.stderr.splitlines()[-6].split()[-1] == "failed"
    assert done.stdout == ""


def test_interrupted(fake):
    fake.raises = KeyboardInterrupt()
    done = call("build", "m.onnx")
    assert done.exit_code == 130
    assert done.stderr.endswith("interrupted\n\ninterrupted\n")  # click ends the line of the ^C
    assert "Traceback" not in done.output


def test_a_bug_is_one_sentence_and_a_file_in_the_output_folder(fake, tmp_path):
    (tmp_path / "m-ecp5").mkdir()
    fake.raises = ZeroDivisionError("by nothing")
    done = call("build", "m.onnx")
    assert done.exit_code == 70
    assert "error[bug]: this is a bug of onnx-hw: ZeroDivisionError: by nothing\n" in done.stderr
    assert "  where  m-ecp5/traceback.txt\n  hint   please report it" in done.stderr
    assert "Traceback" not in done.output
    written = Path("m-ecp5/traceback.txt").read_text()
    assert "ZeroDivisionError: by nothing" in written
    assert "test_cli.py" in written


@pytest.mark.parametrize(
    "arguments",
    [
        ["build"],
        ["build", "m.onnx", "--multipliers", "0"],
        ["build", "m.onnx", "--multipliers", "many"],
        ["build", "m.onnx", "--clock", "0"],
        ["build", "m.onnx", "--fps", "0"],
        ["run", "m.onnx", "--fps", "-1"],
        ["check", "m.onnx", "--fps", "fast"],
        ["build", "m.onnx", "--stop-after", "lunch"],
        ["run", "m.onnx", "--engine", "golden"],
        ["run", "m.onnx", "--inputs", "x.npz", "--engine", "steam"],
        ["check", "m.onnx", "--dim", "N"],
        ["check", "m.onnx", "--dim", "N=-1"],
    ],
    ids=" ".join,
)
def test_wrong_arguments(fake, arguments):
    done = call(*arguments)
    assert done.exit_code == 1
    assert done.stderr.startswith("error[usage]: ")
    assert f"hint   `main {arguments[0]} --help` shows how it is used" in done.stderr
    assert fake.options is None


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
    assert "build" in call("biuld").stderr


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
def test_a_build_keeps_its_word_or_says_so(monkeypatch, options, fmax, code, rate):
    """A clock that is missed matters where it was asked for, or where it takes away the rate that was."""
    made = Made(Path("made"), "0", False, {})
    Path("made").mkdir()
    (Path("made") / BITSTREAM).touch()
    synthesized = SynthesisResult(Path("netlist"), Budget(1, 1, 1, 1), {}, "abc9", made)
    monkeypatch.setattr(flow.Work, "simulate", lambda self, running: None)
    monkeypatch.setattr(flow, "synthesize", lambda *_, **__: synthesized)
    monkeypatch.setattr(flow, "route", lambda *_, **__: RouteResult(fmax, 80.0, {}, (), Path("top.config"), made))
    monkeypatch.setattr(flow, "pack", lambda *_: made)
    done = call("build", DIGITS, "--multipliers", "3", *options)
    assert done.exit_code == code, done.output
    warning = f"warning: the circuit reaches {fmax:.1f} MHz, not 80 MHz{rate}\n"
    assert (warning in done.stderr) == (fmax < 80)


# ---- run ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "told"), [(None, ""), ([2, 2], "accuracy: 100.00% of 2 samples\n"), ([2, 0], "50.00% of 2 samples\n")]
)
def test_run(monkeypatch, labels, told):
    asked = []

    def fake_run(options, progress):
        asked.append(options)
        return Outputs({"y": np.arange(6, dtype=np.int8).reshape(2, 3)}, labels and np.array(labels))

    monkeypatch.setattr(flow, "run", fake_run)
    wanted = ("--multipliers", "4", "--fps", "25", "--clock", "50")
    done = call("run", "m.onnx", "--inputs", "x.npz", "--engine", "simulation", "--out", "y.npz", *wanted)
    assert done.exit_code == 0
    assert asked == [
        RunOptions(Path("m.onnx"), Path("x.npz"), Engine.SIMULATION, multipliers=4, fps=25.0, clock_mhz=50.0)
    ]
    assert done.stdout.startswith("y: int8[2, 3]\n[[0 1 2]\n [3 4 5]]\n") and done.stdout.endswith(f"{told}")
    assert ("accuracy" in done.stdout) == bool(told)
    with np.load("y.npz") as written:
        np.testing.assert_array_equal(written["y"], [[0, 1, 2], [3, 4, 5]])


def test_run_computes_golden_unless_told_otherwise(monkeypatch):
    asked = []
    monkeypatch.setattr(flow, "run", lambda options, progress: asked.append(options.engine) or Outputs({}))
    assert call("run", "m.onnx", "--inputs", "x.npz").exit_code == 0
    assert asked == [Engine.GOLDEN]


@pytest.mark.parametrize("engine", ["reference", "golden"])
def test_run_states_the_accuracy(engine):
    """As it is said beside the example."""
    done = call("run", DIGITS, "--inputs", EXAMPLES / "digits" / "digits_test.npz", "--engine", engine)
    assert done.exit_code == 0
    share, samples = re.search(r"accuracy: ([\d.]+)% of (\d+) samples", done.stdout).groups()
    assert int(samples) == 360 and 97.5 < float(share) < 98.5


def test_run_without_a_place_for_its_outputs(monkeypatch):
    monkeypatch.setattr(flow, "run", lambda options, progress: Outputs({"y": np.zeros(1)}))
    done = call("run", "m.onnx", "--inputs", "x.npz", "--engine", "golden", "--out", "no/such/folder/y.npz")
    assert done.exit_code == 1
    assert "error[samples-write]" in done.stderr


# ---- check ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def hardware(monkeypatch):
    """What stands in the way of a circuit; a test may change the list."""
    obstacles: list[Problem] = []
    monkeypatch.setattr(flow, "check_hardware", lambda options: UserError(*obstacles) if obstacles else None)
    return obstacles


def test_check_a_model_that_can_be_built(hardware):
    done = call("check", DIGITS)
    assert done.exit_code == 0
    assert done.stdout.startswith(f"{DIGITS}: can be built\n inputs     image: float[1,1,8,8]\n")
    assert "2 Conv" in done.stdout
    assert done.stderr == ""  # our own example does not earn a warning
    assert {warning["code"] for warning in json.loads(call("check", DIGITS, "--json").stdout)["warnings"]}
    assert "error[name-not-identifier]" in call("check", DIGITS, "--strict").stderr


def test_check_names_the_obstacles_to_a_circuit(hardware):
    hardware.append(Problem("odd", "no circuit does this", 'graph.node[3](Odd "x")'))
    done = call("check", DIGITS)
    assert done.exit_code == 1
    assert 'error[odd]: no circuit does this\n  where  graph.node[3](Odd "x")' in done.stderr
    assert "valid ONNX that cannot be built, 1 problem" in done.stdout
    assert call("check", DIGITS, "--onnx-only").exit_code == 0
    found = json.loads(call("check", DIGITS, "--json").stdout)
    assert (found["verdict"], found["problems"]) == ("accepted", [])
    assert [problem["code"] for problem in found["obstacles"]] == ["odd"]


def test_check_asks_for_what_a_build_would(monkeypatch):
    asked = []
    monkeypatch.setattr(flow, "check_hardware", lambda options: asked.append(options))
    assert call("check", DIGITS, "--multipliers", "3", "--fps", "7", "--clock", "50").exit_code == 0
    assert asked == [BuildOptions(Path(DIGITS), multipliers=3, fps=7.0, clock_mhz=50.0)]


def test_check_says_which_rate_a_board_cannot_do():
    done = call("check", DIGITS, "--fps", "3000000")
    assert done.exit_code == 1
    assert "error[fps-unreachable]: this model can do 1250000 frames a second at 80 MHz, not 3000000" in done.stderr
    assert call("check", DIGITS, "--fps", "1000").exit_code == 0


def test_check_says_what_does_not_fit():
    done = call("check", DIGITS, "--multipliers", "2")
    assert done.exit_code == 2
    assert "error[too-big]: even the slowest design needs 3 MAC lanes of 2" in done.stderr
    assert "hint   `--multipliers 3` fits: 3 lanes" in done.stderr
    assert call("check", DIGITS, "--multipliers", "3").exit_code == 0


def test_check_a_file_that_is_no_model(hardware):
    Path("page.onnx").write_text("<!DOCTYPE html><title>Sign in</title>")
    done = call("check", "page.onnx")
    assert done.exit_code == 1
    assert "not a valid ONNX model" in done.stdout
    assert done.stderr.startswith("error[")
    found = json.loads(call("check", "page.onnx", "--json").stdout)
    assert (found["verdict"], found["stage"], found["obstacles"]) == ("refused", "parse", None)


def test_check_suggests_no_option_that_it_does_not_have():
    """What a build alone takes is told as that: of a model that is quantized in part, and of one without a circuit."""
    save_partly_quantized("partly.onnx", ["Conv", "Softmax", "QuantizeLinear"])
    save_partly_quantized("nothing.onnx", ["Softmax", "QuantizeLinear"])
    known = {name for option in main.commands["check"].params for name in option.opts}
    for model in ("partly.onnx", "nothing.onnx"):
        done = call("check", model)
        assert done.exit_code == 1
        hints = re.findall(r"^  hint   (.*)$", done.stderr, re.MULTILINE)
        assert hints
        for hint in hints:
            assert "a build" in hint or set(re.findall(r"--[a-z-]+", hint)) <= known


def save_partly_quantized(path: str, operators: list[str]) -> None:
    """Operators one after the other on an image [1,2,3,3] of floats."""
    nodes, name = [], "x"
    for k, operator in enumerate(operators):
        more = {"Conv": ["w"], "QuantizeLinear": ["s", "z"]}.get(operator, [])
        nodes.append(helper.make_node(operator, [name, *more], [f"y{k}"], name=f"{operator.lower()}{k}"))
        name = f"y{k}"
    constants = {"w": np.ones((2, 2, 1, 1), np.float32), "s": np.float32(0.1), "z": np.int8(0)}
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3, 3])
    result = helper.make_tensor_value_info(name, TensorProto.INT8, [1, 2, 3, 3])
    stored = [numpy_helper.from_array(np.asarray(array), key) for key, array in constants.items()]
    graph = helper.make_graph(nodes, "g", [image], [result], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def test_check_binds_dimensions_of_the_model_only(hardware):
    done = call("check", DIGITS, "--dim", "N=3")
    assert done.exit_code == 1
    assert "error[dimension-unknown]" in done.stderr


# ---- the small ones -------------------------------------------------------------------------------------------------


def test_version():
    assert call("--version").stdout == f"onnx-hw {__version__}\n"


def test_no_command_shows_the_help():
    done = call()
    assert done.exit_code == 1
    for name in ("build", "run", "check", "boards", "doctor", "ops"):
        assert f"\n  {name} " in done.output


@pytest.mark.parametrize("command", [[], *([name] for name in sorted(main.commands))], ids=" ".join)
@pytest.mark.parametrize("width", [60, 80])
def test_help_fits(command, width):
    shown = CliRunner().invoke(main, [*command, "--help"], terminal_width=width).stdout.splitlines()
    assert max(map(len, shown)) <= width
    options = [line for line in shown if line.startswith("  --")]
    assert all(len(line.split()[0] + " " + line.split()[1]) < 25 for line in options), "one column of options"


def test_boards():
    done = call("boards")
    assert done.exit_code == 0
    assert "ecp5" in done.stdout
    assert "83,640" in done.stdout


def test_ops():
    lines = call("ops").stdout.splitlines()
    assert any(line.startswith("| Conv | 1, 11, 22 | yes | yes") for line in lines)
    assert any(line.startswith("| LSTM |") and line.endswith("| yes | no |") for line in lines)


def test_doctor_says_what_is_missing(monkeypatch):
    real = tools.find

    def find(name):
        if name in ("yosys", "c++"):
            raise tools.ToolMissing(name, ("PATH",), name.upper())
        return replace(real("ecppack"), name=name, wheel=None, command=("echo", "9.9"), found="PATH")

    monkeypatch.setattr(tools, "find", find)
    done = call("doctor")
    assert done.exit_code == 3
    assert " yosys         missing: synthesis, and the circuit as Verilog\n" in done.stdout
    assert ' pip install "onnx-hw[tools]", or set YOSYS\n' in done.stdout
    assert "a build cannot be finished without yosys\n" in done.stdout
    assert " c++           missing: " in done.stdout
    assert "slow simulator" in done.stdout
