"""Description of a circuit for simulations: its streams, probes and engines, and nothing about operators."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from onnx_hw_sim.payload import MAX_BITS, check_range

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Stream:
    """Stream that is visible at the circuit's top.

    Its ports are ``{name}_payload`` (``lanes * bits`` wide), ``{name}_valid`` and ``{name}_ready``. Lane 0 is in the
    lowest bits.
    """

    name: str
    lanes: int
    bits: int
    signed: bool = True

    def __post_init__(self) -> None:
        if not _IDENTIFIER.fullmatch(self.name):
            raise ValueError(f"a stream's name must be a plain identifier, not {self.name!r}")
        if self.lanes < 1:
            raise ValueError(f"`{self.name}` must have at least one lane, not {self.lanes}")
        if not 1 <= self.bits <= MAX_BITS:
            raise ValueError(f"lanes of `{self.name}` must have 1 to {MAX_BITS} bits, not {self.bits}")

    @property
    def width(self) -> int:
        return self.lanes * self.bits


@dataclass(frozen=True)
class Circuit:
    """Circuit with the module name ``top``, the ports ``clk``, ``rst`` and ``fires``, and the streams below.

    Attributes:
        rtlil: the text of the netlist.
        sources: streams into the circuit (payload and valid are its inputs).
        sinks: streams out of the circuit (ready is an input).
        probes: inner streams; all three signals are outputs of the circuit.
        engines: names of the engines; bit k of ``fires`` is high in each cycle in which engine k fires.
        reset_delay: cycles that a reset takes to reach the registers of the circuit.
    """

    rtlil: str
    sources: tuple[Stream, ...]
    sinks: tuple[Stream, ...]
    probes: tuple[Stream, ...] = ()
    engines: tuple[str, ...] = ()
    reset_delay: int = 0


@dataclass(frozen=True)
class Stimulus:
    """Behaviour of the environment. Cycle 0 is the first cycle with reset low, everywhere in the circuit.

    Attributes:
        tokens: by source, (tokens, lanes) int64.
        offers: by source, (tokens,) int64 ascending: the cycle from which token j is offered and held.
        ready: by sink, bool trace, (cycles,) or, of one that begins again, (rounds, cycles); after its end the sink is
            always ready.
        expected: by sink, the number of tokens that end the simulation.
        cycles: hard limit.
        patience: cycles without a single firing or transfer, with work still to do, after which the run counts as a
            deadlock. Cycles in which a source waits for its next offer or a sink refuses do not count.
        tail: cycles to go on after the last expected token, so that surplus tokens and firings are recorded.
        false_start: cycles of this same stimulus before the reset, not recorded: no state may leak through the reset.
    """

    tokens: dict[str, np.ndarray]
    offers: dict[str, np.ndarray]
    ready: dict[str, np.ndarray]
    expected: dict[str, int]
    cycles: int
    patience: int = 5000
    tail: int = 0
    false_start: int = 0

    def check(self, circuit: Circuit) -> None:
        """Raise ValueError unless the stimulus names exactly the circuit's streams, with arrays that fit them."""
        _check_names("tokens", self.tokens, circuit.sources)
        _check_names("offers", self.offers, circuit.sources)
        _check_names("ready", self.ready, circuit.sinks)
        _check_names("expected", self.expected, circuit.sinks)
        for stream in circuit.sources:
            tokens, offers = self.tokens[stream.name], self.offers[stream.name]
            if tokens.ndim != 2 or tokens.shape[1] != stream.lanes:
                raise ValueError(f"tokens of `{stream.name}` must be (tokens, {stream.lanes}), not {tokens.shape}")
            check_range(tokens, stream.bits, stream.signed, stream.name)
            if offers.shape != tokens.shape[:1]:
                raise ValueError(f"offers of `{stream.name}` must be ({tokens.shape[0]},), not {offers.shape}")
            if np.any(np.diff(offers) < 0):
                raise ValueError(f"offers of `{stream.name}` must ascend")


@dataclass(frozen=True)
class Recording:
    """Observations of a run.

    Attributes:
        cycles: number of simulated cycles.
        fires: by engine, the cycles in which it fired, ascending.
        cycles_of: by stream (sources, sinks and probes), the cycle of every transfer.
        tokens: by stream, (transfers, lanes) int64.
        finished: every sink got the expected tokens.
        deadlocked: the run was given up after ``patience`` quiet cycles.
        valid, ready: by stream, the state in the last cycle; it shows who waits for whom.
    """

    cycles: int
    fires: dict[str, np.ndarray]
    cycles_of: dict[str, np.ndarray]
    tokens: dict[str, np.ndarray]
    finished: bool
    deadlocked: bool = False
    valid: dict[str, bool] = field(default_factory=dict)
    ready: dict[str, bool] = field(default_factory=dict)


RESET_CYCLES = 2  # reset is high for this many cycles in every run


class Simulator(Protocol):
    """Compiled or interpreted circuit. Every run starts from reset.

    Attributes:
        name: name of the engine.
        verilog: the Verilog that yosys wrote of the circuit; empty without yosys.
    """

    name: str

    @property
    def verilog(self) -> str: ...

    def run(self, stimulus: Stimulus) -> Recording: ...


@runtime_checkable
class BatchSimulator(Simulator, Protocol):
    """Simulator of several runs at once, at most ``at_once``."""

    at_once: int

    def run_together(self, stimuli: Sequence[Stimulus]) -> list[Recording]: ...


class Windows(Protocol):
    """Runs under way, which are recorded window by window."""

    def limit(self, run: int, cycles: int) -> None:
        """End a run at another cycle than its stimulus says."""

    def advance(self, cycles: int) -> bool:
        """Simulate some cycles; return whether a run goes on."""

    def recording(self, run: int) -> Recording:
        """Return what was recorded of a run since the last call, and forget it; ``cycles`` counts from its begin."""


@runtime_checkable
class WindowedSimulator(BatchSimulator, Protocol):
    """Simulator whose recordings need not be kept whole."""

    def windows(self, stimuli: Sequence[Stimulus]) -> AbstractContextManager[Windows]: ...


def runs_at_once(simulator: Simulator) -> int:
    """Return the number of runs that a simulator takes at once."""
    return simulator.at_once if isinstance(simulator, BatchSimulator) else 1


def run_together(simulator: Simulator, stimuli: Sequence[Stimulus]) -> list[Recording]:
    """Simulate one run for each stimulus, several at once if the simulator can."""
    if not isinstance(simulator, BatchSimulator):
        return [simulator.run(stimulus) for stimulus in stimuli]
    groups = (stimuli[k : k + simulator.at_once] for k in range(0, len(stimuli), simulator.at_once))
    return [recording for group in groups for recording in simulator.run_together(group)]


def _check_names(what: str, names: Collection[str], streams: tuple[Stream, ...]) -> None:
    expected = {stream.name for stream in streams}
    if set(names) != expected:
        raise ValueError(f"`{what}` must be given for exactly {sorted(expected)}, not {sorted(names)}")
