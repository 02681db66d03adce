"""Sharded proof (link 3, for `verify`): thousands of frames, cut into shards that workers prove, here or elsewhere.

A shard begins with reset and with the frames before its own, so that what a frame leaves behind is seen by the next one
wherever the cut is. Random frames of a network that keeps state begin a new sequence in every shard; a user's samples
are one sequence, and so one shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.messages.errors import ExitCode, Problem, UserError, user_error
from onnx_hw.messages.translate_error import as_user_error
from onnx_hw.messages.version import __version__
from onnx_hw.prove.circuit.check_run import PlannedRun, simulate_together
from onnx_hw.prove.circuit.engines import build_simulator
from onnx_hw.prove.circuit.prove import LARGE_FRAME_CYCLES, beats_of_sequence
from onnx_hw.prove.circuit.run_comparison import Run
from onnx_hw.prove.circuit.stalls import SEED, Stall, freeze_output, full_rate, random_stall, starve_input
from onnx_hw.runtime.options import SimulationEngine, Stalls
from onnx_hw.runtime.workers.executors import Workers, worker_died
from onnx_hw.samples.outputs import share_right
from onnx_hw_tools.user_cache import user_cache

if TYPE_CHECKING:
    from onnx_hw.assemble.elaborate import CircuitNames
    from onnx_hw_sim.circuit import Simulator

WARM_UP_FRAMES = 2
"""Number of frames that a shard streams before its own."""

CYCLES_A_SHARD = 50_000
"""Approximate cycles of a shard, without its ``WARM_UP_FRAMES``. Shards are short so that progress is visible."""

LARGE_FRAMES = 2
"""Frames of a shard where each takes more than ``LARGE_FRAME_CYCLES``: golden's integers are kept."""

RANDOM_SEED = 21


@dataclass(frozen=True)
class ShardBench:
    """Common input of all shards.

    Attributes:
        digest: name of this bench.
        engine: simulator; None for the fastest one.
        folder: folder of the build; None where workers cannot see it: they use their user's cache.
        simulator: a simulator that workers here can use, and the names of its parts; elsewhere they make their own.
        together: number of shards that a worker gets at a time; the fastest simulator takes several at once.
        keeps_outputs: the results hold the outputs of the circuit.
        version: version of onnx-hw.
    """

    digest: str
    design: Design
    stalls: Stalls
    engine: SimulationEngine | None = None
    folder: Path | None = None
    simulator: tuple[Simulator, CircuitNames] | None = None
    together: int = 1
    keeps_outputs: bool = False
    version: str = __version__


@dataclass(frozen=True)
class Shard:
    """Shard of consecutive frames.

    Attributes:
        number: number of the shard, which selects its stalls.
        frames: their numbers.
        before: number of frames that are streamed before them.
        samples: samples by input of the model, (before + frames, ...); None for random integers.
        labels: classes of the first frames, without those of repeated samples; None without labels.
    """

    number: int
    frames: range
    before: int
    samples: Mapping[str, np.ndarray] | None = None
    labels: np.ndarray | None = None


@dataclass(frozen=True)
class ShardResult:
    """Result of a shard that was streamed and compared.

    Attributes:
        engine: name of the simulator.
        run: comparison, without its outputs unless the bench keeps them.
        labelled, golden_right, circuit_right: number of samples with labels, and of right answers to them.
    """

    shard: Shard
    engine: str
    run: Run
    labelled: int = 0
    golden_right: int = 0
    circuit_right: int = 0


@dataclass(frozen=True)
class UnknownBench:
    """Answer of a worker that does not have this bench yet."""


