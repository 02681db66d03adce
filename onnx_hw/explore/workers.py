"""Who does the work: processes of this machine, or any ``concurrent.futures.Executor``."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from types import FrameType
from typing import NoReturn


@dataclass(frozen=True)
class Workers:
    """An executor, and what there is to know about it.

    Attributes:
        width: tasks at once.
        store: folder of the store that its workers use; None where each has its user's.
    """

    executor: Executor
    width: int
    store: Path | None


@contextmanager
def processes(jobs: int | None, store: Path) -> Iterator[Workers]:
    """Processes of this machine, ``jobs`` of them; None for one a processor.

    However the block ends, they and the tools they run end with it; also when this process is killed.
    """
    width = jobs or os.cpu_count() or 1
    before = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(width, multiprocessing.get_context("spawn"), _begin)
    try:
        yield Workers(executor, width, store)
    finally:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()  # `_stop` there ends the tools first
        executor.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    """In a new worker: Ctrl-C is the business of whoever started it, whose end is its own end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwinds the stack, so that ``execute`` ends what it runs."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
