"""``onnx-hw update``: the weights of retrained models in one circuit, at the simulated pins of a board."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

import onnx
import onnx_hw
from onnx import numpy_helper
from onnx_hw.assemble.design_file import read_design
from onnx_hw.commands.infer import InferOptions, opened_port, read_host
from onnx_hw.commands.update import UpdateOptions, update
from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.messages.errors import UserError
from onnx_hw.runtime.progress import Silent
from onnx_hw_link.device import Device
from onnx_hw_link.errors import LinkError
from onnx_hw_link.host_model import HostModel
from support.cli_runner import call
from support.residual_float_model import SAMPLES, residual_float_model
from support.retrained import retrained
from support.tiny_float_model import IMAGES, tiny_float_model

BOARDS = ("icebreaker", "ulx3s")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model, samples, and a build for each board."""
    folder = tmp_path_factory.mktemp("built")
    onnx.save(tiny_float_model(), folder / "tiny.onnx")
    np.savez(folder / "x.npz", image=IMAGES)
    for board in BOARDS:
        options = ("--calibration", folder / "x.npz", "--weights", "loadable", "--stop-after", "assemble")
        done = call("build", folder / "tiny.onnx", "--board", board, "--out", folder / board, *options)
        assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def built(place: Path, tmp_path: Path) -> Path:
    """A copy of the build for the iCEBreaker, whose weights may change."""
    return Path(shutil.copytree(place / "icebreaker", tmp_path / "icebreaker"))


def saved(model: onnx.ModelProto, path: Path) -> Path:
    onnx.save(model, path)
    return path


@contextmanager
def chip_of(folder: Path) -> Iterator[tuple[str, float]]:
    """Yield the port of a chip with the bitstream's weights, which is on while those of the folder change."""
    options = InferOptions(folder=folder, inputs=None, port="sim")
    design = read_design(folder, as_built=True).design
    with opened_port(options, read_host(folder), design, Silent()) as (port, timeout):
        yield port, timeout


def frames_at(port: str, timeout: float, folder: Path, images: np.ndarray) -> tuple[int, int]:
    """Send images, and return (wrong frames, bytes that were loaded)."""
    network = read_design(folder).design.network
    wanted = golden.run(network, {"image": images[:, None]})
    with Device.of(HostModel.read(folder), port, timeout=timeout) as device:
        outputs = list(device.stream({"image": image[None]} for image in images))
        loaded = device.chip.loaded_bytes
    wrong = sum(any((made[name] != wanted[name][k]).any() for name in made) for k, made in enumerate(outputs))
    return wrong, loaded


@pytest.mark.parametrize("board", BOARDS)
def test_updates_between_frames(place: Path, tmp_path: Path, board: str) -> None:
    """One bitstream, one chip that stays on: every frame is as golden's with the weights of its model."""
    folder = Path(shutil.copytree(place / board, tmp_path / board))
    with chip_of(folder) as (port, timeout):
        assert frames_at(port, timeout, folder, IMAGES[:8]) == (0, 0)
        for seed in range(1, 4):
            model = saved(retrained(tiny_float_model(), seed), tmp_path / f"{seed}.onnx")
            result = update(UpdateOptions(folder=folder, model=model))
            assert result.weight_bytes == read_host(folder).link.load.size  # type: ignore[union-attr]
            assert frames_at(port, timeout, folder, IMAGES[seed : seed + 12]) == (0, result.weight_bytes)
            assert frames_at(port, timeout, folder, IMAGES[:4]) == (0, 0)  # it holds them already
    first, last = (read_design(folder, as_built=built).design for built in (True, False))
    assert dict(first.foldings) == dict(last.foldings) and dict(first.fifos) == dict(last.fifos)
    weights = [design.network.nodes[1].operator.weights for design in (first, last)]
    assert not np.array_equal(*weights)


