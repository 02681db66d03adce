"""The error of a model whose end cannot become a circuit names a cut, and that cut can be built."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import patch

import click
import numpy as np
import pytest
from onnx.helper import make_node

import onnx
import onnx_hw
from onnx import numpy_helper
from onnx_hw.cli.check import check as check_command
from onnx_hw.cli.option_groups import complete_tensors
from onnx_hw.commands.check import check_hardware
from onnx_hw.messages.errors import UserError
from onnx_hw.report.read import options_of, read_report
from onnx_hw.runtime.options import BuildOptions, ReadOptions
from support import onnx_files as files
from support.cli_runner import call
from support.tiny_float_model import IMAGES

RANDOM = np.random.default_rng(1)
FIRST = [make_node("Conv", ["x", "kernel"], ["c"], "conv", pads=[1] * 4), make_node("Relu", ["c"], ["r"], "relu")]
UNKNOWN = make_node("Odd", ["c", "r"], ["o"], "odd", domain="org.odd")


def write(folder: Path, *nodes: onnx.NodeProto) -> Path:
    """Write a model of a convolution, a Relu and these nodes, from ``x`` to ``y``."""
    weights = {"kernel": (2, 1, 3, 3), "dense": (32, 3), "square": (3, 3)}
    constants = [
        numpy_helper.from_array(RANDOM.normal(0, 0.4, shape).astype(np.float32), name)
        for name, shape in weights.items()
    ]
    rank = 2 if any("dense" in node.input for node in nodes) else 4
    drawn = files.model(
        [*FIRST, *nodes],
        inputs=[files.value("x", (1, 1, 4, 4))],
        outputs=[files.value("y", (None,) * rank)],
        constants=constants,
        opset={"": 17, "org.odd": 1},
    )
    return files.write(folder, drawn)


TAILS = {
    "operator-unsupported": ("c,r", [UNKNOWN, make_node("Neg", ["o"], ["y"])]),
    "operator-random": ("r", [make_node("RandomNormalLike", ["r"], ["n"]), make_node("Add", ["n", "r"], ["y"])]),
    # the second obstacle is met only where the first one is cut off
    "unsupported": (
        "g",
        [
            make_node("Flatten", ["r"], ["f"]),
            make_node("MatMul", ["f", "dense"], ["g"]),
            make_node("Bernoulli", ["g"], ["s"]),
            make_node("MatMul", ["s", "square"], ["m"]),
            make_node("Odd", ["m"], ["y"], "odd", domain="org.odd"),
        ],
    ),
}


@pytest.mark.parametrize("code", TAILS)
def test_the_cut_is_named_and_can_be_built(tmp_path: Path, code: str) -> None:
    cut, nodes = TAILS[code]
    path = write(tmp_path, *nodes)
    refused = check_hardware(BuildOptions(model=path))
    assert refused is not None
    named = re.search(r"`--cut-at (\S+)` builds what stands before: (\d+) of (\d+) nodes", refused.problems[-1].hint)
    assert named is not None and int(named[3]) == len(nodes) + 2
    assert sorted(named[1].split(",")) == sorted(cut.split(","))
    assert check_hardware(BuildOptions(model=path, reading=ReadOptions(cut_at=(named[1],)))) is None


@pytest.mark.parametrize(
    "nodes",
    [
        [make_node("Odd", ["x"], ["o"], "odd", domain="org.odd"), make_node("Conv", ["o", "kernel"], ["y"])],
        [make_node("Odd", ["r"], ["o"], "odd", domain="org.odd"), make_node("Add", ["o", "r"], ["y"])],
    ],
)
def test_a_cut_is_named_only_where_products_are_left(tmp_path: Path, nodes: list[onnx.NodeProto]) -> None:
    path = write(tmp_path, *nodes)
    refused = check_hardware(BuildOptions(model=path))
    assert refused is not None
    assert ("--cut-at" in str(refused)) == (nodes[0].input[0] != "x")


def test_the_commands_print_it_and_take_it(tmp_path: Path) -> None:
    path = write(tmp_path, *TAILS["operator-unsupported"][1])
    for command in ("check", "build", "boards"):
        done = call(command, path, *(["--out", tmp_path / "out"] if command == "build" else []))
        assert done.exit_code == 1 and "`--cut-at c,r` builds" in done.stderr, command
    done = call("check", path, "--cut-at", "c,r")
    assert done.exit_code == 0 and "note       cut at `c`, `r`: 2 of 4 nodes are left out" in done.stdout
    with patch("onnx_hw.commands.fit_boards.fit_boards", return_value=iter(())) as fit_boards:
        assert call("boards", path, "--cut-at", "c,r").exit_code == 0
    assert fit_boards.call_args.args[2] == ReadOptions(cut_at=("c,r",))
    assert "must have a MODEL" in call("boards", "--cut-at", "c").stderr
    np.savez(tmp_path / "x.npz", x=IMAGES[:3])
    done = call("run", path, "--cut-at", "r", "--engine", "reference", "--inputs", tmp_path / "x.npz")
    assert done.exit_code == 0 and done.stdout.startswith("r: float32[3, 1, 2, 4, 4]")


def test_python_takes_it_as_a_keyword(tmp_path: Path) -> None:
    path = write(tmp_path, *TAILS["operator-unsupported"][1])
    with pytest.raises(UserError, match=r'cut_at="c,r"'):
        onnx_hw.quantize(path, IMAGES)
    network = onnx_hw.quantize(path, IMAGES, cut_at=["c", "r"])
    outputs = network(IMAGES[:2])
    assert list(outputs) == ["c", "r"]
    np.testing.assert_allclose(outputs["r"], np.maximum(outputs["c"], 0), atol=0.05)
    build = onnx_hw.build(network, stop_after="schedule", out=tmp_path / "out")
    assert build.report.model.notes[-1].startswith("cut at `c`, `r`")
    assert options_of(read_report(build.folder), build.folder).reading == ReadOptions(cut_at=("c", "r"))
    with pytest.raises(UserError, match="names of tensors"):
        onnx_hw.quantize(path, IMAGES, cut_at=[1])  # type: ignore[list-item]


def test_a_shell_completes_tensors(tmp_path: Path) -> None:
    path = write(tmp_path, *TAILS["operator-unsupported"][1])
    context = click.Context(check_command)
    context.params["model"] = path
    assert [item.value for item in complete_tensors(context, check_command.params[0], "c,")] == [
        "c,c",
        "c,r",
        "c,o",
        "c,y",
    ]
    assert [item.value for item in complete_tensors(context, check_command.params[0], "r")] == ["r"]
    context.params["model"] = tmp_path / "missing.onnx"
    assert complete_tensors(context, check_command.params[0], "") == []
