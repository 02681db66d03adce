"""The folder of a build: stages made once, whole or not at all, by one build at a time."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.runtime.artifact_store import read_entry
from onnx_hw.runtime.build_folder import Made, digest, opened
from onnx_hw_tools.process import ToolFailed


def writer(text: str = "result") -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / "file").write_text(text)
        (folder / "tool.log").write_text(str(time.time()))

    return make


def never(folder: Path) -> None:
    pytest.fail(f"{folder} should have been cached")


def build(out: Path, inputs: object, make: Callable[[Path], None]) -> Made:
    with opened(out) as folder:
        return folder.stage("stage", inputs, make)


def test_the_same_inputs_are_cached(tmp_path: Path) -> None:
    first = build(tmp_path / "out", {"a": 1, "b": [2]}, writer())
    again = build(tmp_path / "out", {"b": [2], "a": 1}, never)
    assert not first.cached and again.cached
    assert (again.folder, again.digest, again.files) == (first.folder, first.digest, first.files)
    assert set(first.files) == {"file"}  # logs tell the time


@pytest.mark.parametrize("other", [{"a": 2}, {"a": "1"}, {"b": 1}, {"a": 1, "b": None}])
def test_other_inputs_are_not(tmp_path: Path, other: object) -> None:
    build(tmp_path, {"a": 1}, writer())
    assert digest(other) != digest({"a": 1})
    made = build(tmp_path, other, writer("other"))
    assert not made.cached
    assert (made.folder / "file").read_text() == "other"


@pytest.mark.parametrize("damage", ["change", "delete", "add", "record"])
def test_damage_is_noticed(tmp_path: Path, damage: str) -> None:
    place = build(tmp_path, 1, writer()).folder
    if damage == "change":
        (place / "file").write_text("resulT")
    elif damage == "delete":
        (place / "file").unlink()
    elif damage == "add":
        (place / "more").touch()
    else:
        (place / "stage.json").write_text("{")
    made = build(tmp_path, 1, writer())
    assert not made.cached
    assert {file.name for file in place.iterdir()} == {"file", "tool.log", "stage.json"}


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and links")
@pytest.mark.parametrize("name", ["file", "stage.json"])
@pytest.mark.parametrize("what", ["a pipe", "a device"])
def test_what_is_no_file_keeps_nobody_waiting(tmp_path: Path, name: str, what: str) -> None:
    place = build(tmp_path, 1, writer()).folder
    (place / name).unlink()
    if what == "a pipe":
        os.mkfifo(place / name)
    else:
        (place / name).symlink_to("/dev/zero")
    assert read_entry(place) is None
    made = build(tmp_path, 1, writer())
    assert not made.cached and (made.folder / "file").read_text() == "result"


def test_a_failure_keeps_the_log_and_the_earlier_result(tmp_path: Path) -> None:
    build(tmp_path, 1, writer())

    def fail(folder: Path) -> None:
        log = folder / "tool.log"
        log.write_text("it broke")
        raise ToolFailed("tool", "exit code 1", log, ("it broke",))

    with pytest.raises(ToolFailed) as failure:
        build(tmp_path, 2, fail)
    assert failure.value.log == tmp_path / "stage-failed" / "tool.log"
    assert failure.value.log.read_text() == "it broke"
    assert build(tmp_path, 1, never).cached
    build(tmp_path, 2, writer())
    assert not (tmp_path / "stage-failed").exists()


def test_a_log_of_elsewhere_stays_there(tmp_path: Path) -> None:
    """The first run of a wheel, which prepares it for the machine, writes into the user's cache."""
    elsewhere = tmp_path / "cache" / "tool-first-run.log"

    def fail(folder: Path) -> None:
        raise ToolFailed("tool", "exit code 1", elsewhere, ())

    with pytest.raises(ToolFailed) as failure:
        build(tmp_path / "out", 1, fail)
    assert failure.value.log == elsewhere


def test_an_interruption_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(folder: Path) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path, 1, interrupt)
    assert [file.name for file in tmp_path.iterdir()] == [".lock"]


def test_two_builds_in_one_folder_wait_for_each_other(tmp_path: Path) -> None:
    inside, waited, most = 0, [], 0

    def slow(folder: Path) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.1)
        (folder / "file").touch()
        inside -= 1

    def work(inputs: int) -> None:
        with opened(tmp_path, lambda: waited.append(inputs)) as folder:
            folder.stage("stage", inputs, slow)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert len(waited) == 2
    assert {file.name for file in tmp_path.iterdir()} == {".lock", "stage"}


def test_a_folder_that_cannot_be_made_is_the_users_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="must be writable") as refusal:
        build(tmp_path / "file", 1, never)
    assert refusal.value.exit_code == ExitCode.USAGE
    assert "--out" in refusal.value.problems[0].hint


def test_a_full_disk_is_the_users_error(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder))

    with pytest.raises(UserError, match="No space left"):
        build(tmp_path, 1, fill)
    assert [file.name for file in tmp_path.iterdir()] == [".lock"]


def test_a_fault_of_ours_stays_one(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "absent").read_text()

    with pytest.raises(FileNotFoundError):
        build(tmp_path, 1, fail)
