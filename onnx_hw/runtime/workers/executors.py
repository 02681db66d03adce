"""Executors of this machine and of a cluster, as one value."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx_hw.messages.errors import ExitCode, UserError, user_error
from onnx_hw_tools.process import called_for


@dataclass(frozen=True)
class Workers:
    """An executor, and what there is to know about it.

    Attributes:
        executor: who does it.
        width: tasks at once.
        store: folder of the store that its workers use; None where each has its user's.
        owner: whose tools are to be ended when the work is given up; see ``onnx_hw_tools.process.end_tools_of``.
    """

    executor: Executor
    width: int
    store: Path | None
    owner: str = ""

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Submit a call to a worker."""
        return self.executor.submit(called_for, self.owner, call, *arguments)


class InlineExecutor(Executor):
    """This thread: what is submitted is done at once."""

    def submit(self, fn: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*arguments, **named))
        return done


def worker_died() -> UserError:
    """Return the error that no worker is left."""
    message = "every worker must live until its work is done; one was killed, perhaps for want of memory"
    hint = "use fewer at once: --jobs N; what is done is not done again"
    return user_error("worker", message, hint=hint, exit_code=ExitCode.TOOL_FAILED)
