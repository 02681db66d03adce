"""Environment of a run cycle by cycle in Python, for the engines that have no driver in C++."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnx_hw_sim.circuit import Circuit, Recording, Stimulus
from onnx_hw_sim.payload import idle, pack, unpack


class Environment:
    """Sources and sinks of one run, and its recording: the loop of ``driver.cpp`` in Python."""

    def __init__(self, circuit: Circuit, stimulus: Stimulus, progress: Callable[[int], None] | None = None):
        self.circuit = circuit
        self.stimulus = stimulus
        self.progress = progress
        self.streams = (*circuit.sources, *circuit.sinks, *circuit.probes)
        self.ends = len(circuit.sources) + len(circuit.sinks)
        self.tokens = [[_number(row) for row in pack(stimulus.tokens[s.name], s.bits)] for s in circuit.sources]
        self.idle = [_number(idle(s.lanes, s.bits)) for s in circuit.sources]
        self.offers = [stimulus.offers[s.name].tolist() for s in circuit.sources]
        self.ready = [stimulus.ready[s.name].reshape(-1).tolist() for s in circuit.sinks]
        self.expected = [stimulus.expected[s.name] for s in circuit.sinks]
        self.limit = stimulus.cycles
        self.begin()

    def begin(self) -> None:
        """Reset the recording, because reset was applied to the circuit."""
        self.cycle = 0
        self.quiet = 0
        self.tail = self.stimulus.tail if not any(self.expected) else -1
        self.held_back = False
        self.valid = self.readies = 0
        self.taken = [0] * self.ends
        self.forget()

    def forget(self) -> None:
        """Forget what was recorded so far; the run goes on."""
        self.since = self.cycle
        self.fires: list[int] = []
        self.cycles_of: list[list[int]] = [[] for _ in self.streams]
        self.payloads: list[list[int]] = [[] for _ in self.streams]

    @property
    def finished(self) -> bool:
        return self.tail >= 0 and (self.tail == 0 or self.cycle >= self.limit)

    @property
    def deadlocked(self) -> bool:
        return self.tail < 0 and self.quiet >= self.stimulus.patience

    @property
    def ended(self) -> bool:
        return self.finished or self.deadlocked or self.cycle >= self.limit

    def driven(self, in_reset: bool = False) -> tuple[list[int], int, int]:
        """Return the inputs in this cycle: payloads and valids of the sources, readies of the sinks, one bit each."""
        self.held_back = False
        payloads, valids, readies = [], 0, 0
        for k, tokens in enumerate(self.tokens):
            taken = self.taken[k]
            left = taken < len(tokens)
            valid = left and self.offers[k][taken] <= self.cycle and not in_reset
            self.held_back |= left and not valid
            valids |= valid << k
            payloads.append(tokens[taken] if valid else self.idle[k])
        for k, trace in enumerate(self.ready):
            ready = (self.cycle >= len(trace) or trace[self.cycle]) and not in_reset
            self.held_back |= not ready
            readies |= ready << k
        return payloads, valids, readies

    def inputs(self, in_reset: bool = False) -> int:
        """Return the same values side by side, payloads in the lowest bits."""
        payloads, valids, readies = self.driven(in_reset)
        word = position = 0
        for payload, source in zip(payloads, self.circuit.sources, strict=True):
            word |= payload << position
            position += source.width
        return word | valids << position | readies << (position + len(self.tokens))

    def observe(self, seen: int, payload_of: Callable[[int], int]) -> None:
        """Record one cycle and decide whether it is the last.

        Args:
            seen: the outputs in this cycle: valid of every stream, and ready above them, one bit each.
            payload_of: returns the payload of a stream by its number.
        """
        ones = (1 << len(self.streams)) - 1
        self.valid, self.readies = seen & ones, (seen >> len(self.streams)) & ones
        fires = seen >> (2 * len(self.streams))
        self.fires.append(fires)
        transfers = self.valid & self.readies
        for k in range(len(self.streams)):
            if transfers >> k & 1:
                self.cycles_of[k].append(self.cycle)
                self.payloads[k].append(payload_of(k))
                if k < self.ends:
                    self.taken[k] += 1
        self.cycle += 1
        if self.tail > 0:
            self.tail -= 1
        elif self._satisfied():
            self.tail = self.stimulus.tail
        elif fires or transfers:
            self.quiet = 0
        elif not self.held_back:
            self.quiet += 1
        if self.progress is not None and self.cycle % 1000 == 0:
            self.progress(self.cycle)

    def _satisfied(self) -> bool:
        taken = self.taken[len(self.tokens) :]
        return all(count >= expected for count, expected in zip(taken, self.expected, strict=True))

    def recording(self) -> Recording:
        """Return what was recorded and not forgotten."""
        names = [stream.name for stream in self.streams]
        tokens = {}
        for stream, payloads in zip(self.streams, self.payloads, strict=True):
            width = -(-stream.width // 8)
            rows = b"".join(payload.to_bytes(width, "little") for payload in payloads)
            array = np.frombuffer(rows, dtype=np.uint8).reshape(len(payloads), width)
            tokens[stream.name] = unpack(array, stream.lanes, stream.bits, stream.signed)
        return Recording(
            cycles=self.cycle,
            fires={
                engine: np.array(
                    [t for t, fires in enumerate(self.fires, self.since) if fires >> k & 1], dtype=np.int64
                )
                for k, engine in enumerate(self.circuit.engines)
            },
            cycles_of={name: np.array(c, dtype=np.int64) for name, c in zip(names, self.cycles_of, strict=True)},
            tokens=tokens,
            finished=self.finished,
            deadlocked=self.deadlocked,
            valid={name: bool(self.valid >> k & 1) for k, name in enumerate(names)},
            ready={name: bool(self.readies >> k & 1) for k, name in enumerate(names)},
        )


def _number(row: np.ndarray) -> int:
    return int.from_bytes(row.tobytes(), "little")
