"""Waveforms of a proof: every signal of the circuit, and each node's firings and integers under the node's own name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.assemble.elaborate import CircuitNames, to_circuit
from onnx_hw.ir.design import Design
from onnx_hw.prove.circuit.check_run import golden_beats, stimulus_of
from onnx_hw.prove.circuit.run_comparison import Run
from onnx_hw.prove.circuit.stalls import Stall

if TYPE_CHECKING:
    from onnx_hw_sim.decoded_waves import WaveScope

CYCLES_SHOWN_BEFORE, CYCLES_SHOWN_AFTER = 400, 100
"""Number of cycles shown before and after a difference."""

CYCLES_SHOWN = 2000
"""Greatest number of cycles shown, from the first one on, where there is no difference."""

DIFFERENCE_FILE, WAVES_FILE = "difference.vcd", "waves.vcd"


def write_waves(
    design: Design, run: Run, part: Mapping[str, np.ndarray], stall: Stall, folder: Path
) -> tuple[Path, str] | None:
    """Write a run as a VCD file in ``folder`` with a save file: the cycles around its difference, or the first ones.

    Args:
        part: golden values of every tensor, of the frames of that run.

    Returns:
        the file, and the command that shows it; None where there are no tools to write it: a difference is worth more
        than its picture.
    """
    from onnx_hw_sim.decoded_waves import decode, write_save_file
    from onnx_hw_sim.waves import CYCLE_NS, write_vcd
    from onnx_hw_tools.tools import ToolFailed, ToolMissing

    if run.difference is not None:
        file, at = folder / DIFFERENCE_FILE, run.difference.cycle
        first, last = max(0, at - CYCLES_SHOWN_BEFORE), at + CYCLES_SHOWN_AFTER
    else:
        file, at, first, last = folder / WAVES_FILE, 0, 0, min(run.cycles, CYCLES_SHOWN) - 1
    circuit, names, _ = to_circuit(design)
    beats = golden_beats(design, part)
    stimulus = stimulus_of(design, names, beats, stall, last + 1)
    scopes = _scopes(design, names)
    wanted = {names.edges[tensor]: rows for tensor, rows in beats.items()}
    try:
        seen = write_vcd(circuit, stimulus, file, folder / "simulation", first=first, last=last)
        decode(file, seen, scopes, wanted, cycle_ns=CYCLE_NS, first=first, last=last)
        save = file.with_suffix(".gtkw")
        lanes = {stream.name: stream.lanes for stream in (*circuit.sources, *circuit.sinks, *circuit.probes)}
        write_save_file(save, scopes, lanes, at_ns=at * CYCLE_NS, from_ns=max(first, at - 20) * CYCLE_NS)
    except (ToolMissing, ToolFailed, OSError):
        return None
    return file, f"gtkwave {file} {save}"


def _scopes(design: Design, names: CircuitNames) -> list[WaveScope]:
    """Return the model's inputs, then every node with its engines and its outputs."""
    from onnx_hw_sim.decoded_waves import WaveScope

    inputs = [(edge.tensor, names.edges[edge.tensor]) for edge in design.edges() if edge.producer is None]
    scopes = [WaveScope("inputs", streams=inputs)]
    for node in design.network.nodes:
        engines = [(engine, name) for (owner, engine), name in names.engines.items() if owner == node.name]
        outputs = zip(node.operator.outputs, node.outputs, strict=True)
        scopes.append(WaveScope(node.name, engines, [(port, names.edges[tensor]) for port, tensor in outputs]))
    return scopes
