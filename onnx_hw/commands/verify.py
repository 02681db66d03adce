"""Proof of a build once more, with a user's own data, and with more frames."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from onnx_hw import flow
from onnx_hw.commands.build_stages import BuildState
from onnx_hw.ir.design import Design
from onnx_hw.messages.errors import Problem, UserError, user_error
from onnx_hw.prove.circuit.engines import build_simulator
from onnx_hw.prove.circuit.sharded import (
    Shard,
    ShardBench,
    ShardResult,
    add_samples,
    begin_to_load,
    difference_error,
    prove_shards,
    shards_of,
)
from onnx_hw.report.build_request import files_of, sha256
from onnx_hw.report.model import Report
from onnx_hw.report.read import options_of, read_report
from onnx_hw.runtime.build_folder import BuildFolder, opened
from onnx_hw.runtime.countdown import Countdown
from onnx_hw.runtime.options import BuildOptions, SimulationEngine, VerifyOptions
from onnx_hw.runtime.progress import Progress, Running, Silent
from onnx_hw.runtime.stage import Stage
from onnx_hw.runtime.workers.executors import InlineExecutor, Workers, worker_died
from onnx_hw.runtime.workers.open_executor import open_executor
from onnx_hw.samples.frames import InputData, input_data
from onnx_hw.samples.samples import frame_count
from onnx_hw.schedule.folding_file import read_foldings
from onnx_hw.schedule.insert_forks import insert_forks

RANDOM_FRAMES = 1000
"""Number of random frames where no number is given."""

MAX_SHARDS_INLINE = 2
"""Number of shards that are not worth another process."""


@dataclass(frozen=True)
class VerifyResult:
    """Comparison that found no difference.

    Attributes:
        engine: simulator.
        frames: frames that were streamed; ``samples`` are different ones of a user, 0 where they were random.
        runs: shards, each from reset and with stalls of its own.
        values, firings: numbers of values compared with golden, of firings compared with the timing.
        seconds: time of the simulation and its comparison.
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
        return f"VerifyResult {self.engine}: {said}"


def verify(options: VerifyOptions, progress: Progress | None = None) -> VerifyResult:
    """Prove the design of a build once more.

    Raises:
        UserError: there is no such build, or what it was made of has changed; with exit code 4, the circuit differs.
        ToolMissing, ToolFailed: a program is not there, or failed.
    """
    report = read_report(options.folder)
    asked = options_of(report, options.folder)
    check_files(report, asked)
    if options.scheduler is not None and asked.board.endswith(".py"):
        message = "workers elsewhere must know the board: a board of your own is a file of this machine"
        raise user_error("argument", message, where="--scheduler", hint="leave out --scheduler", stage="arguments")
    progress = progress or Silent()
    with opened(options.folder) as folder:
        work = BuildState(asked, progress)
        with tempfile.TemporaryDirectory() as place, opened(Path(place)) as work.folder:
            for stage in (Stage.READ, Stage.QUANTIZE):
                work.take(stage)
        given = work.given
        if options.inputs is not None:
            given = input_data(options.inputs, None, flow.read(asked.model, asked.reading))
            work.warn(given.notes)
        with progress.stage(Stage.SCHEDULE) as running:
            design = design_of(report, work, folder)
            running.fact = f"{len(design.network.nodes)} cores, the design of {options.folder}"
        with progress.stage(Stage.SIMULATE) as running:
            return _proven(design, report.digest, given, options, work, folder, running)


def check_files(report: Report, options: BuildOptions) -> None:
    """Raise UserError unless the files that the build was made of are what they were."""
    known, problems = report.asked.sha256 if report.asked else {}, []
    for name in files_of(options):
        path: Path = getattr(options, name)
        now = sha256(path)
        if now is None or known.get(name) != now:
            change = "it does not exist any more" if now is None else "it has other contents now"
            message = f"`{name}` must be the file that the build was made of; {change}"
            problems.append(Problem("file-changed", message, str(path), "put it back, or build again"))
    if problems:
        raise UserError(*problems)


