"""The whole chip behind a port, by the driver: its circuit (``run --engine board``), or its cells (``infer --engine
gates``); and a board without a link."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx.helper import make_node

import onnx_hw
from onnx import TensorProto
from onnx_hw.assemble.netlist import bit_rate_of
from onnx_hw.commands.infer import InferOptions
from onnx_hw.commands.run import run
from onnx_hw.commands.simulated_board import require_same_chip, simulated_netlist
from onnx_hw.implement.synthesize import STAGE
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.prove.circuit.pin_level_bench import PinLevelBench
from onnx_hw.runtime.artifact_store import write_record
from onnx_hw.runtime.build_folder import BuildFolder
from onnx_hw.runtime.options import Evaluator, RunOptions, SimulationEngine, port_engine_of
from onnx_hw.runtime.progress import Silent
from onnx_hw_link.chip import Chip
from onnx_hw_link.frames import out_of_turns
from onnx_hw_link.host_model import HostModel
from onnx_hw_link.transport import SerialTransport
from support.cli_runner import call
from support.design_bench import random_frames
from support.fixture_paths import EXAMPLES
from support.onnx_files import model, tensor, value, write
from support.recorded_bitstream import RecordedChip, recorded
from support.tiny_float_model import IMAGES, tiny_float_model


@pytest.mark.slow
def test_the_chip_computes_what_golden_does(tmp_path: Path) -> None:
    """LogSoftmax is no part of the driver: this host has the compiler."""
    draw = np.random.default_rng(1)
    weights = tensor("w", TensorProto.FLOAT, (6, 4), draw.normal(size=24).astype(np.float32))
    nodes = [make_node("MatMul", ["x", "w"], ["s"]), make_node("LogSoftmax", ["s"], ["y"])]
    sides = {"inputs": [value("x", (1, 6))], "outputs": [value("y", (1, 4))]}
    path, samples = write(tmp_path, model(nodes, constants=[weights], **sides)), tmp_path / "x.npz"
    np.savez(samples, x=draw.normal(size=(5, 1, 6)).astype(np.float32))
    found, wanted = (
        run(RunOptions(model=path, inputs=samples, engine=engine, board="icebreaker", calibration=samples))
        for engine in (Evaluator.BOARD, Evaluator.GOLDEN)
    )
    assert found["y"].shape == (5, 1, 4) and np.array_equal(found["y"], wanted["y"])


def test_a_board_without_a_link() -> None:
    digits = EXAMPLES / "digits"
    said = call("run", digits / "digits.onnx", "--inputs", digits / "digits_test.npz", "--engine", "board")
    assert said.exit_code == 1 and "`ecp5` has none" in said.output and "--board icebreaker" in said.output


@pytest.fixture
def placed(tmp_path: Path) -> RecordedChip:
    """A board's chip, whose cells are in the folder of a build."""
    place = tmp_path / STAGE
    place.mkdir()
    chip = recorded(place, "ulx3s")
    write_record(place, "digest")
    return chip


def test_the_driver_talks_to_the_cells_of_a_netlist(placed: RecordedChip, tmp_path: Path) -> None:
    link, frames = placed.chip.link, random_frames(placed.design, 3, 1)
    assert link is not None
    bench = PinLevelBench(placed.design, link, frames, 1, resets=False)
    baud = bit_rate_of(placed.chip)
    with (
        simulated_netlist(placed.design, BuildFolder(tmp_path), Silent()) as port,
        Chip(port, baud=baud, digest=link.digest, timeout=30, transport=SerialTransport(baud)) as chip,
    ):
        results = list(chip.stream(bench.data[:3]))
    for (due,), result in zip(bench.due[:3], results, strict=True):
        (found,) = out_of_turns(link.outputs, link.output_turns, result.beats)
        assert np.array_equal(found, due[0])


def test_a_model_of_another_chip_is_named(placed: RecordedChip) -> None:
    """The rate counts for itself, too: a simulated port has none."""
    assert placed.chip.link is not None
    sound = HostModel("m", placed.chip.link, bit_rate_of(placed.chip), (), (), {})
    require_same_chip(sound, placed.chip)
    require_same_chip(
        replace(sound, link=replace(sound.link, digest=bytes(16))), placed.chip
    )  # the chip itself says so
    wrong = {
        "its `baud` is 6000000, and that of the chip 3000000": replace(sound, baud=2 * sound.baud),
        "its `clock_hz` is 1": replace(sound, link=replace(sound.link, clock_hz=1)),
        "its `outputs` is (LinkPort": replace(sound, link=replace(sound.link, outputs=sound.link.inputs)),
    }
    for said, other in wrong.items():
        with pytest.raises(UserError) as raised:
            require_same_chip(other, placed.chip)
        assert said in str(raised.value) and raised.value.exit_code is ExitCode.MISMATCH


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(bytes(1000))])
def test_a_netlist_that_is_missing_or_damaged(
    placed: RecordedChip, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    damage(placed.netlist)
    with (
        pytest.raises(UserError, match="must have come to its synthesis, and its files must be as they") as raised,
        simulated_netlist(placed.design, BuildFolder(tmp_path), Silent()),
    ):
        pass
    assert raised.value.exit_code is ExitCode.USAGE


def test_a_pin_that_the_netlist_does_not_drive_is_a_mismatch(placed: RecordedChip, tmp_path: Path) -> None:
    modules = json.loads(placed.netlist.read_text())
    ports = modules["modules"]["top"]["ports"]
    ports["uart_0__tx__io"]["bits"] = ["0"]
    placed.netlist.write_text(json.dumps(modules))
    write_record(placed.netlist.parent, "digest")
    with (
        pytest.raises(UserError, match="an output in the board's file, an input in the netlist") as raised,
        simulated_netlist(placed.design, BuildFolder(tmp_path), Silent()),
    ):
        pass
    assert raised.value.exit_code is ExitCode.MISMATCH


def test_a_simulator_is_for_the_simulated_port_alone() -> None:
    with pytest.raises(UserError, match="a simulator must be for the port `sim`, not for `auto`"):
        InferOptions(folder=Path(), inputs=None, engine=SimulationEngine.GATES)
    with pytest.raises(UserError, match="`engine` must be one of compiled, gates, not 'icarus'"):
        port_engine_of("icarus")


@pytest.mark.slow
@pytest.mark.parametrize("board", ["icebreaker", "icebreaker_spi"])
def test_a_build_through_its_cells(tmp_path: Path, board: str) -> None:
    build = onnx_hw.build(
        tiny_float_model(), board=board, calibration=IMAGES, out=tmp_path / "build", stop_after="synthesize"
    )
    outputs = onnx_hw.infer(build, IMAGES[:3], port="sim", engine="gates", check=True)
    wanted = onnx_hw.quantize(tiny_float_model(), IMAGES)(IMAGES[:3])
    assert np.array_equal(outputs["probabilities"], wanted["probabilities"])
