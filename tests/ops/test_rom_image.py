"""What operators say of their cores' read-only memories, against the memories of the circuits."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from amaranth.hdl import Fragment
from hypothesis import given

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.ops.folding import Folding, MultiplierKind
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.requantize import Requantize
from onnx_hw.ops.rom_contents import RomImage
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.parts.block_rom import BlockRom
from onnx_hw_rtl.parts.rom import Rom
from support import core_tests
from support.random_cases import many
from support.random_cores import drawn, kinds

requantizers = core_tests.load("requantize").requantizers


def roms(operator: Operator, folding: Folding) -> dict[str, Rom | BlockRom]:
    """By path, but for those within other parts."""
    whole = Fragment.get(operator.core(folding, dict.fromkeys(operator.outputs, 9)), None)
    return {
        name: origin
        for part, name, _ in whole.subfragments
        for origin in part.origins or ()
        if name is not None and isinstance(origin, (Rom, BlockRom))
    }


def unsaid(operator: Operator, folding: Folding) -> list[str]:
    """Memories whose words are not those that the operator says."""
    said, found = operator.memories(folding), roms(operator, folding)
    wrong, first = [], 0
    for path, rom in found.items():
        memory = said.get(path) or said[re.sub(r"\d+$", "", path)]
        lanes = rom.width // memory.bits
        assert lanes * memory.bits == rom.width
        first = first if memory.pieces else 0
        if rom.words != tuple(in_bits(memory, first, first + lanes)):
            wrong.append(path)
        first += lanes
    if any(memory.pieces for memory in said.values()):
        assert first == next(iter(said.values())).words.shape[1]
    return wrong


def in_bits(memory: RomImage, first: int, last: int) -> list[int]:
    """The words of some lanes, each one integer."""
    mask = (1 << memory.bits) - 1
    return [
        sum((int(value) & mask) << memory.bits * lane for lane, value in enumerate(row))
        for row in memory.words[:, first:last]
    ]


@many
@given(requantizers())
def test_of_a_requantizer(case: tuple[Requantize, Folding]) -> None:
    assert unsaid(*case) == []


@pytest.mark.parametrize("offset", [-60, 60])
def test_of_a_requantizer_whose_addends_have_one_sign(offset: int) -> None:
    slopes = tuple(Fraction(100 + k, 2**15 + 1) for k in range(96))
    operator = Requantize(Tensor((1, 1, 96), Int(12)), slopes, (Fraction(offset),), Grid.over(Int(8)))
    folding = operator.folding_type(1)
    circuit = operator.circuit_of(folding)
    assert isinstance(circuit, MultiplyAddShift) and len({int(addend) > 0 for addend in circuit.addends}) == 1
    assert roms(operator, folding) and unsaid(operator, folding) == []


OF_THE_CIRCUIT = {"rearrange"}
"""Kinds of cores whose read-only memories hold no constants of the model, so that the operator says nothing of them."""


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind not in OF_THE_CIRCUIT])
def test_of_drawn_cores(kind: str) -> None:
    said = seen = 0
    for case in (drawn(kind, 29, number) for number in range(4)):
        logic = kind == "matmul_in_logic"
        folding = replace(case.folding, multiplier=MultiplierKind.LOGIC) if logic else case.folding  # type: ignore[call-arg]
        assert unsaid(case.operator, folding) == [], case
        said += len(case.operator.memories(folding))
        seen += len(roms(case.operator, folding))
    assert bool(said) == bool(seen)


def test_a_wrong_word_would_be_seen() -> None:
    case = drawn("matmul", 29, 0)
    (memory,) = case.operator.memories(case.folding).values()
    memory.words[-1, 0] += 1
    said = {"weights": memory}
    object.__setattr__(case.operator, "memories", lambda folding: said)
    with pytest.raises(AssertionError):
        assert unsaid(case.operator, case.folding) == []


def test_the_words_of_a_table_lie_in_the_order_of_its_arguments() -> None:
    case = drawn("lookup", 29, 0)
    memory = case.operator.memories(case.folding)["lane0_table"]
    operand = case.operator.operands()[0]
    every = np.arange(operand.dtype.min, operand.dtype.max + 1)
    frames = np.zeros((len(every), *operand.shape), np.int64) + every[:, None, None, None]
    golden = case.operator.golden(np.clip(frames, *operand.range))[0]
    assert np.array_equal(memory.words[: len(every), 0], golden[:, 0, 0, 0])
