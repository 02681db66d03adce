"""Proof of a build once more, with a user's own data, and with more frames.

What reads the design and simulates it is imported there, so that the command answers at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np

from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.report.build_request import sha256
from onnx_hw.report.model import Report
from onnx_hw.report.read import options_of, read_report
from onnx_hw.report.recorder import Recorder
from onnx_hw.runtime.build_folder import BuildFolder, opened
from onnx_hw.runtime.countdown import Countdown
from onnx_hw.runtime.options import BuildOptions, SimulationEngine, VerifyOptions
from onnx_hw.runtime.progress import Progress, Silent
from onnx_hw.runtime.stage import Stage
from onnx_hw.runtime.workers.executors import InlineExecutor, Workers, worker_died
from onnx_hw.runtime.workers.open_executor import open_executor
from onnx_hw.samples.samples import frame_count

if TYPE_CHECKING:
    from onnx_hw.assemble.design_file import KeptDesign
    from onnx_hw.ir.design import Design
    from onnx_hw.prove.circuit.sharded import Shard, ShardResult

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
    if options.scheduler is not None and asked.board.endswith(".py"):
        message = "workers elsewhere must know the board: a board of your own is a file of this machine"
        raise user_error("argument", message, where="--scheduler", hint="leave out --scheduler", stage="arguments")
    progress = progress or Silent()
    with opened(options.folder) as folder:
        recorder = Recorder(progress, report)
        with recorder.stage(Stage.SCHEDULE):
            from onnx_hw.assemble.design_file import read_design

            kept = read_design(options.folder)
            require_design_of(report, kept.design, folder)
            recorder.status(f"{len(kept.design.network.nodes)} cores, the design of {options.folder}")
        frames, labels = _frames(options, report, asked, kept, progress)
        with recorder.stage(Stage.SIMULATE):
            return _proven(kept.design, report.digest, frames, labels, options, recorder, folder)


def _frames(
    options: VerifyOptions, report: Report, asked: BuildOptions, kept: KeptDesign, progress: Progress
) -> tuple[Mapping[str, np.ndarray] | None, np.ndarray | None]:
    """Return the frames to prove with and their labels: those in ``options.inputs``, or else those of the build.

    Raises:
        UserError: they do not fit, or the build's own have changed.
    """
    inputs, resize = options.inputs, options.resize
    if inputs is None and asked.inputs is not None:
        now, known = sha256(asked.inputs), report.asked.sha256 if report.asked else {}
        if now is None or known.get("inputs") != now:
            change = "it does not exist any more" if now is None else "it has other contents now"
            message = f"`inputs` must be the file that the build was made of; {change}"
            hint = "put it back, or give others with --inputs"
            raise user_error("file-changed", message, where=str(asked.inputs), hint=hint)
        inputs, resize = asked.inputs, resize or asked.resize
    if inputs is None:
        return None, None
    from onnx_hw.samples.frames import SampleTypes

    types = SampleTypes(kept.inputs, kept.batch, kept.classes)
    samples = types.samples(inputs, "inputs", resize)
    for message, hint in samples.notes:
        progress.warn(message, hint)
    return types.frames(samples), samples.labels


def require_design_of(report: Report, design: Design, folder: BuildFolder) -> None:
    """Raise UserError unless a design is that of a report. ``_proven`` checks that its circuit is the same, too."""
    assert report.design is not None
    foldings = {node.name: design.folding(node).numbers() for node in design.network.nodes}
    depths = {edge: size.depth for edge, size in design.fifos.items()}
    if foldings != {core.name: dict(core.folding) for core in report.design.nodes} or depths != {
        fifo.edge: fifo.depth for fifo in report.design.fifos
    }:
        raise _another(folder)


def _another(folder: BuildFolder) -> UserError:
    from onnx_hw.assemble.design_file import FILE

    return user_error(
        "design-changed",
        "the folder must hold the build's own design; it is another one than that of the report",
        where=str(folder.path / FILE),
        hint="another version of onnx-hw, or files of two builds: build it again",
    )


def _digest(design: Design) -> str:
    from onnx_hw.assemble.netlist import netlist_of

    return netlist_of(design).circuit_digest


def _proven(
    design: Design,
    digest: str | None,
    frames: Mapping[str, np.ndarray] | None,
    labels: np.ndarray | None,
    options: VerifyOptions,
    recorder: Recorder,
    folder: BuildFolder,
) -> VerifyResult:
    from onnx_hw.prove.circuit import sharded
    from onnx_hw.prove.circuit.engines import build_simulator
    from onnx_hw.prove.circuit.prove import LARGE_FRAME_CYCLES
    from onnx_hw_sim.lockstep.library import RUNS

    running = recorder.running
    count = 0 if frames is None else frame_count(frames)
    wanted = options.frames or count or RANDOM_FRAMES
    shards = sharded.shards_of(design, wanted, in_sequence=frames is not None)
    bench = sharded.ShardBench(uuid4().hex, design, options.stalls, options.engine, folder.path)
    alone = options.scheduler is None and (options.jobs == 1 or len(shards) <= MAX_SHARDS_INLINE)

    def filled() -> Iterator[Shard]:
        for shard in shards:
            yield shard if frames is None else sharded.add_samples(shard, frames, count, labels)

    here: AbstractContextManager[Workers] = nullcontext(Workers(InlineExecutor(), 1, folder.path))
    done = VerifyResult("", 0, min(count, wanted), 0, 0, 0, 0.0)
    with here if alone else open_executor(options.scheduler, options.jobs, folder.path) as workers:
        running.fact = "compiling"
        if options.engine in (None, SimulationEngine.COMPILED):
            most = 1 if design.interval > LARGE_FRAME_CYCLES else RUNS
            bench = replace(bench, together=max(1, min(most, len(shards) // workers.width)))
        made_again = workers.submit(_digest, design) if digest else None
        for _ in range(workers.width):
            workers.submit(sharded.begin_to_load)
        if options.scheduler is None:  # in the meantime
            simulator, names = build_simulator(design, folder.path, options.engine, recorder)
            if alone or simulator.name == SimulationEngine.COMPILED:  # the others do not travel
                bench = replace(bench, engine=SimulationEngine(simulator.name), simulator=(simulator, names))

        def check_digest() -> None:
            try:
                if made_again is not None and made_again.result() != digest:
                    raise _another(folder)
            except BrokenExecutor as error:
                raise worker_died() from error

        countdown, running.fact = Countdown(wanted), f"{wanted:,} frames"
        for proven in sharded.prove_shards(bench, filled(), workers):
            if not proven.run.agrees:
                check_digest()  # of another circuit nothing is to be said but that
                raise sharded.difference_error(proven)
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
