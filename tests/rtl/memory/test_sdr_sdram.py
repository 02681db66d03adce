# amaranth: UnusedElaboratable=no
"""SDRAM reader against models of the memory and of the flash that fills it: words, cycles, timings, wrong contents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.sim import Simulator

from onnx_hw.assemble.elaborate import to_rtlil
from onnx_hw_boards.memory import WeightMemory
from onnx_hw_boards.sdram import SdramMemory
from onnx_hw_link.flash_parts import FlashFault, FlashPart
from onnx_hw_link.flash_tape import DIGEST_BYTES, tape_image
from onnx_hw_link.sdram_tape import CHECK_BYTES, SdramTiming, check_bytes
from onnx_hw_rtl.memory.flash_model import FlashModel
from onnx_hw_rtl.memory.sdr_sdram import SdramReader
from onnx_hw_rtl.memory.sdram_from_flash import FilledSdramReader
from onnx_hw_rtl.memory.sdram_model import PARTS, SdramFault, SdramModel, SdramPart
from onnx_hw_tools import tools

DIGEST = bytes(range(0x5A, 0x5A + DIGEST_BYTES))
FLASH = WeightMemory(bytes=1 << 24, offset=0x200000, wake_us=0.2)
FLASH_PART = FlashPart(3.4, 3.4, 7.5, 50, 100, 6)
POWER_UP_US = 2.0
"""Time before the first command of the memories here, to save cycles."""


PADS_NS = (3.0, 5.0)


def quick(part: SdramPart, columns: int = 32) -> SdramPart:
    """Return a part with short rows that is soon ready, to save cycles."""
    return replace(part, columns=columns, power_up_us=POWER_UP_US)


def memory_of(part: SdramPart) -> SdramMemory:
    """Return a board's memory with the geometry of a part and the times of all parts."""
    return SdramMemory(
        part.word_bytes, part.columns, part.rows, FLASH, interval_ns=part.interval_ns, power_up_us=POWER_UP_US
    )


@dataclass(frozen=True)
class Reading:
    """What came: words, the cycle of each, the faults of both models, what the reader says in the end, and when passes
    begin.
    """

    words: np.ndarray
    cycles: np.ndarray
    fault: SdramFault
    flash_fault: FlashFault
    bad: bool
    begins: list[int]


class BesideMemories(Elaboratable):
    """A reader, its memory and the flash."""

    def __init__(self, timing: SdramTiming, part: SdramPart, clock_mhz: float, tape: bytes, image: bytes) -> None:
        self.timing = timing
        self.reader = FilledSdramReader(
            timing, address=FLASH.offset, digest=DIGEST, tape_bytes=len(tape), depth=timing.depth
        )
        words = timing.tape_rows(len(tape)) * timing.columns + 40
        self.model = SdramModel(part, clock_mhz, words=words, pads_ns=PADS_NS)
        self.flash = FlashModel(FLASH_PART, clock_mhz, base=FLASH.offset, contents=[*image], pads_ns=FLASH.pads_ns)

    def elaborate(self, platform: object) -> Module:
        m, reader, model, flash = Module(), self.reader, self.model, self.flash
        m.submodules.reader, m.submodules.model, m.submodules.flash = reader, model, flash
        m.d.comb += [
            model.cke.eq(reader.cke),
            model.command.eq(reader.command),
            model.ba.eq(reader.ba),
            model.a.eq(reader.a),
            model.dq_i.eq(reader.dq_o),
            model.dq_oe.eq(reader.dq_oe),
            flash.sck.eq(reader.flash_sck),
            flash.cs_n.eq(reader.flash_cs_n),
            flash.dq_i.eq(reader.flash_dq_o),
            flash.dq_oe.eq(reader.flash_dq_oe),
            reader.flash_dq_i.eq(flash.dq_o),
        ]
        m.d.sync += reader.dq_i.eq(model.dq_fall if self.timing.falling else model.dq_rise)
        return m


