"""What a simulation needs to know about a circuit: its streams, its probes, its engines. Nothing about operators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class Stream:
    """A stream visible at the circuit's top as ``{name}_payload`` (``lanes * bits`` wide), ``{name}_valid`` and
    ``{name}_ready``. Lane 0 sits in the lowest bits.
    """

    name: str
    lanes: int
    bits: int
    signed: bool = True

    @property
    def width(self) -> int:
        return self.lanes * self.bits


@dataclass(frozen=True)
class Circuit:
    """A circuit with module name ``top``, ports ``clk``, ``rst``, the streams below and ``fires``.

    Attributes:
        rtlil: the text of the netlist.
        sources: streams into the circuit (payload and valid are its inputs).
        sinks: streams out of it (ready is an input).
        probes: inner streams; all three signals are outputs of the circuit.
        engines: bit k of ``fires`` is high in each cycle in which engine k fires.
    """

    rtlil: str
    sources: tuple[Stream, ...]
    sinks: tuple[Stream, ...]
    probes: tuple[Stream, ...] = ()
    engines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stimulus:
    """What the outside does. Cycle 0 is the first cycle with reset low.

    Attributes:
        tokens: per source, (tokens, lanes) int64.
        offers: per source, (tokens,) int64 ascending: the cycle from which token j is offered and held.
        ready: per sink, bool trace; after its end the sink is always ready.
        expected: per sink, how many tokens end the simulation.
        cycles: hard limit.
        patience: cycles without a single firing or transfer, with work still to do, after which it is called a deadlock.
        tail: cycles to go on after the last expected token, so that surplus tokens and firings are seen.
    """

    tokens: dict[str, np.ndarray]
    offers: dict[str, np.ndarray]
    ready: dict[str, np.ndarray]
    expected: dict[str, int]
    cycles: int
    patience: int = 5000
    tail: int = 0


@dataclass(frozen=True)
class Recording:
    """What was seen.

    Attributes:
        cycles: how many were simulated.
        fires: per engine, the cycles in which it fired, ascending.
        cycles_of: per stream (sources, sinks and probes), the cycle of every transfer.
        tokens: per stream, (transfers, lanes) int64.
        finished: every sink got what was expected.
        valid, ready: per stream, the state in the last cycle: who waits for whom.
    """

    cycles: int
    fires: dict[str, np.ndarray]
    cycles_of: dict[str, np.ndarray]
    tokens: dict[str, np.ndarray]
    finished: bool
    valid: dict[str, bool] = field(default_factory=dict)
    ready: dict[str, bool] = field(default_factory=dict)


class Simulator(Protocol):
    """A compiled or interpreted circuit. Every run starts from reset."""

    name: str

    def run(self, stimulus: Stimulus) -> Recording: ...
