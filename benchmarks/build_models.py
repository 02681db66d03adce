"""What every stage of a build costs, model by model, and how fast the circuit is that comes out.

    python benchmarks/build_models.py [--until STAGE] [--board NAME] [--multipliers N] [--json FILE] [MODEL.onnx ...]

Without a MODEL: the four networks of MLPerf Tiny with drawn weights (``support.mlperf_tiny``). Samples are taken from
``inputs.npz`` beside a model, if there is one; otherwise they are random. ``--until route`` runs the slow tools, too.

Each model has a process of its own, whose memory is looked at from outside, with that of all the programs it starts.
A cell is ``seconds / MiB``: the most memory during that stage. The simulator's speed is that of its inner loop alone.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from onnx_hw import flow
from onnx_hw.commands.build import build
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.model import Model
from onnx_hw.runtime.options import DEFAULT_BOARD, BuildOptions
from onnx_hw.runtime.progress import Running, Silent
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.runtime.stage import Stage
from onnx_hw_sim.circuit import Recording
from onnx_hw_sim.lockstep.simulator import LockstepSimulator

FRAMES = 4  # simulated, and computed by golden and the reference
LOOK = 0.02  # seconds between two looks at the memory
Facts = dict[str, Any]

COLUMNS: tuple[tuple[str, int, Callable[[Facts], str]], ...] = (
    ("golden ms", 9, lambda facts: f"{facts['golden_ms']:.1f}"),
    ("ref. ms", 8, lambda facts: f"{facts['reference_ms']:.1f}"),
    ("cycles/s", 10, lambda facts: f"{facts['cycles_per_second']:,.0f}"),
    ("lanes", 5, lambda facts: f"{facts['design']['lanes']}"),
    ("busy", 5, lambda facts: f"{facts['design']['mac_efficiency']:.0%}"),
    ("interval", 9, lambda facts: f"{facts['design']['interval_cycles']:,}"),
    ("latency", 9, lambda facts: f"{facts['design']['latency_cycles']:,}"),
)
ROUTED = (
    ("LUT4", 6, lambda facts: f"{facts['synthesis']['lut4']}"),
    ("Fmax", 6, lambda facts: f"{facts['synthesis']['fmax_mhz']:.1f}"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--until", type=Stage, choices=list(Stage), default=Stage.SIMULATE, metavar="STAGE")
    parser.add_argument("--board", default=DEFAULT_BOARD, help="as of onnx-hw build")
    parser.add_argument("--multipliers", type=int, help="as of onnx-hw build")
    parser.add_argument("--json", type=Path, help="file for everything that was measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        models = options.models or drawn_models(folder)
        stages = Stage.until(options.until)
        columns = COLUMNS + (ROUTED if Stage.ROUTE in stages else ())
        names = [f"{name(path):36.36}" for path in models]
        print(
            " " * 36, *(f"{stage.value:>14}" for stage in stages), *(f"{title:>{width}}" for title, width, _ in columns)
        )
        rows = {}
        for label, path in zip(names, models, strict=True):
            facts = rows[str(path)] = watch(path, folder, options.until, options.board, options.multipliers)
            cells = [f"{cell(facts, stage):>14}" for stage in stages]
            cells += [f"{filled(show, facts):>{width}}" for _, width, show in columns]
            print(label, *cells, facts.get("error", ""), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))


def name(path: Path) -> str:
    """The file's, or its folder's where all files are called alike."""
    return path.parent.name if path.stem == "model" else path.stem


def cell(facts: Facts, stage: Stage) -> str:
    if stage not in facts["seconds"]:
        return "-"
    return f"{facts['seconds'][stage]:.1f} / {facts['memory'][stage]:.0f}"


def filled(show: Callable[[Facts], str], facts: Facts) -> str:
    """A stage that was not run, or failed, leaves cells empty."""
    try:
        return show(facts)
    except (KeyError, TypeError):
        return "-"


def drawn_models(folder: Path) -> list[Path]:
    """The networks of ``tests/support/mlperf_tiny.py``, with samples."""
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

    from support import mlperf_tiny

    paths = []
    for net in mlperf_tiny.MLPERF_TINY:
        (folder / net).mkdir()
        paths.append(mlperf_tiny.write(net, folder / net))
        np.savez(folder / net / "inputs.npz", **mlperf_tiny.NETS[net].frames(FRAMES))
    return paths


# ---- the process that looks -----------------------------------------------------------------------------------------


def watch(path: Path, folder: Path, until: Stage, board: str, multipliers: int | None) -> Facts:
    """What one model's process found out, with the most memory it took in every stage, MiB."""
    here, there = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("spawn")
    out = folder / f"build-{name(path)}"
    process = context.Process(target=measure, args=(there, path, out, until, board, multipliers))
    process.start()
    there.close()
    assert process.pid is not None
    memory: dict[str, float] = {}
    facts: Facts = {"seconds": {}, "error": "the process died"}
    stage = ""
    while process.is_alive() or here.poll():
        memory[stage] = max(memory.get(stage, 0), sum(resident(pid) for pid in family(process.pid)) / 2**20)
        try:
            if here.poll(LOOK):
                message = here.recv()
                if isinstance(message, str):
                    stage = message
                else:
                    facts = message
        except EOFError:
            break
    process.join()
    return {**facts, "memory": memory}


