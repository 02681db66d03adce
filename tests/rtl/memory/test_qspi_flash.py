# amaranth: UnusedElaboratable=no
"""Flash reader against a model of the flash: bytes, cycles, timings of parts, and tapes that are not right."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.sim import Simulator

from onnx_hw.assemble.elaborate import to_rtlil
from onnx_hw_boards.memory import WeightMemory
from onnx_hw_link.flash_parts import PARTS, FlashFault, FlashPart
from onnx_hw_link.flash_tape import CRC_POLYNOMIAL, DIGEST_BYTES, FlashTiming, crc32, tape_image, whole_rows
from onnx_hw_rtl.link.endpoint import RESTART_CYCLES
from onnx_hw_rtl.memory.flash_model import FlashModel
from onnx_hw_rtl.memory.qspi_flash import QspiFlashReader
from onnx_hw_tools import tools

MEMORY = WeightMemory(bytes=1 << 24, offset=0x200000)
DIGEST = bytes(range(0x5A, 0x5A + DIGEST_BYTES))
PINS = (("sck", "sck"), ("cs_n", "cs_n"), ("dq_i", "dq_o"), ("dq_oe", "dq_oe"))
"""Pins of the model, and of the reader."""

QUICK = FlashPart(3.4, 3.4, 7.5, 50, 100, 6)
"""A part that wakes up soon, to save cycles."""


@dataclass(frozen=True)
class Reading:
    """What came: bytes, the cycle of each, the model's fault, and what the reader says in the end."""

    data: bytes
    cycles: np.ndarray
    fault: FlashFault
    bad: bool


