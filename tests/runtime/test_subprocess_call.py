"""A call in a process of its own: what comes of it, what if there is no other Python, or nobody waits any more."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.runtime.background import beside
from onnx_hw.runtime.subprocess_call import in_own_process


def refuse(what: str) -> None:
    raise user_error("refused", f"not {what}", where="here")


def sleep_after(file: Path) -> None:
    file.write_text(str(os.getpid()), encoding="utf-8")
    time.sleep(600)


def runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_it_returns() -> None:
    assert in_own_process(divmod, 17, 5) == (3, 2)
    assert in_own_process(os.getpid) != os.getpid()


def test_what_it_raises() -> None:
    with pytest.raises(UserError, match="not this"):
        in_own_process(refuse, "this")


@pytest.mark.parametrize("python", ["/no/such/python", "", None])
def test_where_there_is_no_other_python_this_one_makes_the_call(
    python: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.setenv("PATH", "/no/such/folder")
    assert in_own_process(os.getpid) == os.getpid()


def test_it_ends_with_the_block_that_it_is_beside(tmp_path: Path) -> None:
    file = tmp_path / "process"

    def block() -> None:
        with beside(in_own_process, sleep_after, file):
            deadline = time.monotonic() + 60
            while not (file.exists() and file.read_text(encoding="utf-8")) and time.monotonic() < deadline:
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        block()
    assert not runs(int(file.read_text(encoding="utf-8")))
