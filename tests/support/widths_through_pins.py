"""Integers of any width through the simulated pins of a chip that returns them: by UART and SPI, by driver and C."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

from onnx_hw.assemble.elaborate import to_rtlil
from onnx_hw_boards.board_link import BoardLink
from onnx_hw_boards.links.spi import Spi
from onnx_hw_boards.links.uart import Uart
from onnx_hw_link.chip import Chip
from onnx_hw_link.frames import in_turns, out_of_turns
from onnx_hw_link.link import Link, LinkPort
from onnx_hw_link.transport import TRANSPORTS
from onnx_hw_rtl.shells.shell import Shell
from onnx_hw_sim.serial_line import SerialChip
from onnx_hw_sim.spi_bus import SpiChip
from support.c_driver import Io, SessionInC

CLOCK_MHZ = 60.0
LINKS: dict[str, BoardLink] = {"uart": Uart(12_000_000), "spi": Spi(15_000_000)}
BEATS, WIDTH = 7, 3
FRAMES = 12


class Echo(Component):
    """A network that returns each beat, through one register."""

    def __init__(self, link: Link) -> None:
        ((a,), (b,)), size = (link.inputs, link.outputs), WIDTH * link.inputs[0].bits
        self.names = a.name, b.name
        there = {f"{a.name}_payload": In(size), f"{a.name}_valid": In(1), f"{a.name}_ready": Out(1)}
        super().__init__({**there, f"{b.name}_payload": Out(size), f"{b.name}_valid": Out(1), f"{b.name}_ready": In(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        (a, valid, ready), (b, full, taken) = (
            tuple(getattr(self, f"{name}_{part}") for part in ("payload", "valid", "ready")) for name in self.names
        )
        held, there = Signal(len(a)), Signal()
        m.d.comb += [ready.eq(~there), full.eq(there), b.eq(held)]
        with m.If(valid & ready):
            m.d.sync += [held.eq(a), there.eq(1)]
        with m.If(full & taken):
            m.d.sync += there.eq(0)
        return m


def wrong_integers(kind: str, bits: int, signed: bool, folder: Path) -> dict[str, int]:
    """Return how many integers did not come back, of ``FRAMES`` frames, by host: ``driver`` and ``c``."""
    a, b = (LinkPort(name, BEATS, WIDTH, bits, signed) for name in ("a", "b"))
    link, wires = Link(bytes(range(16)), (a,), (b,), round(CLOCK_MHZ * 1e6)), LINKS[kind]
    rtlil = to_rtlil(Shell(wires.shell(Echo(link), link, CLOCK_MHZ)))
    low = -(1 << (bits - 1)) if signed else 0
    values = np.random.default_rng(bits).integers(low, low + (1 << bits), (FRAMES, BEATS, WIDTH))
    values[0], values[1] = low, low + (1 << bits) - 1
    return {
        "driver": _by_driver(wires, link, rtlil, values, folder),
        "c": _by_c(wires, link, rtlil, values, folder),
    }


def _by_driver(wires: BoardLink, link: Link, rtlil: str, values: np.ndarray, folder: Path) -> int:
    transport = TRANSPORTS[wires.kind](wires.bits_per_second)
    sent = [in_turns(link.inputs, link.input_turns, [beats]) for beats in values]
    with (
        wires.simulated_port(rtlil, CLOCK_MHZ, folder) as port,
        Chip(port.path, baud=wires.bits_per_second, digest=link.digest, timeout=60, transport=transport) as chip,
    ):
        came = [out_of_turns(link.outputs, link.output_turns, result.beats)[0] for result in chip.stream(sent)]
    return int((np.array(came) != values).sum())


def _by_c(wires: BoardLink, link: Link, rtlil: str, values: np.ndarray, folder: Path) -> int:
    session, (port,), wrong = SessionInC(link), link.inputs, 0
    chip, move, now = _wire(wires, rtlil, folder)
    io = Io.of(move, now)
    assert session.c.open_wire(session.handle, ctypes.byref(io), 3, 1500) == 0
    for frame in values:
        data, out = ctypes.create_string_buffer(link.input_bytes), ctypes.create_string_buffer(link.output_bytes)
        for k, n in enumerate(frame.reshape(-1)):
            session.c.there_and_back(data, k * port.bits, int(n), port.bits, int(port.signed))
        assert session.c.run_frame(session.handle, ctypes.byref(io), data, out, 1500) == 0
        came = [session.c.get(out, k * port.bits, port.bits, int(port.signed)) for k in range(frame.size)]
        wrong += int((np.array(came) != frame.reshape(-1)).sum())
    chip.close()
    return wrong


def _wire(
    wires: BoardLink, rtlil: str, folder: Path
) -> tuple[SerialChip | SpiChip, Callable[[bytes], bytes], Callable[[], float]]:
    """Return the chip, a function that moves bytes both ways, and a clock in milliseconds."""
    per_ms = CLOCK_MHZ * 1000
    if isinstance(wires, Spi):
        spi = SpiChip(rtlil, CLOCK_MHZ * 1e6 / wires.sck_hz, folder)
        return spi, lambda to: spi.exchange(to or bytes(32)), lambda: spi.cycle / per_ms
    assert isinstance(wires, Uart)
    divider, waiting = wires.divider(CLOCK_MHZ), list[int]()
    uart = SerialChip(rtlil, divider, folder)

    def move(to: bytes) -> bytes:
        waiting.extend(to)
        begun, came = uart.run(100 * divider, waiting)
        del waiting[:begun]
        return came

    return uart, move, lambda: uart.cycle / per_ms
