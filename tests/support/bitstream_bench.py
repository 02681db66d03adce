"""A recorded chip with the bits of its bitstream, and what must be true of faults in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from onnx_hw.ir.design import Design
from onnx_hw.messages.errors import ExitCode
from onnx_hw.prove.circuit import bitstream
from onnx_hw.prove.circuit.bitstream import BitstreamCheck
from onnx_hw.report import proof_chain
from onnx_hw_boards.families.unpacked_bitstream import UnpackedBitstream
from support.design_bench import random_frames
from support.recorded_bitstream import RecordedChip, design_of


class UnpackedBits(Protocol):
    """Bits of a bitstream that are unpacked when they are asked for."""

    @property
    def unpacked(self) -> UnpackedBitstream: ...


B = TypeVar("B", bound=UnpackedBits)


class BitstreamBench(Generic[B]):
    """A recorded chip, its bits, the pins of its ports and frames for it."""

    def __init__(self, chip: RecordedChip, bits: B, pin_of: Mapping[str, str]) -> None:
        self.chip, self.bits, self.pin_of = chip, bits, pin_of
        self.frames = random_frames(chip.design, 6, 1)

    def compare(self, bits: B, design: Design | None = None, pin_of: Mapping[str, str] | None = None) -> BitstreamCheck:
        chip = self.chip
        return bitstream.compare(
            design or chip.design,
            chip.chip,
            chip.netlist,
            chip.routed,
            bits.unpacked,
            pin_of or self.pin_of,
            self.frames,
        )


def assert_named(found: BitstreamCheck, named: str) -> None:
    """A fault is not proven, and what is said of it matches."""
    said = f"{found.difference}; {found.obstacle}"
    assert not found.agrees and re.search(named, said), (named, said)
    assert proof_chain.netlist_bitstream(found).state != "proven"


def assert_another_build_is_named(bench: BitstreamBench[B], board: str) -> None:
    found = bench.compare(bench.bits, design_of(seed=2, board=board))
    assert re.match(r"node\.o\[.*: golden -?\d+, bitstream -?\d+", found.difference)
    error = bitstream.difference_error(found)
    assert error.exit_code is ExitCode.MISMATCH and error.problems[0].code == "bitstream-differs"
    assert proof_chain.netlist_bitstream(found).state == "failed"
