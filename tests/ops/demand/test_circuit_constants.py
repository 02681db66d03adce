"""What demands are reckoned with is what the circuits do: neither imports the other's numbers."""

from __future__ import annotations

import pytest
from amaranth.hdl import Shape

from onnx_hw.exact import requantization
from onnx_hw.exact.integers import Int
from onnx_hw.ops import dividing_operator, normalize, rearrange_plan, rom_contents
from onnx_hw.ops import gearbox as ops_gearbox
from onnx_hw.ops.demand import blocks, soft_multipliers
from onnx_hw.ops.demand import matmul as matmul_demand
from onnx_hw.ops.demand import sliding as sliding_demand
from onnx_hw_boards.families import ecp5_and_gowin, yosys_mapping
from onnx_hw_boards.families.ecp5.primitives.block_ram import GEOMETRIES
from onnx_hw_rtl.arithmetic import constant_multiplier, multiplier, product
from onnx_hw_rtl.cores import gather, sliding, weights, whole_gearbox
from onnx_hw_rtl.cores import matmul as matmul_core
from onnx_hw_rtl.cores import normalize as normalize_core
from onnx_hw_rtl.parts import constant_memory, fanout, table
from onnx_hw_rtl.parts.rom import Rom


def test_copies() -> None:
    assert blocks.BITS_PER_COPY == fanout.BITS_PER_COPY
    assert ops_gearbox.PARTS_PER_COPY == whole_gearbox.PARTS_PER_COPY
    assert blocks.BITS_PER_ADDRESS_COPY == weights.BITS_PER_ADDRESS_COPY
    assert blocks.LOADED_BLOCK_BITS == constant_memory.LOADED_BLOCK_BITS
    assert blocks.LOADED_BITS == rom_contents.LOADED_BITS == constant_memory.LOADED_BITS
    assert matmul_demand.RESULTS_PER_VECTOR_COPY == matmul_core.RESULTS_PER_VECTOR_COPY


def test_memories_and_tables() -> None:
    shapes = tuple((geometry.depth, geometry.width) for geometry in GEOMETRIES)
    assert ecp5_and_gowin.BLOCK_RAMS == requantization.BLOCK_RAMS == shapes
    assert (yosys_mapping.DEEPEST_ROM, yosys_mapping.SMALLEST_ROM) == (Rom.MAX_WORDS_IN_LOGIC, Rom.MAX_BITS_BELOW_BLOCK)
    assert requantization.BITS_IN_LOGIC == Rom.BITS_IN_LOGIC
    assert blocks.MAX_GATE_TABLE_WORDS == table.MAX_WORDS_IN_LOGIC
    assert sliding_demand.MAX_TABLE_WORDS == sliding.MAX_TABLE_WORDS
    assert rearrange_plan.DEEPEST_IN_LOGIC == gather.LoopTable.MAX_WORDS_IN_LOGIC


@pytest.mark.parametrize("bits", [(1, 1), (1, 2), (2, 2), (2, 3), (3, 8), (8, 8), (16, 9), (18, 18), (24, 20)])
@pytest.mark.parametrize("in_logic", [False, True])
def test_latencies_of_products(bits: tuple[int, int], in_logic: bool) -> None:
    stated = soft_multipliers.product_latency(*map(Int, bits), in_logic=in_logic)
    assert stated == product.product_latency(*map(Shape, bits), in_logic=in_logic)


def test_multipliers() -> None:
    assert soft_multipliers.HARD_LATENCY == product.HARD_LATENCY
    assert soft_multipliers.MULTIPLIER_BITS == multiplier.WideMultiplier.LIMB
    assert normalize.MULTIPLE_LATENCY == normalize_core.MULTIPLE_LATENCY
    assert dividing_operator.MULTIPLIER_LATENCY == constant_multiplier.MULTIPLIER_LATENCY