def family(pid: int) -> Iterator[int]:
    """A process and all that descend from it."""
    yield pid
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = thread.read_text().split()
        except OSError:  # it has ended
            continue
        for child in children:
            yield from family(int(child))


def resident(pid: int) -> int:
    """Bytes of memory a process holds, 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * 4096


# ---- the process that builds ----------------------------------------------------------------------------------------


class Telling(Silent):
    """Progress that tells the other process which stage has begun."""

    def __init__(self, pipe: Connection) -> None:
        super().__init__()
        self.pipe = pipe

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[Running]:
        self.pipe.send(stage.value)
        with super().stage(stage) as running:
            yield running


def measure(pipe: Connection, path: Path, out: Path, until: Stage, board: str, multipliers: int | None) -> None:
    progress = Telling(pipe)
    facts: Facts = {}
    simulated = watch_the_simulator()
    try:
        model = flow.read(path)
        frames = samples_of(model, path.parent / "inputs.npz")
        np.savez(out.with_suffix(".npz"), **frames)
        options = BuildOptions(
            model=path,
            out=out,
            inputs=out.with_suffix(".npz"),
            calibration=out.with_suffix(".npz"),
            board=board,
            stop_after=until,
            scheduling=ScheduleRequest(multipliers=multipliers),
        )
        facts |= asdict(build(options, progress).report)
        facts |= speeds(model, frames)
    except UserError as error:
        facts["error"] = str(error).splitlines()[0]
    facts["seconds"] = {running.stage.value: running.seconds for running in progress.stages}
    if simulated:
        facts["cycles_per_second"] = sum(cycles for _, _, cycles in simulated) / seconds_of(simulated)
    pipe.send(facts)


def samples_of(model: Model, stored: Path) -> dict[str, np.ndarray]:
    """``FRAMES`` of every graph input: those that are stored, or random ones over the whole range of integers, 0..1."""
    names = {value.name: value for value in model.graph.inputs}
    if stored.is_file():
        with np.load(stored) as arrays:
            return {key: arrays[key][:FRAMES] for key in arrays if key in names}
    generator = np.random.default_rng(0)
    frames = {}
    for key, value in names.items():
        shape = (FRAMES, *(length if isinstance(length, int) else 1 for length in value.shape or ()))
        dtype = np.dtype(value.element_type if value.element_type != "float" else "float32")
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            frames[key] = generator.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        else:
            frames[key] = generator.random(shape).astype(dtype)
    return frames


def speeds(model: Model, frames: dict[str, np.ndarray]) -> Facts:
    """Milliseconds that one frame takes golden and the reference, when everything has been computed once."""
    network = flow.quantize(model, calibration=frames)

    def compute() -> None:
        for k in range(FRAMES):
            reference.run(model, {key: array[k] for key, array in frames.items()})

    return {
        "golden_ms": milliseconds(lambda: golden.run(network, frames)) / FRAMES,
        "reference_ms": milliseconds(compute) / FRAMES,
    }


def milliseconds(work: Callable[[], object]) -> float:
    """Of the fastest of three times, after one that fills caches."""
    work()
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return 1000 * min(times)


def watch_the_simulator() -> list[tuple[float, float, int]]:
    """(begin, end, cycles) of all runs from now on: within the stage, there is also compiling and comparing."""
    found: list[tuple[float, float, int]] = []
    run = LockstepSimulator.run_together

    def timed(*arguments: Any, **options: Any) -> list[Recording]:
        begin = time.perf_counter()
        recordings = run(*arguments, **options)
        found.append((begin, time.perf_counter(), sum(recording.cycles for recording in recordings)))
        return recordings

    LockstepSimulator.run_together = timed  # type: ignore[method-assign]
    return found


def seconds_of(simulated: list[tuple[float, float, int]]) -> float:
    """In which any simulation was under way."""
    seconds, until = 0.0, 0.0
    for begin, end, _ in sorted(simulated):
        seconds += max(0.0, end - max(begin, until))
        until = max(until, end)
    return seconds


if __name__ == "__main__":
    main()
