"""One build: the stages of ``flow`` in a folder, with a cache, and the report of what they gave and said."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.commands.build_stages import BuildState
from onnx_hw.commands.stage_functions import STAGE_FUNCTIONS, StageFunctions
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import ExitCode, UserError, user_error
from onnx_hw.messages.html import render_value
from onnx_hw.messages.text import printable
from onnx_hw.onnx.load.read import read as read_onnx
from onnx_hw.prove.circuit import prove as simulation
from onnx_hw.report.collect import sections
from onnx_hw.report.html.page import PAGE, notebook, page
from onnx_hw.report.html.page import verdict as page_verdict
from onnx_hw.report.model import Report
from onnx_hw.runtime.artifact_store import user_store
from onnx_hw.runtime.build_folder import opened
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.progress import Progress, Silent
from onnx_hw.runtime.stage import Stage
from onnx_hw_boards.verilog_board import VerilogBoard
from onnx_hw_tools import tools

DOCTOR = "`onnx-hw doctor` shows which programs are taken, and why"
"""Hint of the warning that a program is too old."""


@dataclass(frozen=True)
class Bitstream:
    """File that configures a chip. ``open`` and ``pathlib`` take it for its path.

    Attributes:
        path: the file, in the folder of its build.
        board: name of the board or chip.
    """

    path: Path
    board: str

    def __fspath__(self) -> str:
        return str(self.path)

    def _facts(self) -> dict[str, str]:
        return {
            "file": str(self.path),
            "size": f"{self.path.stat().st_size:,} bytes",
            "onto the board": f"onnx-hw program {self.path.parent}",
        }

    def __repr__(self) -> str:
        file, size, _ = self._facts().values()
        return printable(f"Bitstream {file}, {size}, for {self.board}")

    def _repr_html_(self) -> str:
        return render_value(f"Bitstream for {self.board}", self._facts())


@dataclass(frozen=True)
class Build:
    """Files of a build, and its report.

    Attributes:
        folder: folder with everything that was written.
        report: content of ``report.json``.
        exit_code: OK, or DOES_NOT_FIT where a clock or a rate that was asked for is missed.
        network: the integer network; None where the build stopped before it.
        design: the network with every choice made; None where the build stopped before it.
    """

    folder: Path
    report: Report
    exit_code: ExitCode = ExitCode.OK
    network: Network | None = field(default=None, compare=False)
    design: Design | None = field(default=None, compare=False)

    @property
    def bitstream(self) -> Bitstream | None:
        """The file that configures the chip; None where the build stopped before it."""
        name = self.report.files.get("bitstream")
        return None if name is None else Bitstream(self.folder / name, self.report.board.name)

    def __repr__(self) -> str:
        verdict = page_verdict(self.report).sentence
        return printable(f"Build {self.report.model.name} for {self.report.board.name} in {self.folder}: {verdict}")

    def _repr_html_(self) -> str:
        return notebook(self.report)


def build(
    options: BuildOptions | str | Path,
    progress: Progress | None = None,
    *,
    toolchain: StageFunctions = STAGE_FUNCTIONS,
    built: tuple[Network, str] | None = None,
    **choices: Any,
) -> Build:
    """Run the stages up to ``options.stop_after`` and write ``report.json``, also when a stage fails.

    Args:
        options: what to build, or the model's path.
        choices: fields of ``BuildOptions`` and numbers of its ``ScheduleRequest`` that take the place of those of
            ``options``: ``multipliers=32, stop_after="route"``.
        toolchain: functions that simulate, synthesize, place and pack.
        built: integer network of a build with loadable weights whose circuit this one must have, and its digest.

    Raises:
        UserError: anything the user can mend.
        ToolMissing, ToolFailed: a program is not there, or failed.
    """
    if not isinstance(options, BuildOptions):
        options = BuildOptions(model=options)  # type: ignore[arg-type]  # may be a text
    options = clamp_stages(options.but(**choices))
    work = BuildState(options, progress or Silent(), toolchain, built)
    if not os.path.isfile(options.model):  # false also where the path is too long, or a loop of links
        read_onnx(options.model)  # says what is wrong
    for name in sections.tools_of(options.stages, work.board):
        try:
            tool = tools.find(name)
        except tools.ToolMissing:
            if name not in simulation.REPLACEABLE:
                raise  # what is missing is missed at once, not after all the stages before
        else:
            work.warn((f"passed over {older}; {tool.version} is used", DOCTOR) for older in tool.passed_over)
    work.take(Stage.READ)  # what is refused leaves no folder
    store = user_store(options.store)
    with opened(options.folder, store=store) as work.folder:
        try:
            for stage in options.stages[1:]:
                work.require_samples_for(stage)
                work.take(stage)
            work.check_figures()
        except BaseException as error:
            work.recorder.fail(error)
            with suppress(UserError):  # what went wrong first is worth more than a report of it
                _finish(work, options)
            raise
        store.prune()
        return _finish(work, options)


def _finish(work: BuildState, options: BuildOptions) -> Build:
    """Write the report, and return the build as far as it came."""
    work.recorder.record(tools=sections.describe_tools(options.stages, work.board))
    work.recorder.record_file("report", "report.json")
    work.recorder.record_file("page", PAGE)
    report = work.recorder.report
    work.folder.write("report.json", report.to_json())
    work.folder.write(PAGE, page(report))
    code = ExitCode.OK if _keeps_word(work) else ExitCode.DOES_NOT_FIT
    return Build(options.folder, report, code, getattr(work, "network", None), getattr(work, "design", None))


def _keeps_word(work: BuildState) -> bool:
    """Return whether the clock and the rate that were asked for are reached, as far as that is known."""
    synthesis = work.recorder.report.synthesis
    if synthesis is None or synthesis.fmax_mhz is None or synthesis.timing_met:
        return True
    return work.options.scheduling.allows(synthesis.fmax_mhz, work.design.interval)


def clamp_stages(options: BuildOptions) -> BuildOptions:
    """Return the options with the last stage of a build for Verilog alone, which ends with the simulation.

    Raises:
        UserError: the board is unknown, or its builds do not have the last stage.
    """
    if not isinstance(find_board(options.board), VerilogBoard) or options.stop_after in Stage.until(Stage.SIMULATE):
        return options
    if options.stop_after is not Stage.UNPACK:
        raise user_error(
            "no-chip",
            f"a build for `{options.board}` has the stages up to {Stage.SIMULATE}, not {options.stop_after}",
            where="--stop-after",
            hint="choose a chip or a board: `onnx-hw boards`",
            stage="arguments",
        )
    return replace(options, stop_after=Stage.SIMULATE)
