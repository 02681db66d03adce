"""The proof of a build once more: with a user's own data, and as many frames as they have time for."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from onnx_hw import flow, golden, samples
from onnx_hw.build_folder import BuildFolder, opened
from onnx_hw.design import Design
from onnx_hw.errors import ExitCode, Problem, UserError, user_error
from onnx_hw.folding_file import read_foldings
from onnx_hw.frames import Given, read_given
from onnx_hw.options import BuildOptions, Stage, VerifyOptions
from onnx_hw.outputs import share_right
from onnx_hw.passes.insert_forks import insert_forks
from onnx_hw.progress import Progress, Running, Silent
from onnx_hw.proof.circuit.engines import simulator_of
from onnx_hw.proof.circuit.many_frames import Part, prove_parts
from onnx_hw.report.asked import files_of, sha256
from onnx_hw.report.read import options_of, read_report
from onnx_hw.report.report import Report
from onnx_hw.spelling import printable
from onnx_hw.work import Work

RANDOM_FRAMES = 1000
"""Where nobody says how many."""

SEED = 21
"""Of random frames."""


@dataclass(frozen=True)
class Verified:
    """What was compared, and found to agree.

    Attributes:
        engine: who simulated.
        frames: streamed; ``samples`` different ones of a user, 0 where they were random.
        runs: parts, each from reset and with stalls of its own.
        values, firings: compared with golden, with the timing.
        seconds: of the simulation and its comparison.
        labelled, golden_right, circuit_right: samples with labels, and right answers to them.
    """

    engine: str
    frames: int
    samples: int
    runs: int
    values: int
    firings: int
    seconds: float
    labelled: int = 0
    golden_right: int = 0
    circuit_right: int = 0

    def __repr__(self) -> str:
        said = f"{self.frames:,} frames, {self.values:,} values, {self.firings:,} firings, 0 wrong"
        return f"Verified {self.engine}: {said}"


def verify(options: VerifyOptions, progress: Progress | None = None) -> Verified:
    """Prove the design of a build once more.

    Raises:
        UserError: there is no such build, or what it was made of has changed; with exit code 4, the circuit differs.
        ToolMissing, ToolFailed: a program is not there, or failed.
    """
    report = read_report(options.folder)
    asked = options_of(report, options.folder)
    check_files(report, asked)
    progress = progress or Silent()
    with opened(options.folder) as folder:
        work = Work(asked, progress)
        with tempfile.TemporaryDirectory() as place, opened(Path(place)) as work.folder:
            for stage in (Stage.READ, Stage.QUANTIZE):
                work.take(stage)
        given = work.given
        if options.inputs is not None:
            given = read_given(options.inputs, None, flow.read(asked.model, asked.reading))
        with progress.stage(Stage.SCHEDULE) as running:
            design = design_of(report, work, folder)
            running.fact = f"{len(design.network.nodes)} cores, the design of {options.folder}"
        with progress.stage(Stage.SIMULATE) as running:
            return _simulated(design, given, options, work, folder, running)


def check_files(report: Report, options: BuildOptions) -> None:
    """Raise UserError unless the files that the build was made of are what they were."""
    known, problems = report.asked.sha256 if report.asked else {}, []
    for name in files_of(options):
        path: Path = getattr(options, name)
        now = sha256(path)
        if now is None or known.get(name) != now:
            told = "it is not there any more" if now is None else "it has other contents now"
            message = f"`{name}` must be the file that the build was made of; {told}"
            problems.append(Problem("file-changed", message, str(path), "put it back, or build again"))
    if problems:
        raise UserError(*problems)


def design_of(report: Report, work: Work, folder: BuildFolder) -> Design:
    """The design of the build, made again.

    Raises:
        UserError: it is another one.
    """
    assert report.design is not None
    foldings, _ = read_foldings(folder.path / "folding.toml", insert_forks(work.network))
    depths = {fifo.edge: fifo.depth for fifo in report.design.fifos}
    board, clock_mhz = report.board.name, report.design.clock_mhz
    design = flow.schedule(work.network, board, clock_mhz=clock_mhz, foldings=foldings, depths=depths)
    same = {node.name: design.folding(node).numbers() for node in design.network.nodes} == {
        core.name: dict(core.folding) for core in report.design.nodes
    }
    if same and report.digest:
        same = flow.assemble(design, board).digest == report.digest
    if not same:
        raise user_error(
            "design-changed",
            "the folder must hold the build's own design; made again, it is another one",
            where=str(folder.path / "folding.toml"),
            hint="another version of onnx-hw, or a changed folding.toml: build it again",
        )
    return design


def _simulated(
    design: Design, given: Given, options: VerifyOptions, work: Work, folder: BuildFolder, running: Running
) -> Verified:
    account = work.account
    running.fact = "compiling"
    simulator, names = simulator_of(design, work.board, folder.path, options.engine, account)
    frames, labels = given.frames, given.labels
    count = 0 if frames is None else samples.frame_count(frames)
    wanted = options.frames or count or RANDOM_FRAMES
    integers = _random(design) if frames is None else _given(design, frames)
    started, done = time.monotonic(), Verified(simulator.name, 0, min(count, wanted), 0, 0, 0, 0.0)
    for part in prove_parts(design, simulator, names, integers, wanted, options.stalls):
        if not part.run.agrees:
            raise _differs(part)
        seconds = time.monotonic() - started
        done = replace(
            done,
            frames=done.frames + len(part.frames),
            runs=done.runs + 1,
            values=done.values + part.run.values_compared,
            firings=done.firings + part.run.firings_compared,
            seconds=seconds,
        )
        if labels is not None and frames is not None:
            done = _with_answers(done, design, part, frames, labels)
        left = seconds * (wanted - done.frames) / done.frames
        running.fact = f"{_bar(done.frames / wanted)} {done.frames:,} of {wanted:,} frames, {left:.0f} s left"
    running.fact = f"{done.frames:,} frames bit-exact with golden, every firing as predicted"
    return done


def _with_answers(
    done: Verified, design: Design, part: Part, frames: Mapping[str, np.ndarray], labels: np.ndarray
) -> Verified:
    """With the right answers to the labelled samples of a part, those given again left out."""
    seen = range(part.frames.start, min(part.frames.stop, len(labels)))
    if not seen:
        return done
    own = {name: array[seen.start : seen.stop] for name, array in frames.items()}

    def right(integers: Mapping[str, np.ndarray]) -> int:
        first = {tensor: array[: len(seen)] for tensor, array in integers.items()}
        share = share_right(golden.outputs_of(design.network, first, own), labels[seen.start : seen.stop])
        return round(share * len(seen))

    wanted = right(part.golden)
    same = all(np.array_equal(part.run.outputs[tensor], array) for tensor, array in part.golden.items())
    return replace(
        done,
        labelled=done.labelled + len(seen),
        golden_right=done.golden_right + wanted,
        circuit_right=done.circuit_right + (wanted if same else right(part.run.outputs)),
    )


def _given(design: Design, frames: Mapping[str, np.ndarray]) -> Callable[[range], Mapping[str, np.ndarray]]:
    """The integers of given frames, which begin again after the last one; at least two at a time."""
    count = samples.frame_count(frames)

    def integers(part: range) -> Mapping[str, np.ndarray]:
        numbers = np.arange(part.start, max(part.stop, part.start + 2)) % count
        return golden.integers_of(design.network, {name: array[numbers] for name, array in frames.items()})

    return integers


def _random(design: Design) -> Callable[[range], Mapping[str, np.ndarray]]:
    """Integers over the whole range of every input; the same for the same numbers of frames."""
    network = design.network

    def integers(part: range) -> Mapping[str, np.ndarray]:
        generator = np.random.Generator(np.random.PCG64((SEED, part.start)))
        tensors = {boundary.tensor: network.tensors[boundary.tensor] for boundary in network.inputs}
        size = max(2, len(part))
        return {
            name: generator.integers(*tensor.range, (size, *tensor.shape), endpoint=True)
            for name, tensor in tensors.items()
        }

    return integers


def _differs(part: Part) -> UserError:
    run, first = part.run, part.frames.start
    what = str(run.difference) if run.difference is not None else "; ".join(run.deadlock)
    counts = f"{run.mismatches} values and {run.firing_mismatches} firings differ, stalls: {run.stall}"
    problem = Problem(
        "circuit-differs",
        f"{what} ({counts})",
        f"frames {first} .. {part.frames[-1]}: frame 0 here is number {first} of the samples",
        "this is a bug of onnx-hw, or of a tool: please report it with the model",
        "simulate",
    )
    return UserError(problem, exit_code=ExitCode.MISMATCH)


def _bar(share: float) -> str:
    filled = int(20 * share)
    return printable(f"[{'=' * filled}{' ' * (20 - filled)}]")
