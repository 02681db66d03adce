"""No control drives many bits without copies; shown on the netlist of wide cores, after yosys has merged what it can.

A net *steers* the bits behind the multiplexers it selects (an enable is a multiplexer, too) and the bits of the
memories whose port it addresses or enables.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from amaranth.back import rtlil

from onnx_hw.assemble.elaborate import assemble
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator
from onnx_hw_boards.families.ecp5.recipes import ECP5
from onnx_hw_rtl.parts.fanout import BITS_PER_ADDRESS_COPY, BITS_PER_COPY, MAX_DISTRIBUTED_WORDS
from onnx_hw_rtl.target import Target
from onnx_hw_tools import tools
from support import core_tests
from support.hand_built_designs import unequal_branches
from support.made_once import made_once

DEEP_REACH = BITS_PER_ADDRESS_COPY
"""Number of bits in block RAMs that one net may steer: six pins."""

REACH = 3 * BITS_PER_COPY
"""Number of bits that one net may steer: those of a copy in each of three registers behind a block RAM; or the sum of a
lane.
"""

FIRING = 64
"""Number of bits of the counters, and of their decoded values, that an engine advances when it fires."""

CORES: dict[str, tuple[Operator, Folding]] = core_tests.collect("WIDE_CORES")

CORES["add_far"] = CORES["add_of_one"] = CORES["add"]
DEPTHS = {"add_far": 50, "add_of_one": 1}
"""Depth of the FIFO, where it is not in distributed memory."""

TARGET = Target(ECP5.primitives())
ASSEMBLY = "assembly"
FLIP_FLOP = "module TRELLIS_FF(input CLK, LSR, DI, output Q); endmodule"


@pytest.fixture(scope="module")
def netlists(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Return all cores for a chip, flattened and merged."""
    folder = made_once(tmp_path_factory, "wide_netlists", write_netlists)
    modules: Mapping[str, Any] = json.loads((folder / "netlists.json").read_text())["modules"]
    return modules


def write_netlists(folder: Path) -> None:
    (folder / "cells.v").write_text(FLIP_FLOP)
    script = ["read_verilog -lib cells.v"]
    for core, (operator, folding) in CORES.items():
        assert not operator.illegal(folding), core
        component = operator.core(folding, dict.fromkeys(operator.outputs, DEPTHS.get(core, 9)))
        (folder / f"{core}.il").write_text(rtlil.convert(component, name=core, platform=TARGET, emit_src=False))
        script.append(f"read_rtlil {core}.il")
    assembly, _ = assemble(unequal_branches(8))
    (folder / "assembly.il").write_text(rtlil.convert(assembly, name=ASSEMBLY, platform=TARGET, emit_src=False))
    script.append("read_rtlil assembly.il")
    script.append("setattr -mod -unset top *; proc; flatten; opt_clean; opt_merge; opt_clean; write_json netlists.json")
    yosys = tools.find("yosys")
    tools.run(yosys, ["-q", "-p", "; ".join(script)], cwd=folder, log=folder / "yosys.log")


def steered(netlist: Mapping[str, Any]) -> tuple[Counter[int], Counter[int], Counter[int]]:
    """Return the bits that each net steers, by its number: behind multiplexers; in memories of few words; in others."""
    chosen: Counter[int] = Counter()
    stored: Counter[int] = Counter()
    deep: Counter[int] = Counter()
    for cell in netlist["cells"].values():
        ports = cell["connections"]
        if cell["type"] in ("$mux", "$pmux"):
            chosen.update({net: len(ports["Y"]) for net in ports["S"]})
        elif cell["type"] in ("$memrd_v2", "$memwr_v2"):
            controls = {net for net in (*ports["ADDR"], *ports["EN"]) if isinstance(net, int)}
            words = int(netlist["memories"][cell["parameters"]["MEMID"].removeprefix("\\")]["size"])
            (stored if words <= MAX_DISTRIBUTED_WORDS else deep).update(dict.fromkeys(controls, len(ports["DATA"])))
    return chosen, stored, deep


def flip_flops(netlist: Mapping[str, Any]) -> set[int]:
    """Return the nets that flip-flops drive."""
    cells = [cell for cell in netlist["cells"].values() if cell["type"] in ("$dff", "TRELLIS_FF")]
    return {net for cell in cells for net in cell["connections"]["Q"]}


def nets(netlist: Mapping[str, Any], *names: str) -> set[int]:
    return {net for name in names for net in netlist["netnames"].get(name, {"bits": ()})["bits"]}


@pytest.mark.parametrize("core", CORES)
def test_no_control_reaches_far(core: str, netlists: Mapping[str, Any]) -> None:
    netlist = netlists[core]
    chosen, stored, deep = steered(netlist)
    for net in nets(netlist, "rst"):  # a register of the core's own, see ``Assembly``
        del chosen[net]
    fires = nets(netlist, "fires")
    assert max((chosen[net] for net in fires), default=0) <= FIRING
    assert max((bits for net, bits in chosen.items() if net not in fires), default=0) <= REACH
    assert max(deep.values(), default=0) <= DEEP_REACH
    assert {net for net, bits in deep.items() if bits > REACH} <= flip_flops(netlist)
    # A fork's strobes cannot wait for copies: it has no latency.
    assert len({net for net, bits in stored.items() if bits > REACH}) <= (2 if core == "fork" else 0)


@pytest.mark.parametrize("core", sorted(set(CORES) - {"reduce"}))
def test_nothing_stands_before_a_memory(core: str, netlists: Mapping[str, Any]) -> None:
    """Check that what is stored comes from registers, or from the core before. (Two totals leave a sum no time for
    one.)
    """
    cells = [(cell["type"], cell["connections"]) for cell in netlists[core]["cells"].values()]
    gates = {net for _, ports in cells for net in ports.get("Y", ())}
    assert gates.isdisjoint(net for kind, ports in cells if kind == "$memwr_v2" for net in ports["DATA"] if net != "x")


def test_the_reset_reaches_one_register_a_core(netlists: Mapping[str, Any]) -> None:
    netlist = netlists[ASSEMBLY]
    reset = nets(netlist, "rst")
    readers = [
        (cell["type"], port)
        for cell in netlist["cells"].values()
        for port, bits in cell["connections"].items()
        if reset & set(bits)
    ]
    assert readers == [("TRELLIS_FF", "DI")] * len(unequal_branches(8).network.nodes)


def test_a_control_that_reaches_far_would_be_seen(netlists: Mapping[str, Any]) -> None:
    """Check that the reset left out above reaches far, and that copies exist, which yosys would merge if it could."""
    reset = nets(netlists["window"], "rst")
    chosen, *_ = steered(netlists["window"])
    assert max(chosen[net] for net in reset) > FIRING
    copies = [cell for cell in netlists["concat"]["cells"].values() if cell["type"] == "TRELLIS_FF"]
    assert len({cell["connections"]["DI"][0] for cell in copies}) < len(copies)
