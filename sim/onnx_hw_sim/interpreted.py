"""Slow engine: Amaranth's simulator, for machines without a C++ compiler. It does a few thousand cycles per second."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate

from amaranth.hdl import Cat, ClockDomain, Module, Signal, Value
from amaranth.lib.wiring import Component
from amaranth.sim import Simulator as AmaranthSimulator

from onnx_hw_sim.circuit import RESET_CYCLES, Circuit, Recording, Stimulus
from onnx_hw_sim.environment import Environment


class InterpretedSimulator:
    """Circuit in Amaranth's simulator. It gives the same ``Recording`` as ``CompiledSimulator``, value for value.

    Args:
        circuit: its streams and engines; its netlist is not used.
        component: the component from which the netlist was made, with the ports ``{stream}_payload``, ``_valid``,
            ``_ready`` and ``fires``.
    """

    name = "interpreted"
    verilog = ""
    at_once = 1

    def __init__(self, circuit: Circuit, component: Component):
        self.circuit = circuit
        self._environment: Environment | None = None

        def ports(*names: str) -> list[Value]:
            return [Value.cast(getattr(component, name)) for name in names]

        m = Module()
        m.domains.sync = domain = ClockDomain()
        m.submodules.top = component
        self._rst = domain.rst
        streams = (*circuit.sources, *circuit.sinks, *circuit.probes)
        self._payloads = ports(*(f"{stream.name}_payload" for stream in streams))
        # One signal for all inputs and one for all observed outputs: each access to the simulator costs time.
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

    def run(self, stimulus: Stimulus, *, progress: Callable[[int], None] | None = None) -> Recording:
        """Simulate from reset. ``progress`` is called now and then with the number of simulated cycles.

        Raises:
            ValueError: the stimulus does not fit the circuit.
        """
        environment = self._begin(stimulus, progress)
        self._simulator.run()
        return environment.recording()

    def run_together(self, stimuli: Sequence[Stimulus]) -> list[Recording]:
        """Simulate runs, one after the other; see ``run``."""
        return [self.run(stimulus) for stimulus in stimuli]

    @contextmanager
    def windows(self, stimuli: Sequence[Stimulus]) -> Iterator[InterpretedWindows]:
        """Begin one run from reset that is recorded in windows of cycles; raise as ``run``."""
        (stimulus,) = stimuli
        yield InterpretedWindows(self._simulator, self._begin(stimulus, None))

    def _begin(self, stimulus: Stimulus, progress: Callable[[int], None] | None) -> Environment:
        stimulus.check(self.circuit)
        if self._environment is not None:
            self._simulator.reset()
        else:  # not earlier: a simulator that never runs would leave its coroutine unawaited
            self._simulator.add_testbench(self._testbench)
        self._environment = Environment(self.circuit, stimulus, progress)
        return self._environment

    async def _testbench(self, context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        environment = self._environment
        assert environment is not None
        await self._reset(context, environment)
        if environment.stimulus.false_start:
            for _ in range(environment.stimulus.false_start):
                await self._cycle(context, environment)
            environment.begin()
            await self._reset(context, environment)
        while not environment.ended:
            await self._cycle(context, environment)

    async def _reset(self, context, environment: Environment) -> None:  # type: ignore[no-untyped-def]
        context.set(self._rst, 1)
        context.set(self._drive, environment.inputs(in_reset=True))
        for _ in range(RESET_CYCLES):
            await context.tick()
        context.set(self._rst, 0)
        for _ in range(self.circuit.reset_delay):
            await context.tick()

    async def _cycle(self, context, environment: Environment) -> None:  # type: ignore[no-untyped-def]
        context.set(self._drive, environment.inputs())
        environment.observe(context.get(self._seen), lambda k: context.get(self._payloads[k]))
        await context.tick()


class InterpretedWindows:
    """Run that is under way; see ``circuit.Windows``."""

    def __init__(self, simulator: AmaranthSimulator, environment: Environment) -> None:
        self._simulator, self._environment = simulator, environment

    def limit(self, run: int, cycles: int) -> None:
        """End the run, number 0, at another cycle than its stimulus says."""
        del run
        self._environment.limit = cycles

    def advance(self, cycles: int) -> bool:
        """Simulate some cycles; return whether the run goes on."""
        until = self._environment.cycle + cycles
        while self._environment.cycle < until and self._simulator.advance():
            pass
        return not self._environment.ended

    def recording(self, run: int) -> Recording:
        """Return what was recorded of the run, number 0, since the last call, and forget it."""
        del run
        recording = self._environment.recording()
        self._environment.forget()
        return recording
