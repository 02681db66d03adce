"""The slow engine: Amaranth's own simulator, for machines without a C++ compiler. A few thousand cycles a second."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import numpy as np
from amaranth.hdl import Cat, ClockDomain, Module, Signal, Value
from amaranth.lib.wiring import Component
from amaranth.sim import Simulator as AmaranthSimulator

from onnx_hw_sim.circuit import RESET_CYCLES, Circuit, Recording, Stimulus
from onnx_hw_sim.payload import idle, pack, unpack


class InterpretedSimulator:
    """A circuit in Amaranth's simulator. Gives the same ``Recording`` as ``CompiledSimulator``, value for value.

    Args:
        circuit: its streams and engines; its netlist is not used.
        component: what the netlist was made from: ports ``{stream}_payload``, ``_valid``, ``_ready`` and ``fires``.
    """

    name = "interpreted"
    verilog = ""

    def __init__(self, circuit: Circuit, component: Component):
        self.circuit = circuit
        self._outside: _Outside | None = None

        def ports(*names: str) -> list[Value]:
            return [Value.cast(getattr(component, name)) for name in names]

        m = Module()
        m.domains.sync = domain = ClockDomain()
        m.submodules.top = component
        self._rst = domain.rst
        streams = (*circuit.sources, *circuit.sinks, *circuit.probes)
        self._payloads = ports(*(f"{stream.name}_payload" for stream in streams))
        # One signal for all inputs and one for all that is looked at: each access to the simulator costs its time.
        inputs = ports(*(f"{source.name}_payload" for source in circuit.sources))
        inputs += ports(*(f"{source.name}_valid" for source in circuit.sources))
        inputs += ports(*(f"{sink.name}_ready" for sink in circuit.sinks))
        self._drive = Signal(sum(map(len, inputs)))
        offsets = accumulate(map(len, inputs), initial=0)
        m.d.comb += [value.eq(self._drive[at:]) for value, at in zip(inputs, offsets, strict=False)]
        seen = ports(*(f"{stream.name}_valid" for stream in streams))
        seen += ports(*(f"{stream.name}_ready" for stream in streams))
        seen += ports("fires") if circuit.engines else []
        self._seen = Signal(sum(map(len, seen)))
        m.d.comb += self._seen.eq(Cat(*seen))

        self._simulator = AmaranthSimulator(m)
        self._simulator.add_clock(1e-6)
        self._simulator.add_testbench(self._testbench)

    def run(self, stimulus: Stimulus, *, progress: Callable[[int], None] | None = None) -> Recording:
        """Simulate from reset; ``progress`` is called now and then with the number of cycles done.

        Raises:
            ValueError: the stimulus does not fit the circuit.
        """
        stimulus.check(self.circuit)
        if self._outside is not None:  # resetting a simulator that never ran would leave its coroutine unawaited
            self._simulator.reset()
        self._outside = outside = _Outside(self.circuit, stimulus, progress)
        self._simulator.run()
        return outside.recording()

    async def _testbench(self, context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        outside = self._outside
        assert outside is not None
        await self._reset(context, outside)
        if outside.stimulus.false_start:
            for _ in range(outside.stimulus.false_start):
                await self._cycle(context, outside)
            outside.begin()
            await self._reset(context, outside)
        while not outside.ended:
            await self._cycle(context, outside)

    async def _reset(self, context, outside: _Outside) -> None:  # type: ignore[no-untyped-def]
        context.set(self._rst, 1)
        context.set(self._drive, outside.inputs(in_reset=True))
        for _ in range(RESET_CYCLES):
            await context.tick()
        context.set(self._rst, 0)
        for _ in range(self.circuit.reset_delay):
            await context.tick()

    async def _cycle(self, context, outside: _Outside) -> None:  # type: ignore[no-untyped-def]
        context.set(self._drive, outside.inputs())
        outside.observe(context.get(self._seen), lambda k: context.get(self._payloads[k]))
        await context.tick()


class _Outside:
    """Sources and sinks of one run, and what was seen: the loop of ``driver.cpp`` in Python."""

    def __init__(self, circuit: Circuit, stimulus: Stimulus, progress: Callable[[int], None] | None = None):
        self.circuit = circuit
        self.stimulus = stimulus
        self.progress = progress
        self.streams = (*circuit.sources, *circuit.sinks, *circuit.probes)
        self.ends = len(circuit.sources) + len(circuit.sinks)
        self.tokens = [[_number(row) for row in pack(stimulus.tokens[s.name], s.bits)] for s in circuit.sources]
        self.idle = [_number(idle(s.lanes, s.bits)) for s in circuit.sources]
        self.offers = [stimulus.offers[s.name].tolist() for s in circuit.sources]
        self.ready = [stimulus.ready[s.name].tolist() for s in circuit.sinks]
        self.expected = [stimulus.expected[s.name] for s in circuit.sinks]
        self.begin()

    def begin(self) -> None:
        """Forget everything: reset was applied."""
        self.cycle = 0
        self.quiet = 0
        self.tail = self.stimulus.tail if not any(self.expected) else -1
        self.held_back = False
        self.fires: list[int] = []
        self.valid = self.readies = 0
        self.cycles_of: list[list[int]] = [[] for _ in self.streams]
        self.payloads: list[list[int]] = [[] for _ in self.streams]

    @property
    def finished(self) -> bool:
        return self.tail >= 0 and (self.tail == 0 or self.cycle >= self.stimulus.cycles)

    @property
    def deadlocked(self) -> bool:
        return self.tail < 0 and self.quiet >= self.stimulus.patience

    @property
    def ended(self) -> bool:
        return self.finished or self.deadlocked or self.cycle >= self.stimulus.cycles

    def inputs(self, in_reset: bool = False) -> int:
        """All inputs of this cycle side by side: payloads and valids of the sources, readies of the sinks."""
        self.held_back = False
        word = position = valids = readies = 0
        for k, source in enumerate(self.circuit.sources):
            taken = len(self.cycles_of[k])
            left = taken < len(self.tokens[k])
            valid = left and self.offers[k][taken] <= self.cycle and not in_reset
            self.held_back |= left and not valid
            valids |= valid << k
            word |= (self.tokens[k][taken] if valid else self.idle[k]) << position
            position += source.width
        for k, trace in enumerate(self.ready):
            ready = (self.cycle >= len(trace) or trace[self.cycle]) and not in_reset
            self.held_back |= not ready
            readies |= ready << k
        return word | valids << position | readies << (position + len(self.tokens))

    def observe(self, seen: int, payload_of: Callable[[int], int]) -> None:
        """Record one cycle and decide whether it is the last."""
        ones = (1 << len(self.streams)) - 1
        self.valid, self.readies = seen & ones, (seen >> len(self.streams)) & ones
        fires = seen >> (2 * len(self.streams))
        self.fires.append(fires)
        transfers = self.valid & self.readies
        for k in range(len(self.streams)):
            if transfers >> k & 1:
                self.cycles_of[k].append(self.cycle)
                self.payloads[k].append(payload_of(k))
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
        taken = map(len, self.cycles_of[len(self.tokens) : self.ends])
        return all(count >= expected for count, expected in zip(taken, self.expected, strict=True))

    def recording(self) -> Recording:
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
                engine: np.array([t for t, fires in enumerate(self.fires) if fires >> k & 1], dtype=np.int64)
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
