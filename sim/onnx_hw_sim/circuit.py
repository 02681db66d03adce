"""What a simulation needs to know about a circuit: its streams, its probes, its engines. Nothing about operators."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from onnx_hw_sim.payload import MAX_BITS, check_range

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Stream:
    """A stream visible at the circuit's top as ``{name}_payload`` (``lanes * bits`` wide), ``{name}_valid`` and
    ``{name}_ready``. Lane 0 sits in the lowest bits.
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
    """A circuit with module name ``top``, ports ``clk``, ``rst``, the streams below and ``fires``.

    Attributes:
        rtlil: the text of the netlist.
        sources: streams into the circuit (payload and valid are its inputs).
        sinks: streams out of it (ready is an input).
        probes: inner streams; all three signals are outputs of the circuit.
        engines: bit k of ``fires`` is high in each cycle in which engine k fires.
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
    """What the outside does. Cycle 0 is the first cycle with reset low, everywhere in the circuit.

    Attributes:
        tokens: per source, (tokens, lanes) int64.
        offers: per source, (tokens,) int64 ascending: the cycle from which token j is offered and held.
        ready: per sink, bool trace; after its end the sink is always ready.
        expected: per sink, how many tokens end the simulation.
        cycles: hard limit.
        patience: cycles without a single firing or transfer, with work still to do, after which it is called a
            deadlock. Cycles in which a source waits for its next offer or a sink refuses do not count.
        tail: cycles to go on after the last expected token, so that surplus tokens and firings are seen.
        false_start: cycles of this same stimulus before the reset, not recorded: no state may leak through it.
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
        _same_names("tokens", self.tokens, circuit.sources)
        _same_names("offers", self.offers, circuit.sources)
        _same_names("ready", self.ready, circuit.sinks)
        _same_names("expected", self.expected, circuit.sinks)
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
    """What was seen.

    Attributes:
        cycles: how many were simulated.
        fires: per engine, the cycles in which it fired, ascending.
        cycles_of: per stream (sources, sinks and probes), the cycle of every transfer.
        tokens: per stream, (transfers, lanes) int64.
        finished: every sink got what was expected.
        deadlocked: it was given up after ``patience`` quiet cycles.
        valid, ready: per stream, the state in the last cycle: who waits for whom.
    """

    cycles: int
    fires: dict[str, np.ndarray]
    cycles_of: dict[str, np.ndarray]
    tokens: dict[str, np.ndarray]
    finished: bool
    deadlocked: bool = False
    valid: dict[str, bool] = field(default_factory=dict)
    ready: dict[str, bool] = field(default_factory=dict)


RESET_CYCLES = 2  # how long every run holds reset


class Simulator(Protocol):
    """A compiled or interpreted circuit. Every run starts from reset. ``verilog``: what yosys wrote of it, or empty."""

    name: str

    @property
    def verilog(self) -> str: ...

    def run(self, stimulus: Stimulus) -> Recording: ...


@runtime_checkable
class TakesSeveral(Simulator, Protocol):
    """A simulator of several runs at once; ``at_once``: how many at most."""

    at_once: int

    def run_together(self, stimuli: Sequence[Stimulus]) -> list[Recording]: ...


def runs_at_once(simulator: Simulator) -> int:
    """How many runs a simulator takes at once."""
    return simulator.at_once if isinstance(simulator, TakesSeveral) else 1


def run_together(simulator: Simulator, stimuli: Sequence[Stimulus]) -> list[Recording]:
    """A run for each stimulus, as many at once as the simulator takes."""
    if not isinstance(simulator, TakesSeveral):
        return [simulator.run(stimulus) for stimulus in stimuli]
    groups = (stimuli[k : k + simulator.at_once] for k in range(0, len(stimuli), simulator.at_once))
    return [recording for group in groups for recording in simulator.run_together(group)]


def _same_names(what: str, given: Collection[str], streams: tuple[Stream, ...]) -> None:
    wanted = {stream.name for stream in streams}
    if set(given) != wanted:
        raise ValueError(f"`{what}` must be given for exactly {sorted(wanted)}, not {sorted(given)}")
