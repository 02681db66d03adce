"""The memory map, from texts as yosys writes them, and from yosys itself."""

from __future__ import annotations

from onnx_hw import flow
from onnx_hw.assemble.elaborate import module_names
from onnx_hw.report.html.page import page
from onnx_hw.report.memory_map import describe_memories
from support.fixture_paths import CHECKOUT
from support.page_checks import check_page, words
from support.sample_report import FULL

CELL = """        "{name}": {{
          "hide_name": 0,
          "type": "{kind}",
"""


def test_blocks_belong_to_the_memories_of_their_cores(tmp_path):
    """Of two cores: weights that a primitive places, a memory that synthesis maps, one of the shell, and others."""
    design = flow.schedule(flow.quantize(flow.read(CHECKOUT / "examples/digits/digits.onnx")), "ecp5", multipliers=8)
    modules = module_names(design)
    dense = next(node for node in design.network.nodes if node.name == "scores/Gemm")
    pool = next(node for node in design.network.nodes if type(node.operator).__name__ == "Pool")
    parts = [f'    "top.design.{modules[dense.name]}": {{\n      "attributes": {{}},\n']
    parts += [CELL.format(name=f"core.weights0.block{bank}_0", kind="DP16KD") for bank in range(2)]
    parts += [CELL.format(name="core.weights0.block0_0_Z", kind="LUT4"), CELL.format(name="core.x.0.0", kind="DP16KD")]
    parts += [f'    "top.design.{modules[pool.name]}": {{\n      "attributes": {{}},\n']
    parts += [CELL.format(name="core.ring0_0.0.0", kind="DP16KD")]
    parts += [
        '    "top": {\n      "attributes": {},\n',
        CELL.format(name="shell.end.sender.memory.0.0", kind="PDPW16KD"),
    ]
    netlist = tmp_path / "netlist.json"
    netlist.write_text("".join(parts), encoding="utf-8")
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
