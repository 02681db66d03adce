"""``onnx-hw verify``: an existing build proven with other frames, and what keeps it from that."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import __version__
from onnx_hw.assemble.design_file import FILE
from onnx_hw.commands.build import build
from onnx_hw.commands.verify import VerifyResult, verify
from onnx_hw.ir import golden, value_file
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.prove.circuit.prove import compile_simulator
from onnx_hw.prove.circuit.sharded import WARM_UP_FRAMES, ShardBench, add_samples, prove_shards, shards_of
from onnx_hw.runtime.options import SimulationEngine, Stalls, VerifyOptions
from onnx_hw.runtime.progress import Silent
from onnx_hw.runtime.stage import Stage
from onnx_hw.runtime.workers.executors import Workers
from support.cli_runner import Instead, call
from support.hand_built_designs import unequal_branches
from support.qdq_models import Sketch


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution of one pixel, and nothing simulated."""
    place = tmp_path_factory.mktemp("small")
    sketch = Sketch()
    weights = np.random.default_rng(3).integers(-9, 10, (3, 2, 1, 1)).astype(np.int8)
    x = sketch.through_integers("x", 2**-3, 4)
    y = sketch.through_integers(sketch.node("Conv", x, sketch.dequantized(weights, np.float32(2**-4))), 2**-2, -5)
    sketch.write(place / "small.onnx", (1, 2, 2, 2), y)
    images = np.random.default_rng(4).normal(0, 4, (5, 2, 2, 2)).astype(np.float32)
    np.savez(place / "x.npz", x=images, labels=np.arange(5))
    build(place / "small.onnx", out=place / "out", stop_after=Stage.ASSEMBLE)
    return place


def again(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built / "out", tmp_path / "out"))


def test_more_frames_than_there_are_samples(built: Path) -> None:
    options = VerifyOptions(
        folder=built / "out",
        inputs=built / "x.npz",
        frames=9,
        engine=SimulationEngine.INTERPRETED,
        stalls=Stalls.RANDOM,
    )
    found = verify(options)
    assert (found.engine, found.frames, found.samples, found.labelled) == ("interpreted", 9, 5, 5)
    assert found.golden_right == found.circuit_right
    assert found.values >= 9 * (8 + 12) and found.firings > 0