def design_of(report: Report, work: BuildState, folder: BuildFolder) -> Design:
    """Make the design of the build again. ``_proven`` checks that its circuit is the same, too.

    Raises:
        UserError: it is another design.
    """
    assert report.design is not None
    foldings, _ = read_foldings(folder.path / "folding.toml", insert_forks(work.network))
    depths = {fifo.edge: fifo.depth for fifo in report.design.fifos}
    board, clock_mhz = work.options.board, report.design.clock_mhz
    design = flow.schedule(work.network, board, clock_mhz=clock_mhz, foldings=foldings, depths=depths)
    same = {node.name: design.folding(node).numbers() for node in design.network.nodes} == {
        core.name: dict(core.folding) for core in report.design.nodes
    }
    if not same:
        raise _another(folder)
    return design


def _another(folder: BuildFolder) -> UserError:
    return user_error(
        "design-changed",
        "the folder must hold the build's own design; made again, it is another one",
        where=str(folder.path / "folding.toml"),
        hint="another version of onnx-hw, or a changed folding.toml: build it again",
    )


def _digest(design: Design) -> str:
    return flow.assemble(design).digest


def _proven(
    design: Design,
    digest: str | None,
    given: InputData,
    options: VerifyOptions,
    work: BuildState,
    folder: BuildFolder,
    running: Running,
) -> VerifyResult:
    from onnx_hw_sim.lockstep.library import RUNS

    frames, labels = given.frames, given.labels
    count = 0 if frames is None else frame_count(frames)
    wanted = options.frames or count or RANDOM_FRAMES
    shards = shards_of(design, wanted)
    bench = ShardBench(uuid4().hex, design, options.stalls, options.engine, folder.path)
    alone = options.scheduler is None and (options.jobs == 1 or len(shards) <= MAX_SHARDS_INLINE)

    def filled() -> Iterator[Shard]:
        for shard in shards:
            yield shard if frames is None else add_samples(shard, frames, count, labels)

    here: AbstractContextManager[Workers] = nullcontext(Workers(InlineExecutor(), 1, folder.path))
    done = VerifyResult("", 0, min(count, wanted), 0, 0, 0, 0.0)
    with here if alone else open_executor(options.scheduler, options.jobs, folder.path) as workers:
        running.fact = "compiling"
        if options.engine in (None, SimulationEngine.COMPILED):
            bench = replace(bench, together=max(1, min(RUNS, len(shards) // workers.width)))
        made_again = workers.submit(_digest, design) if digest else None
        for _ in range(workers.width):
            workers.submit(begin_to_load)
        if options.scheduler is None:  # in the meantime
            simulator, names = build_simulator(design, folder.path, options.engine, work.account)
            if alone or simulator.name == SimulationEngine.COMPILED:  # the others do not travel
                bench = replace(bench, engine=SimulationEngine(simulator.name), simulator=(simulator, names))

        def check_digest() -> None:
            try:
                if made_again is not None and made_again.result() != digest:
                    raise _another(folder)
            except BrokenExecutor as error:
                raise worker_died() from error

        countdown, running.fact = Countdown(wanted), f"{wanted:,} frames"
        for proven in prove_shards(bench, filled(), workers):
            if not proven.run.agrees:
                check_digest()  # of another circuit nothing is to be said but that
                raise difference_error(proven)
            if made_again is not None and made_again.done():
                check_digest()
            done = _with(done, proven, countdown.elapsed)
            running.fact = countdown.after(done.frames)
        check_digest()
    running.fact = f"{done.frames:,} frames bit-exact with golden, every firing as predicted"
    return done


def _with(done: VerifyResult, proven: ShardResult, seconds: float) -> VerifyResult:
    return VerifyResult(
        proven.engine,
        done.frames + len(proven.shard.frames),
        done.samples,
        done.runs + 1,
        done.values + proven.run.values_compared,
        done.firings + proven.run.firings_compared,
        seconds,
        done.labelled + proven.labelled,
        done.golden_right + proven.golden_right,
        done.circuit_right + proven.circuit_right,
    )