def test_scales_zero_points_and_bounds_move(tmp_path: Path) -> None:
    """A network with a residual sum, a gate, padded convolutions and bounds, on a chip that stays on."""
    onnx.save(residual_float_model(), tmp_path / "first.onnx")
    np.savez(tmp_path / "x.npz", image=SAMPLES[:, 0])
    options = ("--calibration", tmp_path / "x.npz", "--weights", "loadable", "--bits", "8", "--stop-after", "assemble")
    folder = tmp_path / "built"
    done = call("build", tmp_path / "first.onnx", "--board", "ulx3s", "--out", folder, *options)
    assert done.exit_code == 0 and "cannot be loaded" not in done.output, done.output
    moved = set()
    with chip_of(folder) as (port, timeout):
        assert frames_at(port, timeout, folder, SAMPLES[:8, 0]) == (0, 0)
        before = numbers_of(read_design(folder).design)
        for seed in (1, 2):
            model = saved(retrained(residual_float_model(), seed), tmp_path / f"{seed}.onnx")
            result = update(UpdateOptions(folder=folder, model=model))
            numbers = numbers_of(read_design(folder).design)
            moved |= {name.split("/")[-1] for name, number in numbers.items() if number != before[name]}
            assert frames_at(port, timeout, folder, SAMPLES[seed : seed + 12, 0]) == (0, result.weight_bytes)
    assert moved >= {"pad_value", "offset_a", "low", "high"}, moved


def numbers_of(design: Design) -> dict[str, int]:
    """Return the single numbers that are loaded, by node and name."""
    return {
        f"{node.name}/{name}": number
        for node in design.network.nodes
        for name, (number, _) in node.operator.loaded_numbers.items()
    }


def test_the_command_line(built: Path, place: Path, tmp_path: Path) -> None:
    """It says what it proved and where the weights are; ``verify`` and ``infer`` then take the new network."""
    model = saved(retrained(tiny_float_model(), 9), tmp_path / "again.onnx")
    done = call("update", built, model, "--port", "sim")
    assert done.exit_code == 0, done.output
    assert "frames simulated, 0 wrong" in done.output and "sent to" in done.output
    report = json.loads((built / "update" / "report.json").read_text())
    assert report["links"]["golden_circuit"]["state"] == "proven" and report["model"]["name"] == "again"
    done = call("verify", built, "--frames", "4")
    assert done.exit_code == 0, done.output
    done = call("infer", built, "--inputs", place / "x.npz", "--port", "sim", "--check")
    assert done.exit_code == 0 and "each equal to golden" in done.output, done.output
    done = call("infer", built, "--self-test", "--port", "sim")
    assert done.exit_code == 0 and "PASS" in done.output, done.output
    assert "the bitstream" in call("update", "--help").output


def test_from_python(built: Path, place: Path) -> None:
    """A model and samples from memory; ``infer`` then computes with the new weights."""
    model = retrained(tiny_float_model("again"), 12)
    done = onnx_hw.update(built, model, calibration={"image": IMAGES[:30]}, port="sim")
    assert done.sent_bytes == done.weight_bytes > 0 and done.report.links.golden_circuit.state == "proven"
    outputs = onnx_hw.infer(built, {"image": IMAGES[:5]}, port="sim", check=True)
    assert outputs["probabilities"].shape == (5, 3)
    with pytest.raises(onnx_hw.UserError, match=r"must hold report\.json"):
        onnx_hw.update(place, model)


def test_the_same_weights_have_the_same_digest(built: Path, place: Path) -> None:
    before = (built / "weights.bin").read_bytes()
    update(UpdateOptions(folder=built, model=place / "tiny.onnx"))
    assert (built / "weights.bin").read_bytes() == before
    assert json.loads((built / "model.json").read_text())["load"]["size"] == len(before)


def test_an_update_that_fails_changes_nothing(built: Path, tmp_path: Path) -> None:
    kept = {path.name: path.read_bytes() for path in built.iterdir() if path.is_file() and path.name != ".lock"}
    other = retrained(tiny_float_model(), 2)
    other.graph.node[0].attribute[0].ints[:] = [0, 0, 2, 2]
    with pytest.raises(UserError):
        update(UpdateOptions(folder=built, model=saved(other, tmp_path / "other.onnx")))
    assert kept == {path.name: path.read_bytes() for path in built.iterdir() if path.is_file() and path.name != ".lock"}


