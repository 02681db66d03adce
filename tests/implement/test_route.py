"""Seeds of the placer, with a program in nextpnr's place: a chip that is nearly full takes luck."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.implement.route import RouteResult, route
from onnx_hw.implement.synthesize import SynthesisResult
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.runtime.build_folder import opened
from onnx_hw_boards.cells import Cells
from onnx_hw_tools.process import ToolFailed
from onnx_hw_tools.tools import Tool

NEXTPNR = """
import json, pathlib, sys
words = dict(zip(sys.argv, sys.argv[1:]))
print("Info: \\t         ICESTORM_LC:    4522/   5280    85%")
if int(words["--seed"]) < {legal}:
    sys.exit("ERROR: {why}")
pathlib.Path(words["--asc"]).write_text(words["--seed"])
clocks = {{"clk": {{"achieved": 30.0, "constraint": 24.0}}}}
report = {{"fmax": clocks, "critical_paths": [], "utilization": {{"ICESTORM_LC": {{"used": 4522, "available": 5280}}}}}}
pathlib.Path(words["--report"]).write_text(json.dumps(report))
"""
NO_PLACE = "Unable to find legal placement for all cells, design is probably at utilisation limit."


def routed(folder: Path, legal: int, seeds: int, why: str = NO_PLACE) -> RouteResult:
    """Route by a program that places from seed ``legal`` on; the first seed is 5."""
    program = folder / "nextpnr.py"
    program.write_text(NEXTPNR.format(legal=legal, why=why))
    nextpnr = Tool("nextpnr-ice40", (sys.executable, str(program)), "PATH")
    with opened(folder / "build") as build:
        made = build.stage("synthesize", {}, lambda folder: (folder / "netlist.json").write_text("{}") and None)
        synthesis = SynthesisResult(made.folder / "netlist.json", Cells(), {}, "", made)
        return route(build, synthesis, find_board("up5k"), "", 24, seed=5, seeds=seeds, nextpnr=nextpnr)


def test_a_seed_that_places_is_taken(tmp_path: Path) -> None:
    result = routed(tmp_path, 5, 3)
    assert result.other_seed is None and str(result) == "30.0 MHz (PASS at 24 MHz)"
    assert result.configuration.read_text() == "5"


def test_the_next_seeds_are_tried_and_the_result_says_so(tmp_path: Path) -> None:
    result = routed(tmp_path, 7, 3)
    assert result.other_seed == 7 and str(result) == "30.0 MHz (PASS at 24 MHz, with seed 7)"
    assert result.configuration.read_text() == "7"
    assert routed(tmp_path, 7, 3).other_seed == 7  # as stored


@pytest.mark.parametrize(("seeds", "tried", "next_one"), [(1, "seed 5", 6), (3, "seeds 5 to 7", 8)])
def test_a_design_that_no_seed_places_is_refused_in_words_of_a_user(
    tmp_path: Path, seeds: int, tried: str, next_one: int
) -> None:
    with pytest.raises(UserError) as refusal:
        routed(tmp_path, 9, seeds)
    (problem,) = refusal.value.problems
    assert problem.code == "not-placed" and refusal.value.exit_code == ExitCode.DOES_NOT_FIT
    assert f"with {tried} it did not, at 4,522 of 5,280 logic cells" in problem.message
    assert f"`--seed {next_one}`" in problem.hint


def test_other_failures_are_not_tried_again(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed):
        routed(tmp_path, 6, 3, why="there is no such pin")