def read(
    timing: FlashTiming,
    image: bytes,
    tape_bytes: int,
    *,
    passes: int = 2,
    part: FlashPart = QUICK,
    clock_mhz: float = 100,
    ready: np.ndarray | None = None,
) -> Reading:
    """Read for the cycles of some passes."""
    reader = QspiFlashReader(timing, address=MEMORY.offset, digest=DIGEST, tape_bytes=tape_bytes, depth=2)
    pads = MEMORY.pads_ns
    model = FlashModel(part, clock_mhz, base=MEMORY.offset, contents=list(image), pads_ns=pads)
    m = Module()
    m.submodules.reader, m.submodules.model = reader, model
    m.d.comb += [
        model.sck.eq(reader.sck),
        model.cs_n.eq(reader.cs_n),
        model.dq_i.eq(reader.dq_o),
        model.dq_oe.eq(reader.dq_oe),
        reader.dq_i.eq(model.dq_o),
    ]
    came, cycles, end = bytearray(), list[int](), list[int]()

    async def bench(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        for cycle in range(timing.once + passes * timing.pass_cycles(tape_bytes) + timing.latency + 2):
            takes = ready is None or bool(ready[cycle % len(ready)])
            context.set(reader.o.ready, takes)
            if takes and context.get(reader.o.valid):
                came.append(context.get(reader.o.payload.as_value()))
                cycles.append(cycle)
            await context.tick()
        end.extend([int(context.get(model.fault)), context.get(reader.bad)])

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return Reading(bytes(came), np.array(cycles), FlashFault(end[0]), bool(end[1]))


def random_tape(length: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, length, dtype=np.uint8).tobytes()


def quick(clock_mhz: float = 100) -> FlashTiming:
    return replace(MEMORY, wake_us=0.2).timing(clock_mhz)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("clock_mhz", [25, 48, 100, 133])
def test_bytes_come_in_the_cycles_of_the_formula(part: str, clock_mhz: float) -> None:
    tape, timing = random_tape(whole_rows(50)), MEMORY.timing(clock_mhz)
    seen = read(timing, tape_image(DIGEST, tape), len(tape), passes=3, part=PARTS[part], clock_mhz=clock_mhz)
    assert (seen.fault, seen.bad) == (FlashFault.NONE, False)
    assert seen.data == 3 * tape
    np.testing.assert_array_equal(seen.cycles, MEMORY.timing(clock_mhz).offers(len(tape), 3))


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_a_consumer_that_waits_gets_every_byte_once(share: float) -> None:
    tape = random_tape(whole_rows(90))
    ready = np.random.default_rng(1).random(9973) < share
    seen = read(quick(), tape_image(DIGEST, tape), len(tape), passes=6, ready=ready)
    assert (seen.fault, seen.bad) == (FlashFault.NONE, False)
    assert len(seen.data) > 20 and seen.data == (6 * tape)[: len(seen.data)]


@pytest.mark.parametrize("clock_mhz", [50, 100, 125])
def test_a_pass_has_99_percent_of_the_peak(clock_mhz: float) -> None:
    tape = random_tape(whole_rows(6_000))
    timing = quick(clock_mhz)
    seen = read(timing, tape_image(DIGEST, tape), len(tape), passes=1, clock_mhz=clock_mhz)
    assert seen.data == tape
    assert set(np.diff(seen.cycles).tolist()) == {timing.byte_cycles}, "four bits a clock, without a gap"
    assert len(tape) / (timing.pass_cycles(len(tape)) / clock_mhz * 1e-6) >= 0.99 * MEMORY.peak_bytes_a_second(
        clock_mhz
    )


@pytest.mark.parametrize("bit", range(0, 8 * (DIGEST_BYTES + whole_rows(20) + 4), 11))
def test_each_flipped_bit_is_seen_within_a_pass(bit: int) -> None:
    tape = random_tape(whole_rows(20))
    image = bytearray(tape_image(DIGEST, tape))
    image[bit // 8] ^= 1 << bit % 8
    seen = read(quick(), bytes(image), len(tape), passes=2)
    assert seen.bad
    assert len(seen.data) <= (1 if bit < 8 * DIGEST_BYTES else len(tape)), (
        "no second pass; of a stranger a byte at most"
    )


@pytest.mark.parametrize("image", ["truncated", "of another build", "erased"])
def test_a_wrong_tape_is_seen_within_a_pass(image: str) -> None:
    tape = random_tape(whole_rows(40))
    whole = tape_image(DIGEST, tape)
    contents = {"truncated": whole[:-9], "of another build": tape_image(bytes(DIGEST_BYTES), tape), "erased": b"\xff"}
    seen = read(quick(), contents[image], len(tape), passes=2)
    assert seen.bad and len(seen.data) <= len(tape)
    assert image == "truncated" or not seen.data


def test_the_model_sees_a_reader_that_is_too_fast() -> None:
    tape = random_tape(whole_rows(20))
    image = tape_image(DIGEST, tape)
    assert read(quick(25), image, len(tape), clock_mhz=300).fault is FlashFault.CLOCK_TOO_FAST
    slow = replace(QUICK, deselect_ns=300)
    assert read(quick(), image, len(tape), part=slow).fault is FlashFault.SELECTED_TOO_SOON
    sleepy = replace(QUICK, wake_ns=1000)
    assert read(quick(), image, len(tape), part=sleepy).fault is FlashFault.ASLEEP
    late = read(quick(), image, len(tape), part=replace(QUICK, valid_ns=11))
    assert late.bad, "the bits are taken before they are there"
    behind = read(quick(), image, len(tape), part=replace(QUICK, dummy_clocks=6))
    assert behind.fault is FlashFault.BOTH_DRIVE or behind.bad


def test_the_reader_is_small(tmp_path: Path) -> None:
    """Count the look-up tables of an ECP5 around a long tape."""
    timing = MEMORY.timing(100)
    reader = QspiFlashReader(timing, address=0x200000, digest=DIGEST, tape_bytes=whole_rows(119_000), depth=2)
    (tmp_path / "top.il").write_text(to_rtlil(reader))
    script = "read_rtlil top.il; synth_ecp5 -nowidelut -top top; tee -o stat.txt stat"
    tools.run(tools.find("yosys"), ["-q", "-p", script], cwd=tmp_path, log=tmp_path / "log.txt")
    counts = {line.split()[-1]: line.split()[0] for line in (tmp_path / "stat.txt").read_text().splitlines() if line}
    assert int(counts["LUT4"]) <= 120


@pytest.mark.parametrize("clock_mhz", [48, 100, 133])
@pytest.mark.parametrize("at", [0, 3, 7])
def test_a_reset_in_the_middle_of_a_command_leaves_the_flash_its_time(clock_mhz: float, at: int) -> None:
    """A host that greets anew resets the reader for a few cycles, and it begins again with its first command."""
    tape, timing = random_tape(whole_rows(20)), quick(clock_mhz)
    reader = QspiFlashReader(timing, address=MEMORY.offset, digest=DIGEST, tape_bytes=len(tape), depth=2)
    image = list(tape_image(DIGEST, tape))
    model = FlashModel(QUICK, clock_mhz, base=MEMORY.offset, contents=image, pads_ns=MEMORY.pads_ns)
    m, reset = Module(), Signal()
    m.submodules.reader, m.submodules.model = ResetInserter(reset)(reader), model
    m.d.comb += [
        *(getattr(model, here).eq(getattr(reader, there)) for here, there in PINS),
        reader.dq_i.eq(model.dq_o),
        reader.o.ready.eq(1),
    ]
    first, came = timing.once + timing.pass_cycles(len(tape)) // 2 + at, bytearray()

    async def bench(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        for cycle in range(first + RESTART_CYCLES + timing.once + timing.pass_cycles(len(tape)) + 40):
            context.set(reset, first <= cycle < first + RESTART_CYCLES)
            if cycle >= first + RESTART_CYCLES and context.get(reader.o.valid):
                came.append(context.get(reader.o.payload.as_value()))
            await context.tick()
        assert FlashFault(int(context.get(model.fault))) is FlashFault.NONE and not context.get(reader.bad)

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert bytes(came) == tape


def test_the_crc_is_that_of_the_polynomial() -> None:
    """Bit by bit, as the definition says."""
    data, state = b"123456789", 0
    for byte in data:
        state ^= byte << 24
        for _ in range(8):
            state = (state << 1 ^ 0x00400007 if state >> 31 else state << 1) & 0xFFFFFFFF
    assert crc32(data) == state


def test_the_polynomial_is_primitive() -> None:
    """The powers of x are all numbers but 0: no two bits, nearer than 2³² − 1, cancel each other."""
    polynomial, order = 1 << 32 | CRC_POLYNOMIAL, (1 << 32) - 1

    def product(a: int, b: int) -> int:
        result = 0
        while b:
            result ^= a if b & 1 else 0
            a = a << 1 ^ (polynomial if a >> 31 else 0)
            b >>= 1
        return result

    def power(exponent: int) -> int:
        result, square = 1, 2
        while exponent:
            result = product(result, square) if exponent & 1 else result
            square, exponent = product(square, square), exponent >> 1
        return result

    assert power(order) == 1 and all(power(order // prime) != 1 for prime in (3, 5, 17, 257, 65537))


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="must fill its rows, 28 bytes, not 5"):
        tape_image(DIGEST, b"12345")
    with pytest.raises(ValueError, match="power of two"):
        FlashTiming(3, 2, 5, 10, 2)
    with pytest.raises(ValueError, match=r"taken after 1\.\.2 cycles, not 3"):
        FlashTiming(1, 2, 5, 10, 3)
    with pytest.raises(ValueError, match="6 bytes between two commands"):
        FlashTiming(1, 2, 50, 10, 2)
    with pytest.raises(ValueError, match="eight clocks must be enough between two commands, not 20 cycles"):
        FlashTiming(1, 2, 20, 10, 2)
    with pytest.raises(ValueError, match="fill its rows"):
        QspiFlashReader(MEMORY.timing(100), address=0, digest=DIGEST, tape_bytes=30, depth=2)
