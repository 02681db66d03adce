"""Self-test of a build's board: one verdict, and what to paste into the form for boards that were tried."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from onnx_hw.commands.infer import InferOptions, Tried, kept_design, link_failure, opened_port, read_host
from onnx_hw.messages.errors import ExitCode, UserError, user_error
from onnx_hw.runtime.options import SimulationEngine
from onnx_hw.runtime.progress import Progress, Silent
from onnx_hw_link.chip import Chip
from onnx_hw_link.errors import AnotherDesign, LinkError
from onnx_hw_link.self_test import KnownFrames, SelfTestResult, run_self_test
from onnx_hw_link.transport import TRANSPORTS


@dataclass(frozen=True)
class BoardVerdict:
    """Verdict of a self-test: what the board computed, and how soon, and where the build was run."""

    result: SelfTestResult
    device: Tried


def self_test(
    folder: Path, port: str, progress: Progress | None = None, *, engine: SimulationEngine | None = None
) -> BoardVerdict:
    """Send the frames that a build keeps to its board, or to its simulation, and compare the results with golden's.

    Raises:
        UserError: there is no such build, its board does not answer, or holds another design.
        ToolMissing, ToolFailed: what the simulation needs.
    """
    progress = progress or Silent()
    options = InferOptions(folder=folder, inputs=None, port=port, engine=engine)
    try:
        model, frames = read_host(folder), KnownFrames.read(folder)
        if frames.digest != model.link.digest.hex():
            raise AnotherDesign(f"the frames in {folder} must be those of its design: build the model again")
        design, transport = kept_design(options, model), TRANSPORTS[model.link_kind](model.baud)
        with (
            opened_port(options, model, design, progress) as (name, timeout),
            Chip(
                name,
                baud=model.baud,
                digest=model.link.digest,
                timeout=timeout,
                transport=transport,
                contents=model.contents,
            ) as chip,
        ):
            result = run_self_test(chip, frames)
    except LinkError as error:
        raise link_failure(error, port) from error
    return BoardVerdict(result, Tried(model.name, frames.board, frames.digest, port, model.baud))


def refusal(verdict: BoardVerdict) -> UserError | None:
    """Return the error of a board that failed; None for one that passed."""
    result = verdict.result
    if result.passed:
        return None
    which = f"frame {(result.wrong or result.off)[0]:,}"
    hint = "is the clock's timing met, and the bitstream that of this build? Then please report it"
    message = f"the board must pass its self-test; {result.verdict.removeprefix('FAIL: ')}"
    problems = user_error("self-test", message, where=which, hint=hint, stage="link").problems
    return UserError(*problems, exit_code=ExitCode.MISMATCH)
