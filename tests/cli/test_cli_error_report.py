"""How every kind of failure is worded, and which exit code it has."""

import errno
from pathlib import Path

import pytest

from onnx_hw.cli.error_report import explain
from onnx_hw.messages.errors import ExitCode, user_error
from onnx_hw_tools.tools import ToolFailed, ToolMissing


def only_problem(error, folder=None):
    ending = explain(error, folder)
    assert len(ending.problems) == 1
    return ending.exit_code, ending.problems[0]


def test_a_missing_tool():
    code, problem = only_problem(ToolMissing("yosys", ("$YOSYS (not set)", "PATH (yosys)"), "YOSYS"))
    assert code == ExitCode.TOOL_FAILED
    assert str(problem) == (
        "error[tool-missing]: the program yosys 0.50 or newer must be installed; "
        "looked at $YOSYS (not set), PATH (yosys)\n"
        '  hint   pip install "onnx-hw[tools]", or name another one in YOSYS; '
        "`onnx-hw doctor` shows all"
    )


def test_a_failed_tool():
    code, problem = only_problem(ToolFailed("nextpnr-ecp5", "exit code 1", Path("r/route.log"), ("one", "two")))
    assert code == ExitCode.TOOL_FAILED
    assert str(problem).startswith(
        "error[tool-failed]: nextpnr-ecp5 failed: exit code 1; its last lines:\n    one\n    two\n  where"
    )
    assert problem.where == "r/route.log"


def test_a_silent_failed_tool():
    _, problem = only_problem(ToolFailed("yosys", "killed by SIGKILL", Path("log"), ()))
    assert problem.message == "yosys failed: killed by SIGKILL"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_disk_is_no_bug(number):
    code, problem = only_problem(OSError(number, "reason", "out/file"))
    assert (code, problem.code, problem.where) == (ExitCode.USAGE, "disk", "out/file")


def test_memory():
    code, problem = only_problem(MemoryError("Unable to allocate 9 TiB"))
    assert (code, problem.code) == (ExitCode.USAGE, "memory")
    assert problem.message.endswith("has run out of memory: Unable to allocate 9 TiB")


def test_ctrl_c_says_nothing_about_problems():
    assert explain(KeyboardInterrupt()).problems == ()


def test_user_errors_keep_their_exit_code():
    code, problem = only_problem(user_error("big", "too big", exit_code=ExitCode.DOES_NOT_FIT))
    assert (code, problem.code) == (ExitCode.DOES_NOT_FIT, "big")


def test_the_traceback_of_a_bug_goes_to_a_temporary_file_where_there_is_no_folder(tmp_path):
    for folder in (None, tmp_path / "never made"):
        code, problem = only_problem(OSError(errno.EBADF, "odd"), folder)
        assert (code, problem.code) == (ExitCode.BUG, "bug")
        place = Path(problem.where)
        assert "Errno 9" in place.read_text()
        place.unlink()


def test_a_traceback_survives_text_that_is_not_unicode(tmp_path):
    _, problem = only_problem(ValueError("name \udcff"), tmp_path)
    assert Path(problem.where).parent == tmp_path
    assert r"\udcff" in Path(problem.where).read_text()