def test_a_build_again_begins_anew(built: Path, place: Path, tmp_path: Path) -> None:
    """The design in the bitstream is then the new one."""
    update(UpdateOptions(folder=built, model=saved(retrained(tiny_float_model(), 5), tmp_path / "5.onnx")))
    assert (built / "design-built.npz").exists()
    options = ("--calibration", place / "x.npz", "--weights", "loadable", "--stop-after", "assemble")
    assert call("build", place / "tiny.onnx", "--board", "icebreaker", "--out", built, *options).exit_code == 0
    assert not (built / "design-built.npz").exists()


# ---- refusals --------------------------------------------------------------------------------------------------------


def changed(change: Any) -> onnx.ModelProto:
    model = tiny_float_model()
    change(model.graph)
    return model


def set_constant(graph: onnx.GraphProto, name: str, array: np.ndarray) -> None:
    (stored,) = (each for each in graph.initializer if each.name == name)
    stored.CopyFrom(numpy_helper.from_array(array.astype(np.float32), name))


def wider_kernel(graph: onnx.GraphProto) -> None:
    set_constant(graph, "kernel", np.random.default_rng(0).normal(0, 0.4, (2, 1, 5, 5)))
    graph.node[0].attribute[0].ints[:] = [2, 2, 2, 2]


def more_channels(graph: onnx.GraphProto) -> None:
    set_constant(graph, "kernel", np.random.default_rng(0).normal(0, 0.4, (3, 1, 3, 3)))
    set_constant(graph, "matrix", np.random.default_rng(0).normal(0, 0.4, (48, 3)))


def more_classes(graph: onnx.GraphProto) -> None:
    set_constant(graph, "matrix", np.random.default_rng(0).normal(0, 0.4, (32, 4)))
    set_constant(graph, "bias", np.zeros(4))
    graph.output[0].type.tensor_type.shape.dim[1].dim_value = 4


def another_activation(graph: onnx.GraphProto) -> None:
    graph.node[1].CopyFrom(make_node("Sigmoid", ["sums"], ["features"], "relu"))


def another_name(graph: onnx.GraphProto) -> None:
    graph.node[0].name = "convolution"


def a_pool_between(graph: onnx.GraphProto) -> None:
    graph.node.insert(2, make_node("MaxPool", ["features"], ["pooled"], "pool", kernel_shape=[3, 3], pads=[1] * 4))
    graph.node[3].input[0] = "pooled"


def without_pads(graph: onnx.GraphProto) -> None:
    graph.node[0].attribute[0].ints[:] = [0, 0, 0, 0]
    set_constant(graph, "matrix", np.random.default_rng(0).normal(0, 0.4, (8, 3)))


def strides(graph: onnx.GraphProto) -> None:
    graph.node[0].attribute.append(onnx.helper.make_attribute("strides", [2, 2]))
    set_constant(graph, "matrix", np.random.default_rng(0).normal(0, 0.4, (8, 3)))


def leaky(graph: onnx.GraphProto) -> None:
    graph.node[1].CopyFrom(make_node("LeakyRelu", ["sums"], ["features"], "relu", alpha=0.3))


def tanh(graph: onnx.GraphProto) -> None:
    graph.node[1].CopyFrom(make_node("Tanh", ["sums"], ["features"], "relu"))


def no_activation(graph: onnx.GraphProto) -> None:
    graph.node[1].CopyFrom(make_node("Identity", ["sums"], ["features"], "relu"))


def dilated(graph: onnx.GraphProto) -> None:
    graph.node[0].attribute[0].ints[:] = [2, 2, 2, 2]
    graph.node[0].attribute.append(onnx.helper.make_attribute("dilations", [2, 2]))


def flat_kernel(graph: onnx.GraphProto) -> None:
    set_constant(graph, "kernel", np.random.default_rng(0).normal(0, 0.4, (2, 1, 1, 3)))
    graph.node[0].attribute[0].ints[:] = [0, 1, 0, 1]


def two_products(graph: onnx.GraphProto) -> None:
    square = numpy_helper.from_array(np.random.default_rng(0).normal(0, 0.4, (32, 32)).astype(np.float32), "square")
    graph.initializer.append(square)
    graph.node.insert(3, make_node("MatMul", ["flat", "square"], ["mixed"], "mix"))
    graph.node[4].input[0] = "mixed"


