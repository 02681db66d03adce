"""``onnx-hw check``: what it asks for, says and returns."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_hw.cli.cli import main
from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.runtime.options import BuildOptions, OutputKind, QuantizeOptions
from onnx_hw.runtime.schedule_request import ScheduleRequest
from support.cli_runner import Instead, call
from support.fixture_paths import EXAMPLES
from support.onnx_oracle import write
from support.qdq_models import Sketch

DIGITS = str(EXAMPLES / "digits" / "digits.onnx")


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """Commands may write into the current folder."""
    monkeypatch.chdir(tmp_path)


class Obstacles(Instead):
    """What stands in the way of a circuit; a test may change the list."""

    def __init__(self):
        self.found: list[Problem] = []
        super().__init__(answer_for_hardware=self.answer)

    def answer(self, options, *_):
        """Answer that a model whose name says that it has floats lacks scales."""
        return (UserError(*self.found), False) if self.found else (None, "float" in str(options.model))


@pytest.fixture
def hardware():
    return Obstacles()


def test_check_a_model_that_can_be_built(hardware):
    done = call("check", DIGITS, by=hardware)
    assert done.exit_code == 0
    assert done.stdout.startswith(f"{DIGITS}: can be built for ecp5\n inputs     image: float[1,1,8,8]\n")
    assert "next       `onnx-hw build " in done.stdout
    assert "2 Conv" in done.stdout
    assert done.stderr == ""  # our own example does not earn a warning
    assert {warning["code"] for warning in json.loads(call("check", DIGITS, "--json", by=hardware).stdout)["warnings"]}
    assert "error[name-not-identifier]" in call("check", DIGITS, "--strict", by=hardware).stderr


@pytest.mark.parametrize("quantized", [False, True])
def test_a_layer_in_floats_needs_samples_unless_integers_bound_it(quantized, tmp_path):
    sketch, generator = Sketch(), np.random.default_rng(0)
    weights = [sketch.constant(generator.normal(0, 0.5, shape).astype("f")) for shape in ((1, 9, 4), (1, 9, 3))]
    x = sketch.through_integers("x", 0.02, 3) if quantized else "x"
    y = sketch.through_integers(sketch.node("GRU", x, *weights, hidden_size=3), 0.01, 0)
    last = sketch.dequantized(generator.integers(-99, 99, (3, 2)).astype(np.int8), 0.01, np.int8(0))
    write(sketch, tmp_path / "m.onnx", {"x": [5, 1, 4]}, sketch.node("MatMul", y, last))
    done = call("check", str(tmp_path / "m.onnx"))
    assert "can be built" in done.stdout
    assert ("--calibration" in done.stdout) is not quantized


def test_check_says_what_to_type_next(hardware):
    """For the board and the options that were checked; a float model needs samples."""
    floats = DIGITS.replace("digits.onnx", "digits_float.onnx")
    said = " ".join(call("check", floats, "--board", "icebreaker", "--fps", "30", by=hardware).stdout.split())
    assert f"{floats}: can be built for icebreaker" in said
    assert said.endswith("--board icebreaker --fps 30 --calibration samples.npz`")
    assert not call("check", DIGITS, "--onnx-only").stdout.count("next")
    hardware.found.append(Problem("odd", "no circuit does this"))
    assert not call("check", floats, by=hardware).stdout.count("next")


def test_check_names_the_obstacles_to_a_circuit(hardware):
    hardware.found.append(Problem("odd", "no circuit does this", 'graph.node[3](Odd "x")'))
    done = call("check", DIGITS, by=hardware)
    assert done.exit_code == 1
    assert 'error[odd]: no circuit does this\n  where  graph.node[3](Odd "x")' in done.stderr
    assert "valid ONNX that cannot be built, 1 problem" in done.stdout
    assert call("check", DIGITS, "--onnx-only", by=hardware).exit_code == 0
    found = json.loads(call("check", DIGITS, "--json", by=hardware).stdout)
    assert (found["verdict"], found["problems"]) == ("accepted", [])
    assert [problem["code"] for problem in found["obstacles"]] == ["odd"]


def test_check_asks_for_what_a_build_would(hardware):
    assert call("check", DIGITS, "--multipliers", "3", "--fps", "7", "--clock", "50", by=hardware).exit_code == 0
    assert hardware.asked == [
        BuildOptions(model=Path(DIGITS), scheduling=ScheduleRequest(multipliers=3, fps=7.0, clock_mhz=50.0))
    ]


def test_check_asks_with_the_bits_of_a_build(hardware):
    floats = DIGITS.replace("digits.onnx", "digits_float.onnx")
    done = call("check", floats, "--bits", "weights=4,data=6", "--output-kind", "int8", by=hardware)
    assert hardware.asked[0].quantizing == QuantizeOptions(weights=4, data=6, output=OutputKind.INT8)
    said = " ".join(done.stdout.split())
    assert said.endswith("--bits weights=4,data=6 --output-kind int8 --calibration samples.npz`")
    refused = call("check", DIGITS, "--bits", "4")
    assert refused.exit_code == 1
    assert "bits are chosen for a model that lacks integers; `digits` brings all of its own" in refused.stderr


def test_check_says_which_rate_a_board_cannot_do():
    done = call("check", DIGITS, "--fps", "30000000")
    assert done.exit_code == 1
    assert "error[fps-unreachable]: this model can do 5000000 frames a second at 80 MHz, not 30000000" in done.stderr
    assert call("check", DIGITS, "--fps", "1000").exit_code == 0


def test_check_says_what_does_not_fit():
    done = call("check", DIGITS, "--multipliers", "2")
    assert done.exit_code == 2
    assert "error[too-big]: even the slowest design needs 3 MAC lanes of 2" in done.stderr
    assert "hint   `--multipliers 3` fits: 3 lanes" in done.stderr
    assert call("check", DIGITS, "--multipliers", "3").exit_code == 0


def test_check_a_file_that_is_no_model(hardware):
    Path("page.onnx").write_text("<!DOCTYPE html><title>Sign in</title>")
    done = call("check", "page.onnx", by=hardware)
    assert done.exit_code == 1
    assert "not a valid ONNX model" in done.stdout
    assert done.stderr.startswith("error[")
    found = json.loads(call("check", "page.onnx", "--json", by=hardware).stdout)
    assert (found["verdict"], found["stage"], found["obstacles"]) == ("refused", "parse", None)


def test_check_suggests_no_option_that_it_does_not_have():
    """What a build alone takes is told as that; a model that is quantized in part needs only that."""
    save_partly_quantized("partly.onnx", ["Conv", "Softmax", "QuantizeLinear"])
    assert call("check", "partly.onnx").exit_code == 0
    save_partly_quantized("nothing.onnx", ["Softmax", "QuantizeLinear"])
    known = {name for option in main.commands["check"].params for name in option.opts}
    for command, model in (("check", "nothing.onnx"), ("build", "partly.onnx")):
        done = call(command, model)
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
    done = call("check", DIGITS, "--dim", "N=3", by=hardware)
    assert done.exit_code == 1
    assert "error[dimension-unknown]" in done.stderr
