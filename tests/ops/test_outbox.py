"""What a FIFO is said to cost, against what yosys makes of its circuit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amaranth.hdl import Module, unsigned
from amaranth.lib.wiring import Component, Out, connect, flipped

from onnx_hw.assemble.elaborate import to_rtlil
from onnx_hw.ops.outbox import DEEPEST_IN_LUTRAM, outbox_resources
from onnx_hw_boards.families.ecp5.recipes import ECP5
from onnx_hw_rtl.streams import outbox as circuit
from onnx_hw_rtl.target import Target
from onnx_hw_tools import tools

SIZES = [(40, 1), (8, 2), (30, 17), (64, 33), (16, 64), (17, 64), (24, 64), (8, 128), (9, 200), (40, 2048)]


class Outboxes(Component):
    """One of each size, alone in its module."""

    def __init__(self) -> None:
        self.parts = {f"bits{bits}_words{words}": circuit.Outbox(unsigned(bits), words) for bits, words in SIZES}
        super().__init__({name: Out(part.signature) for name, part in self.parts.items()})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name, part in self.parts.items():
            m.submodules[name] = part
            connect(m, part, flipped(getattr(self, name)))
        return m


def test_cost_is_what_yosys_makes_of_it(tmp_path: Path) -> None:
    """Nine of ten within 15 %, none off by more than 30 %; block RAMs exactly."""
    (tmp_path / "top.il").write_text(to_rtlil(Outboxes(), Target(ECP5.primitives())))
    script = "read_rtlil top.il; setattr -mod -set keep_hierarchy 1 top.bits*"
    script += "; setattr -mod -unset keep_hierarchy top.*.*; synth_ecp5 -top top; tee -q -o cells.json stat -json"
    tools.run(tools.find("yosys"), ["-q", "-p", script], cwd=tmp_path, log=tmp_path / "log")
    modules = json.loads((tmp_path / "cells.json").read_text())["modules"]
    off = []
    for width, depth in SIZES:
        made = ECP5.count(modules[f"\\top.bits{width}_words{depth}"]["num_cells_by_type"])
        told = outbox_resources(width, depth)
        assert told.bram == made.bram
        assert told.lut == pytest.approx(made.lut, rel=0.3, abs=5), (width, depth)
        if told.lut != pytest.approx(made.lut, rel=0.15, abs=5):
            off.append((width, depth))
    assert len(off) <= len(SIZES) // 10, off


def test_where_block_ram_begins_is_said_three_times() -> None:
    assert DEEPEST_IN_LUTRAM == circuit.DEEPEST_IN_LUTRAM