def average(graph: onnx.GraphProto) -> None:
    graph.node.insert(2, make_node("GlobalAveragePool", ["features"], ["pooled"], "average"))
    graph.node[3].input[0] = "pooled"
    set_constant(graph, "matrix", np.random.default_rng(0).normal(0, 0.4, (2, 3)))


def another_name_of_the_product(graph: onnx.GraphProto) -> None:
    graph.node[3].name = "classifier"


def one_channel(graph: onnx.GraphProto) -> None:
    set_constant(graph, "kernel", np.random.default_rng(0).normal(0, 0.4, (1, 1, 3, 3)))
    set_constant(graph, "matrix", np.random.default_rng(0).normal(0, 0.4, (16, 3)))


REFUSALS = {
    "wider_kernel": (wider_kernel, "Window 3×3"),
    "more_channels": (more_channels, "MatMul 9→2"),
    "more_classes": (more_classes, "MatMul 32→3"),
    "another_activation": (another_activation, "the model"),
    "another_name": (another_name, "nothing of this name"),
    "a_pool_between": (a_pool_between, "`pool`|MaxPool|nothing of this name"),
    "without_pads": (without_pads, "shapes"),
    "strides": (strides, "stride"),
    "leaky": (leaky, "the model|must fit the circuit"),
    "tanh": (tanh, "the model"),
    "no_activation": (no_activation, "the model|must fit the circuit"),
    "dilated": (dilated, "pads"),
    "flat_kernel": (flat_kernel, "Window"),
    "two_products": (two_products, "the circuit nothing of this name"),
    "average": (average, "MatMul"),
    "another_name_of_the_product": (another_name_of_the_product, "nothing of this name"),
    "one_channel": (one_channel, "MatMul"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_another_graph_is_refused_by_its_nodes(name: str, built: Path, tmp_path: Path) -> None:
    """Each with a sentence about a node of the user's model, and with the command that builds it."""
    change, said = REFUSALS[name]
    with pytest.raises(UserError, match=said) as refused:
        update(UpdateOptions(folder=built, model=saved(changed(change), tmp_path / "other.onnx")))
    codes = {problem.code for problem in refused.value.problems}
    assert codes <= {"another-graph", "another-circuit", "not-loadable"}, codes
    assert all(problem.where or problem.code == "another-circuit" for problem in refused.value.problems)
    assert all("build" in problem.hint for problem in refused.value.problems)


def test_weights_that_are_fixed(place: Path, tmp_path: Path) -> None:
    options = ("--calibration", place / "x.npz", "--stop-after", "assemble", "--board", "icebreaker")
    assert call("build", place / "tiny.onnx", "--out", tmp_path / "fixed", *options).exit_code == 0
    done = call("update", tmp_path / "fixed", place / "tiny.onnx")
    assert done.exit_code == 1 and "error[weights-fixed]" in done.output and "--weights loadable" in done.output


def test_a_board_without_a_link(place: Path, tmp_path: Path) -> None:
    options = ("--calibration", place / "x.npz", "--stop-after", "assemble", "--weights", "loadable")
    done = call("build", place / "tiny.onnx", "--board", "ecp5", "--out", tmp_path / "o", *options)
    assert done.exit_code == 1 and "error[no-link]" in done.output and "--board icebreaker" in done.output


def test_files_that_are_missing_or_of_others(built: Path, place: Path) -> None:
    weights = (built / "weights.bin").read_bytes()
    (built / "weights.bin").write_bytes(weights[::-1])
    with pytest.raises(LinkError, match="holds others"):
        HostModel.read(built)
    (built / "weights.bin").write_bytes(weights[:-1])
    with pytest.raises(LinkError, match="must have"):
        HostModel.read(built)
    (built / "weights.bin").unlink()
    with pytest.raises(LinkError, match="cannot be read"):
        HostModel.read(built)
    (built / "network.npz").write_bytes(b"nothing")
    done = call("update", built, place / "tiny.onnx")
    assert done.exit_code == 1 and "error[network-file]" in done.output and "damaged" in done.output
    (built / "network.npz").unlink()
    done = call("update", built, place / "tiny.onnx")
    assert "it is not there" in done.output
    done = call("update", built / "nowhere", place / "tiny.onnx")
    assert done.exit_code == 1 and "error[no-report]" in done.output
