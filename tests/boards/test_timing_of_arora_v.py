"""The slowest path of a routed Arora V, in small files of delays whose sums are made by hand."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.implement import route
from onnx_hw.implement.synthesize import SynthesisResult
from onnx_hw.runtime.build_folder import BuildFolder, Made
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.families.family import SlowestPath
from onnx_hw_boards.families.gw5a.timing import slowest_path
from onnx_hw_tools.tools import Tool

FLIP_FLOP = (
    "(IOPATH CLK Q (200:210:231) (200:210:230))",
    "(SETUPHOLD (posedge D) (posedge CLK) (35:35:35) (10:10:10))",
)


def delays(
    cells: dict[str, str], wires: list[tuple[str, str, int]], arcs: dict[str, list[str]] | None = None
) -> list[str]:
    """Return the lines of a file as nextpnr writes it, of cells by kind, and wires with their delays."""
    lines = ['(CELLTYPE "top")', "(INSTANCE )"]
    lines += [f"(INTERCONNECT {source} {sink} (1:2:{ps}) (1:1:{ps - 1}))" for source, sink, ps in wires]
    for name, kind in cells.items():
        lines += [f'(CELLTYPE "{kind}")', f"(INSTANCE {name})", *(FLIP_FLOP if kind == "DFF" else ())]
        lines += (arcs or {}).get(name, ())
    return lines


def test_a_path_is_the_sum_of_its_cells_and_wires() -> None:
    """A name may have characters that SDF escapes."""
    cells = {"a": "DFF", r"b\$1": "LUT4", "c": "DFF"}
    wires = [("a/Q", r"b\$1/I1", 700), (r"b\$1/F", "c/D", 900), ("c/Q", "a/D", 10)]
    path = slowest_path(delays(cells, wires, {r"b\$1": ["(IOPATH I1 F (1:2:570) (1:2:569))"]}))
    period = 231 + 700 + 570 + 900 + 35
    assert path.mhz == pytest.approx(1e6 / period)
    assert (path.first, path.last) == ("a", "c")
    assert (path.logic_ns, path.routing_ns) == (pytest.approx(0.836), pytest.approx(1.6))


def test_the_longer_of_two_ways_counts() -> None:
    cells = {"a": "DFF", "b": "LUT4", "c": "DFF"}
    wires = [("a/Q", "b/I0", 100), ("a/Q", "b/I3", 100), ("b/F", "c/D", 3000)]
    path = slowest_path(delays(cells, wires))  # a table that nextpnr made has no arcs in the file
    assert path.mhz == pytest.approx(1e6 / (231 + 100 + 549 + 3000 + 35))


@pytest.mark.parametrize(
    ("kind", "out", "into", "to_output", "setup"),
    [
        ("MULT12X12", "DOUT8", "A4", 1000, 500),
        ("MULTALU27X18", "DOUT20", "B17", 3000, 500),
        ("ROM", "DO3", "AD7", 307, 438),
    ],
)
def test_paths_of_cells_that_nextpnr_does_not_time_count(
    kind: str, out: str, into: str, to_output: int, setup: int
) -> None:
    cells = {"a": "DFF", "m": kind, "c": "DFF"}
    behind = slowest_path(delays(cells, [("a/Q", f"m/{into}", 10), (f"m/{out}", "c/D", 6000)]))
    assert behind.mhz == pytest.approx(1e6 / (to_output + 6000 + 35)) and (behind.first, behind.last) == ("m", "c")
    before = slowest_path(delays(cells, [("a/Q", f"m/{into}", 6000), (f"m/{out}", "c/D", 10)]))
    assert before.mhz == pytest.approx(1e6 / (231 + 6000 + setup)) and (before.first, before.last) == ("a", "m")


def test_a_multiplier_has_a_slowest_clock_of_its_own() -> None:
    path = slowest_path(delays({"a": "DFF", "m": "MULT12X12"}, [("a/Q", "m/A0", 10), ("a/Q", "a/D", 10)]))
    assert path.mhz == pytest.approx(200) and (path.first, path.last, path.routing_ns) == ("m", "m", 0.0)


def test_a_clock_pin_is_no_end_of_a_path() -> None:
    path = slowest_path(delays({"a": "DFF", "m": "MULT12X12"}, [("a/Q", "m/CLK0", 9000), ("a/Q", "a/D", 10)]))
    assert path.mhz == pytest.approx(200)


def test_a_loop_is_refused() -> None:
    cells = {"a": "DFF", "b": "LUT4", "c": "LUT4"}
    wires = [("a/Q", "b/I0", 1), ("b/F", "c/I0", 1), ("c/F", "b/I1", 1), ("c/F", "a/D", 1)]
    with pytest.raises(ValueError, match="wait for each other"):
        slowest_path(delays(cells, wires))


def test_a_file_without_registers_is_refused() -> None:
    with pytest.raises(ValueError, match="no register drives another one"):
        slowest_path(delays({"b": "LUT4", "c": "LUT4"}, [("b/F", "c/I0", 1)]))


@pytest.mark.parametrize(("own", "stated"), [(90.126, 90.13), (130.0, 120.5)])
def test_the_clock_of_a_routed_chip_is_the_lower_of_both(own: float, stated: float, tmp_path: Path) -> None:
    """Of nextpnr's, which leaves cells out, and of the own analysis."""
    report = {"fmax": {"clk": {"achieved": 120.5}}, "utilization": {}, "critical_paths": []}
    (tmp_path / "report.json").write_text(json.dumps(report))
    (tmp_path / "path.json").write_text(json.dumps(asdict(SlowestPath(own, "a", "m", 4.0004, 7.0))))
    result = route.read_result(Made(tmp_path, "", False, {}), find_board("tang_primer_25k"), 100.0)
    assert result.fmax_mhz == stated and result.timing_met == (stated > 100)
    assert (result.critical_path, result.logic_ns, result.routing_ns) == (("a", "m"), 4.0, 7.0)


@pytest.mark.parametrize(("board", "analysed"), [("tang_primer_25k", True), ("ecp5", False)])
def test_a_design_is_routed_anew_for_another_analysis(board: str, analysed: bool, tmp_path: Path) -> None:
    """The delays of hidden cells are part of what a stored result depends on."""
    seen: list[dict[str, object]] = []

    class Folder(BuildFolder):
        def stage(self, name: str, inputs: Any, make: object) -> Made:
            seen.append(inputs)
            raise KeyboardInterrupt

    made = Made(tmp_path, "", False, {"netlist.json": "digest"})
    synthesis = SynthesisResult(tmp_path / "netlist.json", Cells(), {}, "abc9", made)
    nextpnr = Tool("nextpnr-ecp5", ("echo", "0.8"), "PATH")
    with pytest.raises(KeyboardInterrupt):
        route.route(Folder(tmp_path), synthesis, find_board(board), "", 50.0, nextpnr=nextpnr)
    assert ("MULTALU27X18" in str(seen[0].get("analysis"))) == analysed
