"""Integers of any width through the simulated pins of a chip that returns them: by UART and SPI, by driver and C."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
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
    """A network that returns each beat of each stream, through one register."""

    def __init__(self, link: Link) -> None:
        self.link = link
        ports: dict[str, object] = {}
        for side, there, back in ((link.inputs, In, Out), (link.outputs, Out, In)):
            for port in side:
                ports |= {f"{port.name}_payload": there(port.beat_bits), f"{port.name}_valid": there(1)}
                ports[f"{port.name}_ready"] = back(1)
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for into, out in zip(self.link.inputs, self.link.outputs, strict=True):
            (a, valid, ready), (b, full, taken) = (
                tuple(getattr(self, f"{name}_{part}") for part in ("payload", "valid", "ready"))
                for name in (into.name, out.name)
            )
            held, there = Signal(len(a), name=f"held_{into.name}"), Signal(name=f"there_{into.name}")
            m.d.comb += [ready.eq(~there), full.eq(there), b.eq(held)]
            with m.If(valid & ready):
                m.d.sync += [held.eq(a), there.eq(1)]
            with m.If(full & taken):
                m.d.sync += there.eq(0)
        return m


Kind = tuple[int, bool]
"""Width of an integer in bits, and whether it has a sign."""


def wrong_integers(wires: BoardLink, kinds: Sequence[Kind], folder: Path) -> dict[str, int]:
    """Return how many integers did not come back, of ``FRAMES`` frames, by host: ``driver`` and ``c``.

    Args:
        kinds: kinds of integers, each in a stream of its own; all streams share one chip.
    """
    sides = [tuple(LinkPort(f"{name}{k}", BEATS, WIDTH, *kind) for k, kind in enumerate(kinds)) for name in ("a", "b")]
    link = Link(bytes(range(16)), sides[0], sides[1], round(CLOCK_MHZ * 1e6), 2048, 2048)
    rtlil = to_rtlil(Shell(wires.shell(Echo(link), link, CLOCK_MHZ)))
    values = [_drawn(*kind) for kind in kinds]
    return {
        "driver": _by_driver(wires, link, rtlil, values, folder),
        "c": _by_c(wires, link, rtlil, values, folder),
    }


def _drawn(bits: int, signed: bool) -> np.ndarray:
    """Return (frames, beats, width) int64 of the whole range."""
    low = -(1 << (bits - 1)) if signed else 0
    values = np.random.default_rng(bits).integers(low, low + (1 << bits), (FRAMES, BEATS, WIDTH))
    values[0], values[1] = low, low + (1 << bits) - 1
    return values


def _by_driver(wires: BoardLink, link: Link, rtlil: str, values: Sequence[np.ndarray], folder: Path) -> int:
    transport = TRANSPORTS[wires.kind](wires.bits_per_second)
    sent = [in_turns(link.inputs, link.input_turns, [stream[k] for stream in values]) for k in range(FRAMES)]
    with (
        wires.simulated_port(rtlil, CLOCK_MHZ, folder) as port,
        Chip(port.path, baud=wires.bits_per_second, digest=link.digest, timeout=60, transport=transport) as chip,
    ):
        came = [out_of_turns(link.outputs, link.output_turns, result.beats) for result in chip.stream(sent)]
    return sum(int((frame[at] != stream[k]).sum()) for k, frame in enumerate(came) for at, stream in enumerate(values))


def _by_c(wires: BoardLink, link: Link, rtlil: str, values: Sequence[np.ndarray], folder: Path) -> int:
    session, wrong = SessionInC(link), 0
    chip, move, now = _wire(wires, rtlil, folder)
    io = Io.of(move, now)
    assert session.c.open_wire(session.handle, ctypes.byref(io), 3, 1500) == 0
    places: list[tuple[int, LinkPort]] = []
    for port in link.inputs:  # stream after stream
        at = places[-1][0] + places[-1][1].bits if places else 0
        places += [(at + k * port.bits, port) for k in range(BEATS * WIDTH)]
    for number in range(FRAMES):
        data, out = ctypes.create_string_buffer(link.input_bytes), ctypes.create_string_buffer(link.output_bytes)
        integers = [int(n) for stream in values for n in stream[number].reshape(-1)]
        for (at, port), n in zip(places, integers, strict=True):
            session.c.there_and_back(data, at, n, port.bits, int(port.signed))
        assert session.c.run_frame(session.handle, ctypes.byref(io), data, out, 1500) == 0
        came = [session.c.get(out, at, port.bits, int(port.signed)) for at, port in places]
        wrong += sum(a != b for a, b in zip(came, integers, strict=True))
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
