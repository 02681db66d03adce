"""Waveforms of a run, to examine a difference: every signal of the circuit, in a window of cycles.

The library that can write them is compiled only on the first request, and takes longer than the library of the proof.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from onnx_hw_sim.circuit import Circuit, Recording, Stimulus
from onnx_hw_sim.compiled import CompiledSimulator
from onnx_hw_tools.tools import Tool

CYCLE_NS = 10
"""Period of the clock. Cycle t begins at t · CYCLE_NS with the values that were sampled in it; its rising edge is half
a cycle later.
"""


def write_vcd(
    circuit: Circuit,
    stimulus: Stimulus,
    file: Path,
    folder: Path,
    *,
    first: int,
    last: int,
    on_first_run: Callable[[Tool], None] | None = None,
) -> Recording:
    """Repeat a run up to cycle ``last`` and write cycles ``first`` to ``last`` into ``file``, a VCD for any viewer.

    Args:
        folder: as for ``CompiledSimulator.build``.
        on_first_run: see ``tools.run``.

    Returns:
        Recording of the run up to that cycle.

    Raises:
        ToolMissing, ToolFailed: as for ``CompiledSimulator.build``.
        OSError: ``file`` cannot be written.
    """
    simulator = CompiledSimulator.build(circuit, folder, traced=True, on_first_run=on_first_run)
    return simulator.run(stimulus, wave=file, window=(first, last + 1))
