"""Last line of a build that stopped: what there is of it, and the command to go on with."""

from __future__ import annotations

import shlex

from onnx_hw.messages.errors import ExitCode
from onnx_hw.report.build_command import build_command
from onnx_hw.report.build_request import flat
from onnx_hw.report.html.page import PAGE
from onnx_hw.report.read import REPORT
from onnx_hw.runtime.options import BuildOptions


def after_a_stopped_build(options: BuildOptions, exit_code: ExitCode) -> str:
    """Return the line for a build that was refused, failed, or was interrupted.

    Args:
        options: what was asked for.
        exit_code: how it ended.
    """
    folder, again = options.folder, build_command(flat(options))
    if not (folder / REPORT).is_file():
        if exit_code is ExitCode.INTERRUPTED:
            return f"nothing is written yet; `{again}` begins once more"
        if not options.model.is_file():
            return "nothing is written yet; `onnx-hw example digits` writes a model to try"
        return f"nothing is written yet; `onnx-hw check {shlex.quote(str(options.model))}` says what can be built"
    if exit_code is ExitCode.INTERRUPTED:
        return f"what is done is kept in {folder}; `{again}` goes on from there"
    return f"{folder / PAGE} shows what is done; once the error is mended, the build goes on from there"
