"""No combinational path leads through a core, except for the ready of a join; shown on the netlist that yosys gets.

So any number of cores can be connected without a critical path that grows, and without a combinational loop.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.back import rtlil

from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator
from onnx_hw_tools import tools
from support import core_tests
from support.made_once import made_once

CORES: dict[str, tuple[Operator, Folding]] = core_tests.collect("NARROW_CORES")
DEPTHS = {"register": 1, "lutram": 9, "block_ram": 50}


def joins(operator: Operator, folding: Folding) -> dict[str, set[str]]:
    """Return the only paths there may be: inputs that one operation pops are ready when the others are there."""
    return {
        f"{port}__ready": {f"{other}__valid" for other in engine.pops if other != port}
        for engine in operator.schedule(folding).engines
        for port in engine.pops
        if len(engine.pops) > 1 and all(np.array_equal(engine.pops[port], events) for events in engine.pops.values())
    }


@pytest.fixture(scope="module")
def netlists(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Return all cores with all kinds of FIFO, flattened, by ``{core}_{kind}``."""
    folder = made_once(tmp_path_factory, "narrow_netlists", write_netlists)
    modules: Mapping[str, Any] = json.loads((folder / "netlists.json").read_text())["modules"]
    return modules


def write_netlists(folder: Path) -> None:
    read = []
    for core, (operator, folding) in CORES.items():
        for kind, depth in DEPTHS.items():
            component = operator.core(folding, dict.fromkeys(operator.outputs, depth))
            (folder / f"{core}_{kind}.il").write_text(rtlil.convert(component, name=f"{core}_{kind}", emit_src=False))
            read.append(f"read_rtlil {core}_{kind}.il")
    _yosys(folder, f"{'; '.join(read)}; setattr -mod -unset top *; proc; flatten; opt_clean; write_json netlists.json")


def _yosys(folder: Path, script: str) -> None:
    tools.run(tools.find("yosys"), ["-q", "-p", script], cwd=folder, log=folder / "yosys.log")


def paths(netlist: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return for each output port the input ports from which a combinational path leads to it."""
    causes: dict[int, tuple[int, ...]] = {}
    for cell in netlist["cells"].values():
        inputs = tuple(_bits(cell, "input")) if _is_combinational(cell) else ()
        causes |= dict.fromkeys(_bits(cell, "output"), inputs)
    enters = {b: name for name, port in netlist["ports"].items() if port["direction"] == "input" for b in port["bits"]}
    found = {}
    for name, port in netlist["ports"].items():
        if port["direction"] == "output":
            waiting, seen = [bit for bit in port["bits"] if isinstance(bit, int)], set()
            while waiting:
                bit = waiting.pop()
                if bit not in seen:
                    seen.add(bit)
                    assert bit in causes or bit in enters, f"nothing drives bit {bit} of {name}"
                    waiting += causes.get(bit, ())
            found[name] = {enters[bit] for bit in seen if bit in enters}
    return found


def _bits(cell: Mapping[str, Any], direction: str) -> Iterator[int]:
    for port, bits in cell["connections"].items():
        if cell["port_directions"][port] == direction:
            yield from (bit for bit in bits if isinstance(bit, int))


def _is_combinational(cell: Mapping[str, Any]) -> bool:
    kind: str = cell["type"]
    assert not any(word in kind for word in ("latch", "sr", "$mem_")), f"unexpected cell {kind}"
    if kind == "$memrd_v2":
        return int(cell["parameters"]["CLK_ENABLE"], 2) == 0
    return "dff" not in kind and kind != "$memwr_v2"


@pytest.mark.parametrize("kind", DEPTHS)
@pytest.mark.parametrize("core", CORES)
def test_no_path_leads_through(core: str, kind: str, netlists: Mapping[str, Any]) -> None:
    found = paths(netlists[f"{core}_{kind}"])
    allowed = joins(*CORES[core])
    # ``fires`` is a probe of the test bench, left open in a bitstream
    streams = {port for port in found if port != "fires"}
    assert {port: found[port] for port in streams} == {port: allowed.get(port, set()) for port in streams}
    assert {"o__valid", "o__payload", "o0__valid", "o0__payload"} & streams


def test_a_path_would_be_seen(netlists: Mapping[str, Any]) -> None:
    """Check that ``fires`` of a one-input engine depends on its input's valid, and on nothing else."""
    assert paths(netlists["matmul_lutram"])["fires"] == {"i__valid"}