def shards_of(design: Design, frames: int, *, in_sequence: bool = False) -> list[Shard]:
    """Split a number of frames into shards; the last one has at least two frames, if there are two.

    Args:
        in_sequence: whether a network that keeps state is to get all frames one after the other.
    """
    least = LARGE_FRAMES if design.interval > LARGE_FRAME_CYCLES else 4 * WARM_UP_FRAMES
    size = max(least, CYCLES_A_SHARD // design.interval)
    size = frames if in_sequence and design.network.keepers else size
    parts = [range(first, min(first + size, frames)) for first in range(0, frames, size)]
    if len(parts) > 1 and len(parts[-1]) < 2:
        parts[-2:] = [range(parts[-2].start, frames)]
    return [Shard(number, part, min(WARM_UP_FRAMES, part.start)) for number, part in enumerate(parts)]


def add_samples(shard: Shard, frames: Mapping[str, np.ndarray], count: int, labels: np.ndarray | None) -> Shard:
    """Fill a shard with ``count`` samples of a user, repeated as needed; at least two frames."""
    first = shard.frames.start - shard.before
    numbers = np.arange(first, max(shard.frames.stop, first + 2)) % count
    seen = slice(shard.frames.start, min(shard.frames.stop, 0 if labels is None else len(labels)))
    classes = None if labels is None or seen.stop <= seen.start else labels[seen]
    return replace(shard, samples={name: array[numbers] for name, array in frames.items()}, labels=classes)


def choose_stall(design: Design, frames: int, stalls: Stalls, number: int) -> Stall:
    """Choose how the outside treats a shard: differently for each number."""
    others = [kind for kind in Stalls if kind is not Stalls.ALL]
    kind = others[number % len(others)] if stalls is Stalls.ALL else stalls
    if kind is Stalls.NONE:
        return full_rate(design, frames)
    if kind in (Stalls.STARVED, Stalls.FROZEN):
        return (starve_input if kind is Stalls.STARVED else freeze_output)(design, frames, number // len(others))
    return random_stall(design, frames, kind.value, SEED + 1000 * number)


def prove_shards(bench: ShardBench, shards: Iterator[Shard], workers: Workers) -> Iterator[ShardResult]:
    """Prove every shard, in the order in which they finish; of wrong ones, the one with the first frames comes last.

    Raises:
        UserError: no worker is left, or one cannot do it.
        ToolMissing, ToolFailed: a program is missing or failed.
    """
    here = bench if workers.store is not None else replace(bench, folder=None, simulator=None)
    running: dict[Future[list[ShardResult] | UnknownBench | UserError], tuple[Shard, ...]] = {}
    wrong: list[ShardResult] = []
    while True:
        while len(running) < 2 * workers.width and not wrong:
            if not (several := tuple(islice(shards, bench.together))):
                break
            running[workers.submit(prove, bench.digest, several)] = several
        if not running:
            break
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            several = running.pop(future)
            try:
                answer = future.result()
            except BrokenExecutor as error:
                raise worker_died() from error
            if isinstance(answer, UnknownBench):
                running[workers.submit(prove, bench.digest, several, here)] = several
            elif isinstance(answer, UserError):
                raise answer
            else:
                yield from (proven for proven in answer if proven.run.agrees)
                wrong += [proven for proven in answer if not proven.run.agrees]
    if wrong:
        yield min(wrong, key=lambda proven: proven.shard.frames.start)


def difference_error(proven: ShardResult) -> UserError:
    """Return the error of a shard in which the circuit differs from golden or from the timing."""
    run, shard = proven.run, proven.shard
    what = str(run.difference) if run.difference is not None else "; ".join(run.deadlock)
    counts = f"{run.mismatches} values and {run.firing_mismatches} firings differ, stalls: {run.stall}"
    problem = Problem(
        "circuit-differs",
        f"{what} ({counts})",
        f"frames {shard.frames.start - shard.before} .. {shard.frames[-1]}, which begin with a reset",
        "this is a bug of onnx-hw, or of a tool: please report it with the model",
        "simulate",
    )
    return UserError(problem, exit_code=ExitCode.MISMATCH)


def begin_to_load() -> None:
    """Answer nothing; a worker that executes this has started, and has loaded what a proof needs."""


_BENCHES: dict[str, tuple[ShardBench, Simulator, CircuitNames]] = {}
_MAX_BENCHES = 4  # in a worker's memory


def prove(
    digest: str, shards: Sequence[Shard], bench: ShardBench | None = None
) -> list[ShardResult] | UnknownBench | UserError:
    """Prove shards in a worker, which keeps its last benches."""
    known = _BENCHES.get(digest)
    if known is None:
        if bench is None:
            return UnknownBench()
        try:
            simulator, names = bench.simulator or _make(bench)
        except Exception as error:
            error_message = as_user_error(error)
            if error_message is None:
                raise
            return error_message
        known = _BENCHES[digest] = bench, simulator, names
        for old in list(_BENCHES)[:-_MAX_BENCHES]:
            _BENCHES.pop(old, None)
    return _proven(*known, shards)


def _make(bench: ShardBench) -> tuple[Simulator, CircuitNames]:
    if bench.version != __version__:
        message = f"all machines must have the same onnx-hw: {bench.version} was asked for, here it is {__version__}"
        raise user_error("other-version", message, hint="install the same version everywhere", stage="tools")
    return build_simulator(bench.design, bench.folder or user_cache(), bench.engine)


def _proven(bench: ShardBench, simulator: Simulator, names: CircuitNames, shards: Sequence[Shard]) -> list[ShardResult]:
    plans = [_planned(bench, shard) for shard in shards]
    runs = simulate_together(bench.design, simulator, names, plans)
    return [_counted(bench, simulator.name, *each) for each in zip(shards, plans, runs, strict=True)]


def _planned(bench: ShardBench, shard: Shard) -> PlannedRun:
    design, samples = bench.design, shard.samples
    integers = _random(design, shard) if samples is None else golden.integers_of(design.network, samples)
    frames = len(next(iter(integers.values())))
    stall = choose_stall(design, frames, bench.stalls, shard.number)
    return PlannedRun(beats_of_sequence(design, integers), frames, stall, shard.frames.start - shard.before)


def _counted(bench: ShardBench, engine: str, shard: Shard, plan: PlannedRun, run: Run) -> ShardResult:
    """Count the right answers to samples that have labels."""
    design, samples = bench.design, shard.samples
    done = ShardResult(shard, engine, run if bench.keeps_outputs else replace(run, outputs={}))
    if samples is None or shard.labels is None:
        return done
    orders = {edge.tensor: edge.order for edge in design.edges()}
    labels, own = shard.labels, slice(shard.before, shard.before + len(shard.labels))

    def right(outputs: Callable[[str], np.ndarray]) -> int:
        answers = {boundary.tensor: outputs(boundary.tensor)[own] for boundary in design.network.outputs}
        given = {name: array[own] for name, array in samples.items()}
        return round(share_right(golden.outputs_of(design.network, answers, given), labels) * len(labels))

    return replace(
        done,
        labelled=len(labels),
        golden_right=right(lambda tensor: orders[tensor].from_beats(plan.beats[tensor])),
        circuit_right=right(run.outputs.__getitem__) if run.agrees else 0,
    )


def _random(design: Design, shard: Shard) -> dict[str, np.ndarray]:
    """Draw integers over the whole range of every input; equal for equal numbers of frames."""
    network, first = design.network, shard.frames.start - shard.before
    tensors = {boundary.tensor: network.tensors[boundary.tensor] for boundary in network.inputs}
    frames: dict[str, list[np.ndarray]] = {name: [] for name in tensors}
    for number in range(first, max(shard.frames.stop, first + 2)):
        generator = np.random.Generator(np.random.PCG64((RANDOM_SEED, number)))
        for name, tensor in tensors.items():
            frames[name].append(generator.integers(*tensor.range, tensor.shape, endpoint=True))
    return {name: np.stack(arrays) for name, arrays in frames.items()}
