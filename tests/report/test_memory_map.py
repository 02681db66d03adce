"""The memory map, from texts as yosys writes them, and from yosys itself."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onnx_hw import flow
from onnx_hw.assemble.elaborate import module_names
from onnx_hw.report.html.page import page
from onnx_hw.report.memory_map import describe_memories
from support.fixture_paths import CHECKOUT
from support.page_checks import check_page, words
from support.sample_report import FULL


def cell(kind: str) -> dict[str, Any]:
    return {"hide_name": 0, "type": kind, "parameters": {"type": "DP16KD"}, "connections": {"DOA": [2, 3, "x"]}}


def in_other_order(entry: dict[str, Any]) -> dict[str, Any]:
    """The same object with the keys of every object in the opposite order."""
    turned = reversed(entry.items())
    return {key: in_other_order(value) if isinstance(value, dict) else value for key, value in turned}


@pytest.mark.parametrize("layout", [{"indent": 2}, {"indent": None, "separators": (",", ":")}])
@pytest.mark.parametrize("order", [dict, in_other_order])
def test_blocks_belong_to_the_memories_of_their_cores(
    tmp_path: Path, layout: dict[str, Any], order: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Of two cores: weights that a primitive places, a memory that synthesis maps, one of the shell, and others.

    How the JSON is written does not matter: neither its lines nor the order of its keys.
    """
    design = flow.schedule(flow.quantize(flow.read(CHECKOUT / "examples/digits/digits.onnx")), "ecp5", multipliers=8)
    modules = module_names(design)
    dense = next(node for node in design.network.nodes if node.name == "scores/Gemm")
    pool = next(node for node in design.network.nodes if type(node.operator).__name__ == "Pool")
    named = {f"core.weights0.block{bank}_0": cell("DP16KD") for bank in range(2)}
    named |= {"core.weights0.block0_0_Z": cell("LUT4"), "core.x.0.0": cell("DP16KD")}
    written = {
        f"top.design.{modules[dense.name]}": {
            "attributes": {"cells": {"core.y": cell("DP16KD")}},
            "cells": named,
            "netnames": {"core.z": cell("DP16KD")},
        },
        f"top.design.{modules[pool.name]}": {"attributes": {}, "cells": {"core.ring0_0.0.0": cell("DP16KD")}},
        "top": {"cells": {"shell.end.sender.memory.0.0": cell("PDPW16KD")}},
        "blackbox": {"attributes": {}},
    }
    netlist = tmp_path / "netlist.json"
    netlist.write_text(json.dumps(order({"creator": "yosys", "modules": written, "models": {}}), **layout))
    rtlil = (
        f"module \\top.design.{modules[dense.name]}.core.weights0\n  wire width 1 input 0 \\clk\n"
        f"  wire width 8 \\data\n"
        f"module \\top.design.{modules[pool.name]}.core\n  memory width 8 size 256 \\ring0_0\n"
        f"  memory width 8 size 4 \\ring1_0\nmodule \\top.shell.end\n  wire width 9 output 3 \\data\n"
    )
    found = describe_memories(design, rtlil, netlist, design.target.board.family)
    count = len(dense.operator.memories(design.folding(dense))["weights"].words)
    assert [(m.core, m.memory, m.contents, m.words, m.word_bits, len(m.blocks)) for m in found] == [
        (pool.name, "ring0_0", "rows of the frame", 256, 8, 1),
        (dense.name, "weights0", "weight", count, 8, 2),
        (dense.name, "x", "data", 0, 0, 1),
        ("", "end.sender.memory", "bytes to the host", 0, 0, 1),
    ]
    assert [(m.bits_used, m.bits_taken) for m in found[:2]] == [(2_048, 18_432), (8 * count, 36_864)]


def test_connections_are_passed_over_and_not_kept(tmp_path: Path) -> None:
    """A netlist of 12 MB, nearly all of it connections and names of nets, takes less than a tenth of that."""
    design = flow.schedule(flow.quantize(flow.read(CHECKOUT / "examples/digits/digits.onnx")), "ecp5", multipliers=8)
    wide = {"type": "LUT4", "connections": {"A": list(range(100_000, 101_000))}}
    nets = {f"net{k}": {"bits": [k], "attributes": {"src": "x" * 1_000}} for k in range(4_000)}
    cells = {f"cell{k}": wide for k in range(1_000)} | {"core.x.0.0": cell("DP16KD")}
    netlist = tmp_path / "netlist.json"
    netlist.write_text(json.dumps({"modules": {"top": {"cells": cells, "netnames": nets}}}))
    tracemalloc.start()
    try:
        (memory,) = describe_memories(design, "", netlist, design.target.board.family)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert memory.blocks == ("core.x.0.0",)
    assert netlist.stat().st_size > 12_000_000 > 10 * peak


def test_the_page_names_every_memory_and_adds_up():
    text = page(FULL)
    check_page(text)
    said = words(text)
    assert "conv2 weights0 weight 1,152 16 1 18,432 18,432 100% core.weights0.block0_0" in said
    assert "shell of the board receiver bytes from the host 1 18,432" in said
    assert "all 2 18,432 36,864" in said


def test_an_empty_netlist_has_no_memories(tmp_path):
    design = flow.schedule(flow.quantize(flow.read(CHECKOUT / "examples/digits/digits.onnx")), "ecp5", multipliers=8)
    (tmp_path / "netlist.json").touch()
    assert describe_memories(design, "", tmp_path / "netlist.json", design.target.board.family) == ()
