"""A cocotb bench of the matmul core: random vectors, stalls on both sides, every result against the golden model.

``test_matmul.py`` beside this file writes the core as Verilog and runs the bench under Verilator and Icarus.
"""

import random

import numpy as np
from cocotb.clock import Clock
from cocotb.handle import HierarchyObject
from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_time

import cocotb
from onnx_hw.exact.integers import Int
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.tensor import Tensor

WEIGHTS = np.random.default_rng(0).integers(-128, 128, (7, 10))
MATMUL = MatMul(Tensor((4, 4, 10), Int(8)), WEIGHTS)  # 10 channels of 4 × 4 pixels become 7
FOLDING = MatMulFolding(in_lanes=3, out_lanes=2)  # six products per cycle; neither 10 nor 7 is a multiple
DEPTH = 8
PERIOD = 10  # ns


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(offered=[1.0, 0.6, 0.1], ready=[1.0, 0.5, 0.1])
async def results_are_golden(dut: HierarchyObject, offered: float, ready: float) -> None:
    """Stalls change when a result leaves, never what it is."""
    await start(dut)
    frames = random_frames(3)
    cocotb.start_soon(send(dut, frames, offered))
    await expect(dut, frames, ready)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def never_idle(dut: HierarchyObject) -> None:
    """Without stalls a frame takes as many cycles as the multipliers have work, and not one more."""
    await start(dut)
    frames = random_frames(4)
    cocotb.start_soon(send(dut, frames, 1.0))
    await expect(dut, frames[:1], 1.0)
    begin = get_sim_time("ns")
    await expect(dut, frames[1:], 1.0)
    assert get_sim_time("ns") - begin == 3 * MATMUL.cycles(FOLDING) * PERIOD


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(cycles=[1, 30, 77])
async def reset_leaves_nothing(dut: HierarchyObject, cycles: int) -> None:
    """Whatever was under way: after a reset the next vector is the first one."""
    await start(dut)
    interrupted = cocotb.start_soon(send(dut, random_frames(1), 1.0))
    for _ in range(cycles):
        await RisingEdge(dut.clk)
    interrupted.cancel()
    await reset(dut)
    frames = random_frames(2)
    cocotb.start_soon(send(dut, frames, 0.5))
    await expect(dut, frames, 0.5)


async def start(dut: HierarchyObject) -> None:
    Clock(dut.clk, PERIOD, unit="ns").start()
    await reset(dut)


async def reset(dut: HierarchyObject) -> None:
    dut.rst.value, dut.i__valid.value, dut.o__ready.value = 1, 0, 0
    for _ in range(2):
        await RisingEdge(dut.clk)
    dut.rst.value = 0


def random_frames(count: int) -> np.ndarray:
    seed = random.getrandbits(32)  # cocotb seeds `random` and prints the seed
    return np.random.default_rng(seed).integers(-128, 128, (count, *MATMUL.operand.shape))


async def send(dut: HierarchyObject, frames: np.ndarray, probability: float) -> None:
    """Offer beat by beat, each held until it is taken, with pauses in between."""
    (entry,) = MATMUL.input_orders(FOLDING)
    for beat in entry.to_beats(frames):
        while random.random() >= probability:
            await RisingEdge(dut.clk)
        dut.i__payload.value, dut.i__valid.value = join(beat, MATMUL.operand.dtype.bits), 1
        await RisingEdge(dut.clk)
        while not dut.i__ready.value:
            await RisingEdge(dut.clk)
        dut.i__valid.value = 0


async def expect(dut: HierarchyObject, frames: np.ndarray, probability: float) -> None:
    """Take beat by beat; each must be the next one of the golden results, unused lanes of a last beat aside."""
    (order,), (golden,) = MATMUL.output_orders(FOLDING), MATMUL.golden(frames)
    beats = order.to_beats(golden)
    used = order.used(len(beats))
    for number, beat in enumerate(beats):
        taken = split(await take(dut, probability), order.width, order.tensor.dtype.bits)
        wrong = used[number] & (beat != taken)
        assert not wrong.any(), f"beat {number}: golden {beat}, circuit {taken}"


async def take(dut: HierarchyObject, probability: float) -> int:
    """The payload of the next beat."""
    while True:
        ready = random.random() < probability
        dut.o__ready.value = ready
        await RisingEdge(dut.clk)
        if ready and dut.o__valid.value:
            return int(dut.o__payload.value)


def join(lanes: np.ndarray, bits: int) -> int:
    """Lanes side by side, lane 0 in the lowest bits."""
    return sum((int(lane) % (1 << bits)) << (bits * k) for k, lane in enumerate(lanes))


def split(word: int, lanes: int, bits: int) -> np.ndarray:
    """Inverse of ``join``."""
    unsigned = np.array([(word >> (bits * k)) % (1 << bits) for k in range(lanes)])
    return np.where(unsigned >> (bits - 1), unsigned - (1 << bits), unsigned)
