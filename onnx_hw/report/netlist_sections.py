"""Sections of the report about the netlist: its cells and its clock, as the tools counted them, and its activity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True)
class SynthesizedCore:
    """Resources of one core after synthesis, with its FIFOs."""

    name: Annotated[str, "name of the node"]
    lut4: Annotated[int, "four-input look-up tables"]
    ff: Annotated[int, "flip-flops"]
    dsp: Annotated[int, "hardware multipliers"]
    bram: Annotated[int, "block RAMs"]


@dataclass(frozen=True)
class Synthesis:
    """Resources and clock after synthesis and routing, from the tools' own reports."""

    lut4: Annotated[int, "four-input look-up tables"]
    ff: Annotated[int, "flip-flops"]
    dsp: Annotated[int, "hardware multipliers"]
    bram: Annotated[int, "block RAMs"]
    logic_cells: Annotated[int, "least number of logic cells that hold these; 0 where the chip has none"] = 0
    fmax_mhz: Annotated[float | None, "greatest clock after routing, MHz; null before routing"] = None
    target_mhz: Annotated[float | None, "target clock of the build, MHz"] = None
    timing_met: Annotated[bool | None, "whether fmax_mhz reaches target_mhz; null before routing"] = None
    cores: Annotated[tuple[SynthesizedCore, ...], "resources of each core"] = ()
    critical_path: Annotated[
        tuple[str, ...], "registers at both ends of the slowest path: signal and core, in the model's names"
    ] = ()
    path_logic_ns: Annotated[float, "delay of the cells on that path, ns"] = 0.0
    path_routing_ns: Annotated[float, "delay of the wires on that path, ns"] = 0.0


@dataclass(frozen=True)
class CoreNetActivity:
    """Activity of one core and of the FIFOs behind it."""

    name: Annotated[str, "name of the node"]
    nets: Annotated[int, "nets that its cells drive"]
    toggles_per_cycle: Annotated[float, "nets that change from one cycle to the next, on average"]
    share: Annotated[float, "part of the changes of all nets of the chip, 0..1"]


@dataclass(frozen=True)
class ChipActivity:
    """Changes of nets in the simulated netlist at full rate, in a sample of its cycles. It is no energy."""

    nets: Annotated[int, "nets of the chip that cells drive"]
    toggles_per_cycle: Annotated[float, "nets that change from one cycle to the next, on average"]
    cores: Annotated[tuple[CoreNetActivity, ...], "the cores, in the order of the design"]
