"""A call in a process of its own: Python computes one thing at a time, however many threads there are.

Not in a worker (``onnx_hw.runtime.workers``): a pool's new process runs the caller's script once more, and one that
calls ``build`` without asking whether it is the main module would begin it anew.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from onnx_hw_tools.process import ToolFailed, execute, python_command

T = TypeVar("T")
CALL, ANSWER, LOG = "call.pickle", "answer.pickle", "log"


def in_own_process(call: Callable[..., T], *arguments: object) -> T:
    """Return (or raise) what a call does in another Python process; in this one where no other can be started.

    Args:
        call: of a module, since it is looked up there by its name; it and its arguments are pickled, and so is what
            comes of it.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            (folder / CALL).write_bytes(pickle.dumps((call, arguments)))
            module = "onnx_hw.runtime.subprocess_call"
            execute([python_command("python", module, name, cwd=folder, log=folder / LOG)])
            result, error = pickle.loads((folder / ANSWER).read_bytes())  # this process's own words
        except (ToolFailed, OSError):
            return call(*arguments)
    if error is not None:
        raise error
    return result


def answer(folder: Path) -> None:
    """Make the call that lies in a folder, in the other process, and leave its result there."""
    call, arguments = pickle.loads((folder / CALL).read_bytes())
    result = error = None
    try:
        result = call(*arguments)
    except Exception as raised:  # noqa: BLE001  # it is raised again where it is waited for
        error = raised
    (folder / ANSWER).write_bytes(pickle.dumps((result, error), pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    answer(Path(sys.argv[1]))
