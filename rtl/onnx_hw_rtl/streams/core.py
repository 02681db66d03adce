"""Base of all cores: stream ports, one outbox per output, and one ``fires`` bit per engine for the test bench."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from amaranth.hdl import Cat, Module
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from onnx_hw_rtl.parts.constant_memory import FixedConstants, LoadedConstants
from onnx_hw_rtl.parts.delay_line import delayed
from onnx_hw_rtl.streams.engine import Engine
from onnx_hw_rtl.streams.outbox import Outbox


class Core(Component):
    """Base class of the cores.

    Args:
        inputs: payload shape by port name.
        outputs: (payload shape, FIFO depth) by port name.
        engines: names of the engines, in the order of the bits of ``fires``.
        ports: further ports, beside the streams.

    Attributes:
        outbox_type: class of the outbox behind every output. Tests replace it to break all cores on purpose, as they do
            with the methods of ``Engine`` and ``Outbox`` under "the seam".
        constants: source of the memories of its constants.
    """

    outbox_type: ClassVar[type[Outbox]] = Outbox

    def __init__(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, tuple[Any, int]],
        engines: tuple[str, ...],
        ports: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.engines = engines
        self.constants = FixedConstants()
        self.outboxes = {name: self.outbox_type(shape, depth) for name, (shape, depth) in outputs.items()}
        super().__init__(
            {
                **{name: In(stream.Signature(shape)) for name, shape in inputs.items()},
                **{name: Out(stream.Signature(shape)) for name, (shape, _) in outputs.items()},
                "fires": Out(len(engines)),
                **ports,
            }
        )

    def store(self, *, deepest_at_once: int) -> None:
        """Let FIFOs with more tokens than this lie in block RAM. Call this before the core is elaborated."""
        for outbox in self.outboxes.values():
            outbox.deepest_at_once = deepest_at_once

    def load_from(self, constants: LoadedConstants) -> None:
        """Take the constants from memories that are loaded. Call this before the core is elaborated."""
        self.constants = constants

    def lengthen(self, output: str, *, visible_after: int, credit_return: int) -> None:
        """Let the consumer of an output be further away than a neighbour. Call this before the core is elaborated.

        Args:
            visible_after: V of the firing law.
            credit_return: cycles from a pop until its place may be reserved again.
        """
        outbox = self.outboxes[output]
        outbox.forward, outbox.back = visible_after - outbox.visible_after, credit_return - 1
        if min(outbox.forward, outbox.back) < 0:
            least = outbox.visible_after
            raise ValueError(
                f"V must be {least} cycles or more and a credit must return after 1 or more, as for a neighbour, "
                f"not {visible_after} and {credit_return}"
            )

    def begin(self) -> Module:
        """Return a module in which every outbox drives its port."""
        m = Module()
        for name, outbox in self.outboxes.items():
            m.submodules[f"outbox_{name}"] = outbox
            connect(m, outbox.o, flipped(getattr(self, name)))
        return m

    def arrives(self, m: Module, output: str, latency: int) -> None:
        """Let the token of an operation reach the outbox ``latency`` cycles, 1 or more, after it fired."""
        outbox = self.outboxes[output]
        outbox.foretold = True
        m.d.comb += outbox.write_next.eq(delayed(m, outbox.reserve, latency - 1, "write", strobe=True))
        m.d.comb += outbox.write.eq(delayed(m, outbox.write_next, 1, "written", strobe=True))

    def report(self, m: Module, *engines: Engine) -> None:
        """Show when the engines fire."""
        if tuple(engine.name for engine in engines) != self.engines:
            raise ValueError(f"the engines must be {self.engines}, not {tuple(engine.name for engine in engines)}")
        m.d.comb += self.fires.eq(Cat(*(engine.fire for engine in engines)))
