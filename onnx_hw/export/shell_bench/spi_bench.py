"""Test bench of the network behind SPI, against golden frames; it needs only cocotb and numpy.

The controller sends one packet at a time and waits until the chip acknowledges it, which is the least that the protocol
asks of a host. ``frames.npz`` holds the bytes of frames, (frames, bytes), and which of them are used.
"""

from __future__ import annotations

import json
from binascii import crc_hqx
from pathlib import Path
from typing import Any

import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer

import cocotb

FOLDER = Path(__file__).parent
FACTS = json.loads((FOLDER / "shell.json").read_text()) if (FOLDER / "shell.json").exists() else {}
HALF_PERIOD_NS = 10  # of SCK: 50 MHz; the clock of the network is at 80 MHz
PROTOCOL = 2
HELLO, DATA, ACK = 1, 2, 3  # packets to the chip
GREETING, RESULT, TIMES = 0x81, 0x82, 9
DIGEST, SIZES = 1, 2  # fields of the greeting
MAX_IDLE_BYTES = 100_000  # bytes, or pauses of a byte, without a packet


def to_wire(packet: bytes) -> bytes:
    """Return a packet as it is sent: with a CRC, each run behind its length plus one, a zero at the end."""
    out = bytearray()
    for run in (packet + crc_hqx(packet, 0xFFFF).to_bytes(2, "big")).split(b"\0"):
        for at in range(0, len(run) // 254 * 254, 254):
            out += b"\xff" + run[at : at + 254]
        rest = run[len(run) // 254 * 254 :]
        out += bytes((len(rest) + 1,)) + rest
    return bytes(out) + b"\0"


def from_wire(wire: bytes) -> bytes:
    """Return the packet in what the chip sends, where each run stands before its length plus one."""
    runs: list[bytes] = []
    while wire:
        code = wire[-1]
        runs.append(wire[-code:-1] + (b"\0" if runs and code < 255 else b""))
        wire = wire[:-code]
    packet = b"".join(reversed(runs))
    assert crc_hqx(packet, 0xFFFF) == 0
    return packet[:-2]


def fields_of(data: bytes) -> dict[int, bytes]:
    """Return the fields of a greeting, by their first byte; the second byte of each is the length of the rest."""
    fields: dict[int, bytes] = {}
    while data:
        fields[data[0]] = data[2 : 2 + data[1]]
        data = data[2 + data[1] :]
    return fields


class Controller:
    """Controller of an SPI bus, mode 0: moves bytes both ways and collects packets from the chip."""

    def __init__(self, dut: Any) -> None:
        self.dut, self.wire, self.packets = dut, bytearray(), list[bytes]()

    async def move(self, byte: int) -> None:
        dut, back = self.dut, 0
        dut.cs_n.value = 0
        for bit in range(7, -1, -1):
            dut.copi.value = byte >> bit & 1
            await Timer(HALF_PERIOD_NS, "ns")
            back = back << 1 | int(dut.cipo.value)
            dut.sck.value = 1
            await Timer(HALF_PERIOD_NS, "ns")
            dut.sck.value = 0
        if back:
            self.wire.append(back)
        elif self.wire:
            self.packets.append(from_wire(bytes(self.wire)))
            self.wire.clear()

    async def send(self, packet: bytes) -> None:
        for byte in to_wire(packet):
            await self.move(byte)

    async def receive(self) -> bytes:
        """Return the next packet; clock bytes while ``irq`` is high."""
        for _ in range(MAX_IDLE_BYTES):
            if self.packets:
                return self.packets.pop(0)
            if self.dut.irq.value == 1:
                await self.move(0)
            else:
                self.dut.cs_n.value = 1
                await Timer(16 * HALF_PERIOD_NS, "ns")
        raise AssertionError("the chip sends no packet")


@cocotb.test()
async def frames_are_goldens(dut: Any) -> None:
    """Check the digest that the chip reports, and the results of every frame."""
    Clock(dut.clk, 12.5, unit="ns").start()
    dut.rst.value, dut.sck.value, dut.cs_n.value, dut.copi.value = 1, 0, 1, 0
    for _ in range(4):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    for _ in range(8):
        await RisingEdge(dut.clk)
    controller = Controller(dut)
    await controller.move(0)
    await controller.send(bytes((HELLO, 7, PROTOCOL)))
    greeting = await controller.receive()
    assert (greeting[0], greeting[2], greeting[4]) == (GREETING, 7, PROTOCOL)
    fields = fields_of(greeting[7:])
    assert fields[DIGEST][:16].hex() == FACTS["digest"]
    buffer = int.from_bytes(fields[SIZES][12:14], "little")
    unit = buffer // 128

    with np.load(FOLDER / "frames.npz") as file:
        frames, goldens, used = file["in"], file["out"], file["used_out"]
    size, per_packet = FACTS["output_bytes"], FACTS["result_bytes"]
    number = next_result = 0
    units = sent_bytes = 0  # units of bytes that have left the chip's buffer; bytes that went into it
    for k, frame in enumerate(frames):
        row, results, at = frame.tobytes(), bytearray(), 0
        while len(results) < size + TIMES:
            payload = row[at : at + min(200, buffer // 2)]
            if payload and sent_bytes + len(payload) + 2 - units * unit <= buffer:
                await controller.send(bytes((DATA, (7 + number) % 256, next_result % 256)) + payload)
                number, at, sent_bytes = number + 1, at + len(payload), sent_bytes + len(payload)
            while True:
                packet = await controller.receive()
                units += (packet[3] - units) % 256
                if packet[0] == RESULT:
                    assert packet[1] == next_result % 256
                    next_result += 1
                    results += packet[4 : 4 + per_packet]
                    await controller.send(bytes((ACK, 0, next_result % 256)))
                if packet[2] == (7 + number) % 256:
                    break
        differ = (np.frombuffer(bytes(results[:size]), np.uint8) ^ goldens[k]) & used
        assert not differ.any(), f"frame {k}, byte {differ.nonzero()[0][0]}"
