"""Resources that a build says to take: those of the whole chip, in logic cells where these are what ends it."""

from dataclasses import replace

import pytest

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.shell_area import shell_cells
from onnx_hw.report.collect import sections
from onnx_hw.report.model import Report
from onnx_hw.report.utilization import usage
from onnx_hw.runtime.schedule_request import ScheduleRequest
from support.fixture_paths import EXAMPLES
from support.sample_report import FULL
from support.targets import on_board


@pytest.fixture(scope="module")
def network():
    return flow.quantize(flow.read(EXAMPLES / "digits" / "digits.onnx"))


def report_of(network, name: str) -> tuple[Report, int]:
    """Return a report before synthesis, and the flip-flops of the shell."""
    board = find_board(name)
    design = on_board(flow.schedule(network, multipliers=4), board, board.default_clock_mhz)
    plan = sections.describe_plan(design, ScheduleRequest())
    shell = shell_cells(design.network, board, design.clock_mhz)
    return replace(FULL, board=sections.describe_board(board), design=plan, synthesis=None), shell.ff


def test_the_shell_of_a_board_and_its_logic_cells_are_counted(network):
    report, shell = report_of(network, "icebreaker")
    assert report.design is not None
    used = {use.name: use for use in usage(report)}
    parts = sum(core.ff for core in report.design.nodes) + sum(fifo.ff for fifo in report.design.fifos)
    assert shell > 100 and used["FF"].used == parts + shell
    assert max(used["LUT4"].used, used["FF"].used) < used["LC"].used < used["LUT4"].used + used["FF"].used
    assert used["LC"].available == 5280


def test_chips_whose_cells_are_apart_have_no_logic_cells(network):
    report, _ = report_of(network, "ulx3s")
    assert [use.name for use in usage(report)] == ["LUT4", "FF", "DSP", "BRAM"]


def test_cells_that_were_counted_go_before_the_estimate():
    assert usage(FULL)[0].used == FULL.synthesis.lut4 != FULL.design.estimate.lut4
