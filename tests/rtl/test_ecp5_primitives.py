"""The blocks built of hand-placed ECP5 primitives equal their behavioural twins.

Both elaborations of a block go through yosys: with ``platform=None`` the twin, with an ECP5 target the primitives, whose
behaviour comes from our Verilog models. CXXRTL runs both on the same random stimulus, every cycle is compared.
"""

from __future__ import annotations

import ctypes
import importlib.util
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Module, Shape, Signal, Value
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_rtl import ecp5
from onnx_hw_rtl.multiplier import Multiplier, WideMultiplier
from onnx_hw_rtl.rom import Rom
from onnx_hw_rtl.target import Target
from onnx_hw_sim import tools

MODELS = Path(ecp5.__file__).parent

DRIVER = """
#include "dut.h"
template <size_t B> static uint32_t *chunks(cxxrtl::value<B> &v) { return v.data; }
template <size_t B> static uint32_t *chunks(cxxrtl::wire<B> &w) { return w.curr.data; }
extern "C" void run(const uint32_t *in, size_t words_in, uint32_t *out, size_t words_out, size_t cycles) {
  cxxrtl_design::p_top top;
  for (size_t t = 0; t < cycles; t++) {
    for (size_t k = 0; k < words_in; k++) chunks(top.p_stimulus)[k] = in[t * words_in + k];
    top.p_clk.set(false);
    top.step();
    for (size_t k = 0; k < words_out; k++) out[t * words_out + k] = chunks(top.p_response)[k];
    top.p_clk.set(true);
    top.step();
  }
}
"""


class Bench(Component):
    """All inputs of several blocks from one ``stimulus``, all their outputs in one ``response``."""

    def __init__(self, blocks: Sequence[Component]) -> None:
        self.blocks = blocks
        self.widths_in = [len(port) for block in blocks for port in _ports(block, In)]
        self.widths_out = [len(port) for block in blocks for port in _ports(block, Out)]
        super().__init__({"stimulus": In(sum(self.widths_in)), "response": Out(sum(self.widths_out))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for k, block in enumerate(self.blocks):
            m.submodules[f"block{k}"] = block
        inputs = Cat(port for block in self.blocks for port in _ports(block, In))
        m.d.comb += inputs.eq(self.stimulus)
        m.d.comb += self.response.eq(Cat(port for block in self.blocks for port in _ports(block, Out)))
        return m


def _ports(block: Component, direction: object) -> list[Signal]:
    return [
        Value.cast(getattr(block, name)) for name, member in block.signature.members.items() if member.flow == direction
    ]


def include_folder() -> Path:
    """Where the yosys in use keeps CXXRTL's headers."""
    tool = tools.find("yosys")
    if tool.wheel is not None:
        spec = importlib.util.find_spec(tool.wheel.module)
        return Path(spec.origin).parent / "share/include/backends/cxxrtl/runtime"
    config = shutil.which("yosys-config")
    if config is None:
        pytest.skip("yosys-config, which knows where CXXRTL's headers are, is not on PATH")
    share = subprocess.run([config, "--datdir"], capture_output=True, text=True, check=True).stdout.strip()
    return Path(share) / "include/backends/cxxrtl/runtime"


def respond(bench: Bench, target: Target | None, stimulus: list[list[int]], folder: Path) -> list[list[int]]:
    """The outputs of every cycle; ``stimulus`` has one integer per input port and cycle."""
    folder.mkdir()
    (folder / "dut.il").write_text(rtlil.convert(bench, platform=target, name="top"))
    script = "read_rtlil dut.il; "
    if target is not None:
        for model in ("MULT18X18D.v", "DP16KD.v"):
            shutil.copy(MODELS / model, folder)
            script += f"read_verilog {model}; "
    script += "hierarchy -check -top top; write_cxxrtl -header -O6 -g0 dut.cc"
    tools.run(tools.find("yosys"), ["-q", "-p", script, "-l", "yosys.log"], cwd=folder, log=folder / "yosys.out")
    (folder / "driver.cc").write_text(DRIVER)
    (folder / "all.cc").write_text('#include "dut.cc"\n#include "driver.cc"\n')
    library = folder / "bench.so"
    tools.run(
        tools.find("c++"),
        ["-std=c++17", "-O1", "-shared", "-fPIC", f"-I{include_folder()}", "-o", library.name, "all.cc"],
        cwd=folder,
        log=folder / "c++.out",
    )
    into = _to_chunks(stimulus, bench.widths_in)
    out = np.zeros((len(stimulus), -(-sum(bench.widths_out) // 32)), dtype=np.uint32)
    run = ctypes.CDLL(str(library)).run
    run(
        into.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_size_t(into.shape[1]),
        out.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_size_t(out.shape[1]),
        ctypes.c_size_t(len(stimulus)),
    )
    return _from_chunks(out, bench.widths_out)


def _to_chunks(rows: list[list[int]], widths: list[int]) -> np.ndarray:
    count = -(-sum(widths) // 32)
    data = b""
    for row in rows:
        flat, position = 0, 0
        for value, width in zip(row, widths, strict=True):
            flat |= (value & ((1 << width) - 1)) << position
            position += width
        data += flat.to_bytes(4 * count, "little")
    return np.frombuffer(data, dtype=np.uint32).reshape(len(rows), count).copy()


def _from_chunks(chunks: np.ndarray, widths: list[int]) -> list[list[int]]:
    rows = []
    for chunk in chunks:
        flat, row = int.from_bytes(chunk.tobytes(), "little"), []
        for width in widths:
            row.append(flat & ((1 << width) - 1))
            flat >>= width
        rows.append(row)
    return rows


def near_the_edges(random_: random.Random, width: int) -> int:
    """Half of the values at the ends of the ranges, signed and unsigned."""
    edges = (0, 1, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1)
    return random_.choice(edges) & ((1 << width) - 1) if random_.random() < 0.5 else random_.getrandbits(width)


def compare(bench: Bench, stimulus: list[list[int]], folder: Path) -> None:
    twin = respond(bench, None, stimulus, folder / "twin")
    block = respond(bench, Target("ecp5"), stimulus, folder / "ecp5")
    assert all(any(column) for column in zip(*twin, strict=True))
    assert block == twin


def test_multipliers(tmp_path: Path) -> None:
    blocks = [
        Multiplier(a, b, a_signed=a_signed, b_signed=b_signed)
        for a, b in ((8, 8), (18, 18), (9, 17), (1, 18))
        for a_signed in (False, True)
        for b_signed in (False, True)
    ]
    blocks += [
        WideMultiplier(a, b, a_signed=a_signed, b_signed=b_signed)
        for a, b in ((18, 34), (36, 36), (24, 19), (36, 8), (12, 12))
        for a_signed in (False, True)
        for b_signed in (False, True)
    ]
    bench, source = Bench(blocks), random.Random(1)
    stimulus = [[near_the_edges(source, width) for width in bench.widths_in] for _ in range(1000)]
    compare(bench, stimulus, tmp_path)


def test_every_geometry_of_the_block_ram(tmp_path: Path) -> None:
    source = random.Random(2)
    shapes = [(36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384), (40, 600), (77, 33), (8, 5000)]
    blocks = [Rom(width, [source.getrandbits(width) for _ in range(depth)]) for width, depth in shapes]
    used = {ecp5.best_geometry(*shape)[0] for shape in shapes}
    assert used == set(ecp5.GEOMETRIES)
    stimulus = [[source.randrange(depth) for _, depth in shapes] for _ in range(4000)]
    compare(Bench(blocks), stimulus, tmp_path)
