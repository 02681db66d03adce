"""One mutant through ``check`` and ``run``: what must never happen to it."""

from __future__ import annotations

import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx_hw import flow
from onnx_hw.commands.check import check_hardware
from onnx_hw.commands.run import run
from onnx_hw.lower.layout.stream_layout import elements_of
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.load.check_file import check
from onnx_hw.quantization.ranges.synthetic import synthetic_frames
from onnx_hw.runtime.options import BuildOptions, Evaluator, ReadOptions, RunOptions
from onnx_hw.samples.read_samples import write_samples
from support.cpu_time_limit import own_seconds

LENIENT = ReadOptions(lenient=True)
"""As most mutants have no shapes of their outputs."""

LARGEST = 1 << 16
"""Elements of an input: a run takes as long as there is data."""

ABOUT_DATA = frozenset((
    "calibration-not-finite", "not-a-number", "operator-failed", "too-much-to-compute", "samples-finite",
))  # fmt: skip
"""Why a model that can be built may still not run on drawn samples."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    Attributes:
        stage: how far it came: refused, check, run.
        fault: what must not be, with the place in the code; empty if nothing.
        seconds: of the processor, in all.
    """

    stage: str
    fault: str
    seconds: float


def outcome(model: onnx.ModelProto, folder: Path) -> Outcome:
    """Whatever is raised that is no ``UserError`` becomes a fault."""
    with own_seconds() as seconds:
        stage, fault = _came(model, folder)
        return Outcome(stage, fault, seconds())


def _came(model: onnx.ModelProto, folder: Path) -> tuple[str, str]:
    path, stage, fault = folder / "mutant.onnx", "refused", ""
    try:
        path.write_bytes(model.SerializeToString())
        if check(path, lenient=True).verdict != "refused":
            stage = "check"
            refusal = check_hardware(BuildOptions(model=path, reading=LENIENT))
            stage, fault = "run", _run(path, folder, refusal)
    except UserError as error:
        fault = f"a UserError of a verdict: {error.problems[0].code}"
    except TimeoutError as error:
        fault = f"too long: {_place(error)}"
    except Exception as error:  # what it is, is the finding
        fault = f"{type(error).__name__} {_place(error)}"
    return stage, fault


def _run(path: Path, folder: Path, refusal: UserError | None) -> str:
    """Both engines on drawn samples; a model that can be built must run."""
    samples = folder / "samples.npz"
    with suppress(UserError):
        model = flow.read(path, LENIENT)
        if any(elements_of(value) > LARGEST for value in model.graph.inputs):
            return ""
        frames = synthetic_frames(model)
        write_samples(samples, {name: array[:2] for name, array in frames.items()})
        run(RunOptions(model=path, inputs=samples, engine=Evaluator.REFERENCE, reading=LENIENT))
        try:
            run(RunOptions(model=path, inputs=samples, engine=Evaluator.GOLDEN, reading=LENIENT))
        except UserError as error:
            codes = {problem.code for problem in error.problems}
            if refusal is None and codes.isdisjoint(ABOUT_DATA):
                return f"check says yes, run says no: {', '.join(sorted(codes))}"
    return ""


def _place(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "onnx_hw" in frame.filename]
    return " < ".join(f"{Path(frame.filename).stem}:{frame.lineno}" for frame in frames[-1:-4:-1])