def test_the_first_difference_is_said_with_its_sample(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = golden.walk

    def lies(network, integers):
        (output,) = (boundary.tensor for boundary in network.outputs)
        for name, values in honest(network, integers):
            if name == output and len(values) > 1:  # before, frames are compared with the model one by one
                values = values.copy()
                values[1, 0, 1, 2] ^= 1
            yield name, values

    monkeypatch.setattr("onnx_hw.prove.circuit.sharded.golden.walk", lies)
    with pytest.raises(UserError, match=r"\[1, 0, 1, 2\]: golden .*\(1 values and 0 firings differ") as caught:
        verify(
            VerifyOptions(
                folder=built / "out",
                inputs=built / "x.npz",
                frames=4,
                engine=SimulationEngine.INTERPRETED,
                stalls=Stalls.NONE,
            )
        )
    assert caught.value.exit_code is ExitCode.MISMATCH


@pytest.mark.parametrize("wrong", [[237], [237, 220, 121, 399]])
def test_of_many_frames_the_first_wrong_one_is_named_whoever_finds_it(
    wrong: list[int], built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers; shards that are done early do not hide an earlier frame."""
    design, honest = unequal_branches(4), golden.walk
    bench = ShardBench("b", design, Stalls.NONE, simulator=compile_simulator(design, built / "simulation"))
    monkeypatch.setattr("onnx_hw.prove.circuit.sharded.CYCLES_A_SHARD", 400)
    shards = [replace(shard, number=0) for shard in shards_of(design, 400)]  # without stalls
    numbers = np.zeros((400, 1, 1, 3, 4), dtype=np.int64)
    numbers[..., 0, :2] = np.stack([np.arange(400) % 100, np.arange(400) // 100], axis=1)[:, None, None]

    def lies(network: Network, integers: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
        ((output,), said) = [boundary.tensor for boundary in network.outputs], integers["x"][:, 0, 0]
        for name, values in honest(network, integers):
            if name == output:
                values = values.copy()
                values[np.isin(said[:, 0] + 100 * said[:, 1], wrong), 0, 1, 2] ^= 1
            yield name, values

    monkeypatch.setattr("onnx_hw.prove.circuit.sharded.golden.walk", lies)
    filled = [add_samples(shard, {"x": numbers}, 400, None) for shard in shards]
    with ThreadPoolExecutor(2) as pool:
        *right, last = prove_shards(bench, iter(filled), Workers(pool, 2, built))
    assert all(proven.run.agrees for proven in right)
    assert f"[{min(wrong)}, 0, 1, 2]: golden" in str(last.run.difference)
    assert sum(len(proven.shard.frames) for proven in right) >= 50


def test_other_samples_are_refused(built: Path, tmp_path: Path) -> None:
    for sha, told in (("0" * 64, "other contents"), (None, "does not exist any more")):
        out = again(built, tmp_path / told)
        report = json.loads((out / "report.json").read_text())
        report["asked"]["options"]["inputs"] = str(built / "x.npz" if sha else tmp_path / "gone.npz")
        report["asked"]["sha256"]["inputs"] = sha or ""
        (out / "report.json").write_text(json.dumps(report))
        with pytest.raises(UserError, match=told):
            verify(VerifyOptions(folder=out))


def test_neither_model_nor_calibration_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build of a float model, alone in its folder, takes samples without quantizing anything again."""
    sketch = Sketch()
    weights = np.random.default_rng(3).normal(0, 1, (4, 3)).astype(np.float32)
    model = sketch.write(tmp_path / "small.onnx", (1, 4), sketch.node("MatMul", "x", sketch.constant(weights)), rank=2)
    samples = np.random.default_rng(4).normal(0, 1, (9, 4))
    np.savez(tmp_path / "c.npz", x=samples.astype(np.float32))
    build(model, calibration=tmp_path / "c.npz", out=tmp_path / "out", stop_after=Stage.ASSEMBLE)
    model.unlink()
    (tmp_path / "c.npz").unlink()
    monkeypatch.setattr("onnx_hw.quantization.quantize.quantize_model", None)
    np.save(tmp_path / "new.npy", samples[:5])
    progress = Silent()
    options = VerifyOptions(folder=tmp_path / "out", inputs=tmp_path / "new.npy", engine="interpreted")
    assert verify(options, progress).samples == 5
    assert any("came as float64" in warning for warning in progress.warnings)
    assert [running.stage for running in progress.stages] == [Stage.SCHEDULE, Stage.SIMULATE]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda path: path.unlink(), "it is not there"),
        (lambda path: path.write_bytes(path.read_bytes()[:-200]), "it is damaged"),
        (lambda path: path.write_bytes(b""), "it is damaged"),
        (lambda path: np.savez(path, value=np.zeros(1, object)), "it is damaged"),
        (lambda path: np.savez(path, value=np.frombuffer(b"{}", np.uint8)), "it is damaged"),
        (lambda path: changed(path, b"matmul:MatMul", b"matmul:MetMul"), "it is damaged"),
        (lambda path: changed(path, b"assemble.design_file", b"runtime.stage.Stage."), "it is damaged"),
        (lambda path: changed(path, f'"{__version__}"'.encode(), b'"0.1.0"'), "it is of onnx-hw 0.1.0"),
        (lambda path: changed(path, b'"format":1', b'"format":0'), "it is of onnx-hw"),
    ],
)
def test_a_damaged_or_older_file_is_a_sentence(
    built: Path, tmp_path: Path, change: Callable[[Path], None], told: str
) -> None:
    out = again(built, tmp_path)
    change(out / FILE)
    with pytest.raises(UserError, match=told) as caught:
        verify(VerifyOptions(folder=out))
    assert "build it again" in str(caught.value)


def changed(path: Path, old: bytes, new: bytes) -> None:
    """Write the file with other text in it, and the digest of that."""
    with np.load(path) as stored:
        arrays = dict(stored)
    text = arrays["value"].tobytes().replace(old, new)
    assert text != arrays["value"].tobytes()
    others = [arrays[f"a{k}"] for k in range(len(arrays) - 2)]
    arrays["value"] = np.frombuffer(text, np.uint8)
    arrays["sha256"] = np.frombuffer(value_file._digest(text, others), np.uint8)
    np.savez(path, **arrays)


