"""Outermost module on a board: its clock, a reset after configuration, and the pads of its link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, Const, Elaboratable, Fragment, Module, ResetSignal, Signal, Value
from amaranth.lib import io

from onnx_hw_rtl.parts.lfsr_counter import next_state, state_after, width_for
from onnx_hw_rtl.target import PllSetting, Target

__all__ = ["BoardTop", "hold_reset"]


class BoardTop(Elaboratable):
    """Circuit on a platform of Amaranth's. It belongs to the domain ``sync`` and has the ports of a link.

    The circuit is in reset for ``reset_cycles`` cycles after the chip's configuration and after the PLL has locked;
    also while the platform's own reset button, if it has one, is pressed.

    Args:
        circuit: becomes the submodule ``shell``, for example a ``UartShell``.
        target: the target for which it is elaborated.
        link: name and number of the platform's resource that has the pads.
        ports: directions, i or o, of the ports of the circuit, which are subsignals of that resource.
        setting: setting of the PLL between the platform's clock and ``sync``; None without a PLL.
        reset_cycles: least number of cycles in reset.
        flash: name and number of the resource of a flash that the circuit reads; None where it reads none.
        alarm: the name and number of an LED that shows that the memory holds wrong weights; None without one.
        sdram: those of an SDRAM that the circuit reads, too; None where it reads none.
        falling: whether the input registers behind the pins of an SDRAM take data at the falling edge of the clock.
    """

    def __init__(
        self,
        circuit: Any,
        target: Target,
        *,
        link: tuple[str, int],
        ports: Mapping[str, str],
        setting: PllSetting | None,
        reset_cycles: int,
        flash: tuple[str, int] | None = None,
        alarm: tuple[str, int] | None = None,
        sdram: tuple[str, int] | None = None,
        falling: bool = False,
    ) -> None:
        self.circuit, self.target, self.link, self.ports = circuit, target, link, ports
        self.setting, self.reset_cycles, self.flash, self.alarm = setting, reset_cycles, flash, alarm
        self.sdram, self.falling = sdram, falling

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.shell = _Retargeted(self.target, self.circuit)
        clock, locked = self._clock(m, platform)
        asleep = Signal()
        m.domains.sync = ClockDomain()
        m.domains.board = ClockDomain(reset_less=True)
        m.d.comb += [ClockSignal("sync").eq(clock), ClockSignal("board").eq(clock)]
        if platform.default_rst is not None:
            m.submodules.button = button = io.Buffer("i", platform.request(platform.default_rst, dir="-"))
            m.d.comb += asleep.eq(~locked | button.i)
        else:
            m.d.comb += asleep.eq(~locked)
        hold_reset(m, asleep, self.reset_cycles)

        pads = platform.request(*self.link, dir="-")
        for name, direction in self.ports.items():
            m.submodules[name] = buffer = io.Buffer(direction, getattr(pads, name))
            port = getattr(self.circuit, name)
            m.d.comb += port.eq(buffer.i) if direction == "i" else buffer.o.eq(port)
        if self.flash is not None:
            self._connect_flash(m, platform.request(*self.flash, dir="-"))
            if self.alarm is not None:
                m.submodules.alarm = led = io.Buffer("o", platform.request(*self.alarm, dir="-"))
                m.d.comb += led.o.eq(self.circuit.weights_bad)
        if self.sdram is not None:
            self._connect_sdram(m, platform.request(*self.sdram, dir="-"))
        return m

    def _connect_sdram(self, m: Module, pads: Any) -> None:
        """Connect the reader of an SDRAM, whose clock is the inverted one of ``sync``; input registers are here.

        Pins that a board ties to a level have no pads.
        """
        circuit = self.circuit
        m.submodules.sdram_clock = clock = io.DDRBuffer("o", pads.clk)
        m.d.comb += [clock.o[0].eq(0), clock.o[1].eq(1)]
        driven = dict(zip(("ras", "cas", "we"), ~circuit.sdram_command, strict=True))
        driven |= {"cs": Const(1), "clk_en": circuit.sdram_cke, "dqm": Const(0, 4)}
        driven |= {"ba": circuit.sdram_ba, "a": circuit.sdram_a}
        for name, value in driven.items():
            if hasattr(pads, name):
                m.submodules[f"sdram_{name}"] = buffer = io.Buffer("o", getattr(pads, name))
                m.d.comb += buffer.o.eq(value)
        m.submodules.sdram_dq = data = io.Buffer("io", pads.dq)
        came = Signal(len(circuit.sdram_dq_i))
        if self.falling:
            m.domains.falling = falling = ClockDomain(clk_edge="neg", reset_less=True, local=True)
            m.d.comb += falling.clk.eq(ClockSignal("sync"))
            early = Signal.like(came)
            m.d.falling += early.eq(data.i)
            m.d.board += came.eq(early)
        else:
            m.d.board += came.eq(data.i)
        m.d.comb += [
            data.o.eq(circuit.sdram_dq_o),
            data.oe.eq(circuit.sdram_dq_oe),
            circuit.sdram_dq_i.eq(came),
        ]

    def _connect_flash(self, m: Module, pads: Any) -> None:
        """Connect the reader of a flash. Its clock has a pad of the resource, or one that only a primitive reaches."""
        circuit, prefix = self.circuit, "flash" if self.sdram is None else "sdram_flash"

        def of(name: str) -> Any:
            return getattr(circuit, f"{prefix}_{name}")

        m.submodules.flash_select = select = io.Buffer("o", pads.cs)
        m.d.comb += select.o.eq(~of("cs_n"))
        if hasattr(pads, "clk"):
            m.submodules.flash_clock = clock = io.Buffer("o", pads.clk)
            m.d.comb += clock.o.eq(of("sck"))
        elif self.target.primitives.configuration_clock is not None:
            m.submodules.flash_clock = self.target.primitives.configuration_clock(of("sck"))
        else:
            raise ValueError("the clock of the flash must have a pad, or a primitive that reaches it")
        for bit, name in enumerate(("copi", "cipo", "wp", "hold")):
            pad = getattr(pads, name)
            m.submodules[f"flash_{name}"] = data = io.Buffer("io", with_direction(pad))
            m.d.comb += [
                data.o.eq(of("dq_o")[bit]),
                data.oe.eq(of("dq_oe")[bit]),
                of("dq_i")[bit].eq(data.i),
            ]

    def _clock(self, m: Module, platform: Any) -> tuple[Value, Value]:
        """Return the clock of ``sync``, and whether it is stable."""
        pad = platform.request(platform.default_clk, dir="-")
        if self.setting is None:
            m.submodules.oscillator = oscillator = io.Buffer("i", pad)
            return oscillator.i, Const(1)
        pll = self.target.primitives.pll
        if pll is None:
            raise ValueError("the chip family has no PLL")
        return pll(m, pad, self.setting)


def hold_reset(m: Module, asleep: Signal, cycles: int) -> None:
    """Hold ``sync`` in reset for some cycles after something was asleep, by a flip-flop of the domain ``board``.

    It starts as 1, as its counter starts from 0, in every family.
    """
    awake = Signal(2)
    count = Signal(width_for(cycles + 1))  # state of an LFSR
    reset, enough = Signal(init=1), count == state_after(cycles, len(count))
    m.d.board += [awake.eq(awake << 1 | ~asleep), reset.eq(~enough)]
    with m.If(~enough):
        m.d.board += count.eq(next_state(count))
    with m.If(~awake[1]):
        m.d.board += count.eq(0)
    m.d.comb += ResetSignal("sync").eq(reset)


def with_direction(pad: Any) -> Any:
    """Return a pad that drives in both directions, whatever a platform uses it for, and inverts nothing."""
    return io.SingleEndedPort(pad.io, invert=False, direction="io")


class _Retargeted(Elaboratable):
    """Circuit for a target of ours inside a circuit for a platform of Amaranth's."""

    def __init__(self, target: Target, circuit: Any) -> None:
        self.target, self.circuit = target, circuit

    def elaborate(self, platform: Any) -> Fragment:
        return Fragment.get(self.circuit, self.target)
