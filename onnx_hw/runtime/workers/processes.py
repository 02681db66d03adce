"""Workers that are processes of this machine."""

from __future__ import annotations

import _thread
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from onnx_hw.runtime.workers.executors import Workers
from onnx_hw_tools.process import GRACE_SECONDS

PATIENCE = GRACE_SECONDS + 1
"""Seconds in which a worker ends, with the tools that it runs."""


class _Processes(ProcessPoolExecutor):
    """Pool whose processes end when they are asked to, also in the middle of work."""

    def submit(self, fn: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        return super().submit(_called, fn, *arguments, **named)


def _called(fn: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """End the worker: a pool takes every exception for a result, `SystemExit` too, and waits for more work."""
    try:
        return fn(*arguments, **named)
    except SystemExit as stopped:
        os._exit(stopped.code if isinstance(stopped.code, int) else 1)


@contextmanager
def processes(jobs: int | None, store: Path) -> Iterator[Workers]:
    """Processes of this machine, ``jobs`` of them; None for one a processor.

    However the block ends, they and the tools they run end with it; also when this process is killed.
    """
    width = jobs or os.cpu_count() or 1
    before = set(multiprocessing.active_children())
    executor = _Processes(width, multiprocessing.get_context("spawn"), _begin)
    try:
        yield Workers(executor, width, store)
    finally:
        children = set(multiprocessing.active_children()) - before
        for child in children:
            child.terminate()  # `_stop` there ends the tools first
        for child in children:
            child.join(PATIENCE)
            child.kill()
        executor.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    """Prepare a new worker: Ctrl-C is handled by the process that started it, and whose end is its own end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwinds the stack, so that ``execute`` ends what it runs."""
    sys.exit(128 + number)


def _end_with_parent() -> None:
    parent, main = multiprocessing.parent_process(), threading.main_thread().ident
    if parent is not None and main is not None:
        wait([parent.sentinel])
        for _ in range(3):  # where Python ignores exceptions, in `__del__` say, one may come to nothing
            if hasattr(signal, "pthread_kill"):
                signal.pthread_kill(main, signal.SIGTERM)  # that thread: it may wait for work, and has to wake up
            else:  # Windows
                _thread.interrupt_main(signal.SIGTERM)
            time.sleep(PATIENCE)
        os._exit(128 + signal.SIGTERM)