def test_a_file_of_another_build_is_refused(built: Path, tmp_path: Path) -> None:
    out = again(built, tmp_path)
    build(built / "small.onnx", out=tmp_path / "other", stop_after=Stage.SCHEDULE, multipliers=1)
    shutil.copy(tmp_path / "other" / FILE, out / FILE)
    with pytest.raises(UserError, match="another one than that of the report"):
        verify(VerifyOptions(folder=out))


def test_another_design_is_refused(built: Path, tmp_path: Path) -> None:
    out = again(built, tmp_path)
    report = json.loads((out / "report.json").read_text())
    report["digest"] = "0" * 64
    (out / "report.json").write_text(json.dumps(report))
    with pytest.raises(UserError, match="another one than that of the report"):
        verify(VerifyOptions(folder=out, engine=SimulationEngine.INTERPRETED))


OWN_BOARD = """
from amaranth_boards.ulx3s import ULX3S_45F_Platform
from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import openfpgaloader

BOARD = board(
    "my_board",
    ULX3S_45F_Platform,
    title="A board of one's own",
    link=Uart(1_000_000),
    loader=openfpgaloader("-b", "ulx3s"),
    default_clock_mhz=50.0,
)
"""


def test_a_build_for_a_board_in_a_file_is_verified(built: Path, tmp_path: Path) -> None:
    """The board's name alone does not find it again."""
    file = tmp_path / "my_board.py"
    file.write_text(OWN_BOARD, encoding="utf-8")
    build(built / "small.onnx", out=tmp_path / "out", board=str(file), stop_after=Stage.ASSEMBLE)
    options = VerifyOptions(folder=tmp_path / "out", frames=2, engine=SimulationEngine.INTERPRETED)
    assert verify(options).frames == 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda report: report.update(surplus=1), r"`\$.surplus` must be left out"),
        (lambda report: report.pop("model"), "missing required field `model`"),
        (lambda report: report["design"].update(lanes="many"), r"Expected `int`, got `str` - at `\$.design.lanes`"),
        (
            lambda report: report["asked"]["options"].update(stop_after="lunch"),
            r"'lunch' - at `\$.asked.options.stop_after`",
        ),
        (lambda report: report.update(design=None), "must have come to a design"),
    ],
)
def test_a_report_of_another_form_is_refused(built: Path, tmp_path: Path, change, told) -> None:
    out = again(built, tmp_path)
    report = json.loads((out / "report.json").read_text())
    change(report)
    (out / "report.json").write_text(json.dumps(report))
    with pytest.raises(UserError, match=told):
        verify(VerifyOptions(folder=out))


@pytest.mark.parametrize("frames", [1, 2, 3, 1000, 1001])
def test_shards_hold_every_frame_once_and_two_at_least(frames: int) -> None:
    shards = shards_of(unequal_branches(4), frames)
    assert [k for shard in shards for k in shard.frames] == list(range(frames))
    assert frames == 1 or min(len(shard.frames) for shard in shards) >= 2
    assert [shard.before for shard in shards] == [0] + [WARM_UP_FRAMES] * (len(shards) - 1)


def test_the_command(tmp_path: Path) -> None:
    found = VerifyResult("compiled", 2_000, 360, 12, 1_000_000, 40_000, 4.0, 360, 353, 353)
    workshop = Instead(verify=lambda options, progress: found)
    done = call(
        "verify",
        "d",
        "--inputs",
        "x.npz",
        "--frames",
        2000,
        "--engine",
        "compiled",
        "--jobs",
        2,
        "--scheduler",
        "tcp://h:1",
        by=workshop,
    )
    assert workshop.asked == [
        VerifyOptions(
            folder=Path("d"),
            inputs=Path("x.npz"),
            frames=2000,
            engine=SimulationEngine.COMPILED,
            stalls=Stalls.ALL,
            jobs=2,
            scheduler="tcp://h:1",
        )
    ]
    assert "2,000 (360 samples, repeated), 500 a second, compiled" in done.stdout
    assert "golden 98.06%, circuit 98.06% of 360 samples" in done.stdout
    assert call("verify", tmp_path).exit_code == ExitCode.USAGE
    assert "no-report" in call("verify", tmp_path).stderr
