"""Showing what a tool writes into its log, while it writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from onnx_hw.runtime.progress import Running

PERIOD = 0.1  # seconds between two looks


@contextmanager
def follow_log(running: Running, show: Callable[[str], None]) -> Iterator[None]:
    """Call ``show`` with every line of ``running.log``: from the moment it is named, to the end of the block.

    A stage may go on to another log when its next tool starts.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_follow, args=(running, show, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _follow(running: Running, show: Callable[[str], None], ended: threading.Event) -> None:
    log: _Log | None = None
    last = False
    while not last:
        last = ended.wait(PERIOD)
        named = running.log  # read once: the other thread may change it
        if log is not None and log.path != named:
            log.close()
            log = None
        if log is None and named is not None:
            log = _Log.opened(named, show)
        if log is not None:
            log.show_new_lines()
    if log is not None:
        log.close()


class _Log:
    """An open log. It stays open where its folder is moved, as stages do when they are complete."""

    def __init__(self, path: Path, file: TextIO, show: Callable[[str], None]) -> None:
        self.path, self._file, self._show = path, file, show
        self._begun = ""

    @classmethod
    def opened(cls, path: Path, show: Callable[[str], None]) -> _Log | None:
        try:
            return cls(path, path.open(encoding="utf-8", errors="replace"), show)
        except OSError:
            return None  # not there yet

    def show_new_lines(self) -> None:
        *lines, self._begun = (self._begun + self._file.read()).split("\n")
        for line in lines:
            self._show(line)

    def close(self) -> None:
        self.show_new_lines()
        self._file.close()
        if self._begun:
            self._show(self._begun)