def image_of(timing: SdramTiming, tape: bytes) -> bytes:
    return tape_image(DIGEST, timing.in_flash(tape))


def read(
    timing: SdramTiming,
    tape: bytes,
    part: SdramPart,
    *,
    passes: float = 2,
    clock_mhz: float = 100,
    ready: np.ndarray | None = None,
    image: bytes | None = None,
    flips: Iterable[tuple[int, int]] = (),
) -> Reading:
    """Read for the cycles of some passes.

    Args:
        ready: pattern of the cycles in which the consumer takes a word.
        image: contents of the flash; by default those of the tape.
        flips: words of the memory that change when it is filled, each with the bits that do.
    """
    circuit = BesideMemories(timing, part, clock_mhz, tape, image_of(timing, tape) if image is None else image)
    reader, model = circuit.reader, circuit.model
    came, cycles, end, begins = list[int](), list[int](), list[int](), list[int]()
    filled = timing.before(len(tape))
    total = filled + int(passes * timing.pass_cycles(len(tape))) + timing.latency + 3

    async def bench(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        for cycle in range(total):
            takes = ready is None or bool(ready[cycle % len(ready)])
            context.set(reader.o.ready, takes)
            if cycle == filled:
                for word, bits in flips:
                    place = word // timing.columns * timing.columns + (word + timing.first_column) % timing.columns
                    context.set(model.kept.data[place], context.get(model.kept.data[place]) ^ bits)
            if takes and context.get(reader.o.valid):
                came.append(context.get(reader.o.payload.as_value()))
                cycles.append(cycle)
            if context.get(reader.begins):
                begins.append(cycle)
            await context.tick()
        end.extend([int(context.get(model.fault)), int(context.get(circuit.flash.fault)), context.get(reader.bad)])

    simulator = Simulator(circuit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return Reading(np.array(came), np.array(cycles), SdramFault(end[0]), FlashFault(end[1]), bool(end[2]), begins)


def random_tape(timing: SdramTiming, rows: int, seed: int = 0) -> bytes:
    length = rows * timing.row_bytes - CHECK_BYTES
    return np.random.default_rng(seed).integers(0, 256, length, dtype=np.uint8).tobytes()


def words_of(timing: SdramTiming, tape: bytes) -> np.ndarray:
    return np.frombuffer(tape, dtype=f"<u{timing.word_bytes}")


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("clock_mhz", [25, 60, 100, 133])
def test_words_come_in_the_cycles_of_the_formula(name: str, clock_mhz: float) -> None:
    part = quick(PARTS[name])
    timing = memory_of(part).timing(clock_mhz)
    tape = random_tape(timing, 3)
    seen = read(timing, tape, part, passes=3, clock_mhz=clock_mhz)
    assert (seen.fault, seen.flash_fault, seen.bad) == (SdramFault.NONE, FlashFault.NONE, False)
    np.testing.assert_array_equal(seen.words, np.tile(words_of(timing, tape), 3))
    np.testing.assert_array_equal(seen.cycles, timing.offers(len(tape), 3))
    first = timing.before(len(tape)) + timing.closes + 1
    assert seen.begins == [first + k * timing.pass_cycles(len(tape)) for k in range(len(seen.begins))]
    assert len(seen.begins) == 3


@pytest.mark.parametrize("name", ["W9825G6KH6", "M12L64322A"])
@pytest.mark.parametrize("share", [0.03, 0.3, 0.9])
def test_a_consumer_that_waits_gets_every_word_once(name: str, share: float) -> None:
    """While it waits the memory is refreshed by the clock: the model sees rows that are refreshed too late."""
    part = quick(PARTS[name])
    timing = memory_of(part).timing(100)
    tape = random_tape(timing, 3)
    ready = np.random.default_rng(1).random(9973) < share
    seen = read(timing, tape, part, passes=160 if share < 0.1 else 40, ready=ready)
    assert (seen.fault, seen.flash_fault, seen.bad) == (SdramFault.NONE, FlashFault.NONE, False)
    count, words = len(seen.words), words_of(timing, tape)
    assert count > 200
    np.testing.assert_array_equal(seen.words, np.resize(words, count))


def test_a_memory_that_nobody_reads_is_refreshed() -> None:
    part = quick(PARTS["MT48LC16M16"])
    timing = memory_of(part).timing(100)
    tape = random_tape(timing, 3)
    intervals = 12 * timing.interval / timing.pass_cycles(len(tape))
    seen = read(timing, tape, part, passes=intervals, ready=np.zeros(1, bool))
    assert (seen.fault, len(seen.words)) == (SdramFault.NONE, 0)


@pytest.mark.parametrize(("name", "clock_mhz"), [("MT48LC16M16", 60), ("MT48LC16M16", 100), ("M12L64322A", 80)])
def test_a_pass_has_95_percent_of_the_peak_over_ten_refresh_periods(name: str, clock_mhz: float) -> None:
    """With rows of their true length, in every cycle as the formula says."""
    part = quick(PARTS[name], PARTS[name].columns)
    memory = memory_of(part)
    timing = memory.timing(clock_mhz)
    tape = random_tape(timing, 2)
    passes = -(-10 * timing.interval // timing.pass_cycles(len(tape)))
    seen = read(timing, tape, part, passes=passes, clock_mhz=clock_mhz)
    assert (seen.fault, seen.bad) == (SdramFault.NONE, False)
    np.testing.assert_array_equal(seen.cycles, timing.offers(len(tape), passes))
    np.testing.assert_array_equal(seen.words, np.tile(words_of(timing, tape), passes))
    seconds = passes * timing.pass_cycles(len(tape)) / clock_mhz * 1e-6
    assert passes * len(tape) / seconds >= 0.95 * memory.peak_bytes_a_second(clock_mhz)


@pytest.mark.parametrize(
    ("change", "part", "fault"),
    [
        ({"activate": 1}, {}, SdramFault.ACCESS_TOO_SOON),
        ({"precharge": 1}, {}, SdramFault.REFRESH_TOO_SOON),
        ({"refresh": 5}, {}, SdramFault.COMMAND_TOO_SOON),
        ({"write": 1, "open": 1}, {"open_ns": 0}, SdramFault.PRECHARGE_TOO_SOON),
        ({"open": 1, "write": 2}, {"open_ns": 60}, SdramFault.PRECHARGE_TOO_SOON),
        ({"power_up": 100}, {}, SdramFault.NOT_PREPARED),
        ({"interval": 3000}, {}, SdramFault.REFRESH_TOO_LATE),
        ({"latency_cycles": 4}, {}, SdramFault.CLOCK_TOO_FAST),
        ({}, {"period_ns": ((2, 11.0), (3, 7.0))}, SdramFault.CLOCK_TOO_FAST),
    ],
)
def test_the_model_sees_a_reader_that_is_too_fast(
    change: dict[str, int], part: dict[str, float], fault: SdramFault
) -> None:
    """Break one time of the reader, or make one of the part longer; nobody takes words: it refreshes by the clock."""
    slow = replace(quick(PARTS["MT48LC16M16"]), **part)  # type: ignore[arg-type]
    right = memory_of(slow).timing(100)
    timing = replace(right, **change)  # type: ignore[arg-type]
    tape = random_tape(timing, 2)
    passes = 12 * right.interval / timing.pass_cycles(len(tape)) if "interval" in change else 1
    assert read(timing, tape, slow, passes=passes, ready=np.zeros(1, bool)).fault is fault


@pytest.mark.parametrize("change", [{"read": 2}, {"read": 4}, {"falling": True}])
def test_a_word_that_is_taken_in_another_cycle_is_wrong(change: dict[str, int]) -> None:
    part = quick(PARTS["MT48LC16M16"])
    timing = memory_of(part).timing(100)
    tape = random_tape(timing, 2)
    assert read(replace(timing, **change), tape, part).bad  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["MT48LC16M16", "M12L64322A"])
@pytest.mark.parametrize("seed", range(3))
def test_a_word_that_changes_in_the_memory_is_seen_within_a_pass(name: str, seed: int) -> None:
    part = quick(PARTS[name])
    timing = memory_of(part).timing(100)
    tape = random_tape(timing, 3)
    random = np.random.default_rng(seed)
    word = int(random.integers(0, 3 * timing.columns))
    bits = 1 << int(random.integers(0, 8 * timing.word_bytes))
    seen = read(timing, tape, part, passes=3, flips=[(word, bits)])
    assert seen.bad
    assert len(seen.words) <= len(tape) // timing.word_bytes + 2 * timing.columns, "two rows of the next pass at most"
    assert len(seen.begins) == 1, "no further pass is said to begin"


@pytest.mark.parametrize("bit", [7, 8 * DIGEST_BYTES, 8 * (DIGEST_BYTES + 200) - 1])
def test_a_flash_that_is_bad_leaves_the_memory_unread(bit: int) -> None:
    part = quick(PARTS["MT48LC16M16"])
    timing = memory_of(part).timing(100)
    tape = random_tape(timing, 3)
    image = bytearray(image_of(timing, tape))
    image[bit // 8] ^= 1 << bit % 8
    seen = read(timing, tape, part, passes=1, image=bytes(image))
    assert seen.bad and not len(seen.words)


@pytest.mark.parametrize("value", [0x00, 0xFF])
def test_a_memory_that_is_not_there_is_bad(value: int) -> None:
    """Levels that never change have no right check sum."""
    part = quick(PARTS["MT48LC16M16"])
    timing = memory_of(part).timing(100)
    tape = random_tape(timing, 1)
    kept = np.frombuffer(tape + check_bytes(tape, timing.word_bytes), "<u2")
    flips = [(k, int(word) ^ value * 0x101) for k, word in enumerate(kept)]
    assert read(timing, tape, part, flips=flips).bad


@pytest.mark.parametrize("geometry", [(2, 512, 8192), (4, 256, 2048)])
def test_the_reader_is_small(geometry: tuple[int, int, int], tmp_path: Path) -> None:
    """Count the look-up tables of an ECP5 around a long tape."""
    timing = SdramMemory(*geometry, FLASH, interval_ns=64e6 / 8192).timing(100)
    reader = SdramReader(timing, tape_bytes=timing.whole(885_400), depth=timing.depth)
    (tmp_path / "top.il").write_text(to_rtlil(reader))
    script = "read_rtlil top.il; synth_ecp5 -nowidelut -top top; tee -o stat.txt stat"
    tools.run(tools.find("yosys"), ["-q", "-p", script], cwd=tmp_path, log=tmp_path / "log.txt")
    counts = {line.split()[-1]: line.split()[0] for line in (tmp_path / "stat.txt").read_text().splitlines() if line}
    assert int(counts["LUT4"]) <= 230


def test_wrong_shapes_are_refused() -> None:
    timing = SdramMemory(2, 512, 8192, FLASH).timing(100)
    with pytest.raises(ValueError, match="words of 2 or 4 bytes, not 1"):
        replace(timing, word_bytes=1)
    with pytest.raises(ValueError, match="power of two, not 500"):
        replace(timing, columns=500)
    with pytest.raises(ValueError, match="due after more than 14 cycles, not 12"):
        replace(timing, interval=12)
    with pytest.raises(ValueError, match="fill its rows, 1020 bytes, not 30"):
        SdramReader(timing, tape_bytes=30, depth=9)
    with pytest.raises(ValueError, match="133 MHz or less, not 150 MHz"):
        SdramMemory(2, 512, 8192, FLASH).timing(150)
