"""Figures of a report against their second derivation: each way to calculate one wrongly ends a build."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.commands.build import Build, build
from onnx_hw.commands.figure_check import clocks_of_log, different_figures
from onnx_hw.commands.wire_load import bytes_of_a_frame
from onnx_hw.implement import route
from onnx_hw.implement.route import RouteResult
from onnx_hw.ir.target import DesignTarget
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.report.collect import sections
from onnx_hw.report.model import Report, Serial
from onnx_hw.report.netlist_sections import Synthesis
from onnx_hw.runtime.build_folder import Made
from onnx_hw.schedule import link_bandwidth
from onnx_hw_boards.board_link import BoardLink
from onnx_hw_boards.links.spi import Spi
from onnx_hw_boards.links.uart import Uart
from onnx_hw_link.link import Link, LinkPort
from support.small_model import small_model


def built(folder: Path, board: str) -> Build:
    model = small_model(folder / "small.onnx")
    return build(model, board=board, out=folder / "build", stop_after="simulate", witness=False, store=None)


def wrong_rate(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    monkeypatch.setattr(DesignTarget, "frames_per_second", lambda self, cycles: factor * self.clock_mhz * 1e6 / cycles)


def wrong_bytes(monkeypatch: pytest.MonkeyPatch, kind: type[BoardLink], bits: int) -> None:
    monkeypatch.setattr(kind, "bytes_per_second", property(lambda self: self.bits_per_second / bits))


def wrong_link(monkeypatch: pytest.MonkeyPatch, rate: Callable[[int, int, BoardLink], float]) -> None:
    monkeypatch.setattr(sections, "frames_a_second", rate)


def wrong_serial(monkeypatch: pytest.MonkeyPatch, **figures: Any) -> None:
    def changed(*facts: Any) -> Serial:
        stated = Serial(*facts)
        return Serial(**{**vars(stated), **{name: figure(stated) for name, figure in figures.items()}})

    monkeypatch.setattr(sections.report, "Serial", changed)


FAULTS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None], str]] = {
    "frames of one cycle less": ("ulx3s", lambda patch: wrong_rate(patch, 1.02), "rate of the circuit"),
    "kilohertz for megahertz": ("icebreaker", lambda patch: wrong_rate(patch, 1e-3), "rate of the circuit"),
    "8 bits of a UART's byte": ("ulx3s", lambda patch: wrong_bytes(patch, Uart, 8), "the link is stated to carry"),
    "14 bits of a UART's byte": ("ulx3s", lambda patch: wrong_bytes(patch, Uart, 14), "the link is stated to carry"),
    "no framing": (
        "ulx3s",
        lambda patch: wrong_link(patch, lambda into, out, link: link.bytes_per_second / max(into, out)),
        "the link is stated to carry",
    ),
    "the way in alone": (
        "ulx3s",
        lambda patch: wrong_link(patch, lambda into, out, link: link.bytes_per_second / (into + 7)),
        "the link is stated to carry",
    ),
    "both directions one after the other": (
        "ulx3s",
        lambda patch: wrong_link(patch, lambda into, out, link: link.bytes_per_second / (into + out + 29)),
        "the link is stated to carry",
    ),
    "the faster one is delivered": (
        "ulx3s",
        lambda patch: wrong_serial(patch, delivered_frames_per_second=lambda stated: 2 * stated.frames_per_second),
        "are stated to be delivered",
    ),
    "the other one is the limit": (
        "ulx3s",
        lambda patch: wrong_serial(patch, limit=lambda stated: {"link": "circuit", "circuit": "link"}[stated.limit]),
        "is stated to be the limit",
    ),
    "bytes of a frame out for in": (
        "ulx3s",
        lambda patch: wrong_serial(patch, bytes_in=lambda stated: stated.bytes_out),
        "frames are stated to have",
    ),
    "the clock of another chip": (
        "ulx3s",
        lambda patch: patch.setattr(Report, "running_mhz", property(lambda self: 25.0)),
        "at the clock it runs at",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_figure_ends_the_build(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board, put_in, named = FAULTS[fault]
    put_in(monkeypatch)
    with pytest.raises(UserError, match=named) as caught:
        built(tmp_path, board)
    assert caught.value.exit_code is ExitCode.MISMATCH and caught.value.problems[0].code == "figures-differ"
    assert (
        json.loads((tmp_path / "build" / "report.json").read_text())["failure"]["faults"][0]["code"] == "figures-differ"
    )


def test_the_figures_of_a_sound_build_agree(tmp_path: Path) -> None:
    report = built(tmp_path, "ulx3s").report
    assert report.serial is not None and report.simulation is not None and report.design is not None
    assert report.simulation.interval_cycles == report.design.interval_cycles


LOG = """
Info: Max frequency for clock '$glbnet$clk': 101.20 MHz (PASS at 60.00 MHz)
Info: Max frequency for clock  'sck': 40.02 MHz (FAIL at 60.00 MHz)
Info: Max delay <async> -> posedge sck: 3.32 ns
Info: Max frequency for clock '$glbnet$clk': 88.76 MHz (PASS at 60.00 MHz)
Info: Max frequency for clock  'sck': 70.55 MHz (PASS at 60.00 MHz)
"""


def routed(folder: Path) -> RouteResult:
    clocks = {"$glbnet$clk": {"achieved": 88.762, "constraint": 60}, "sck": {"achieved": 70.549, "constraint": 60}}
    report = {"fmax": clocks, "utilization": {}, "critical_paths": []}
    (folder / "report.json").write_text(json.dumps(report))
    (folder / route.LOG).write_text(LOG)
    return route.read_result(Made(folder, "", False, {}), find_board("ulx3s"), 60.0)


def of_route(found: RouteResult) -> Report:
    model, board = sections.empty_model(Path("model.onnx")), sections.describe_board(found.board)
    synthesis = Synthesis(1, 1, 1, 1, fmax_mhz=found.fmax_mhz, target_mhz=found.target_mhz, timing_met=found.timing_met)
    return Report(model, board, synthesis=synthesis)


def test_the_slowest_of_several_clocks_is_that_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = routed(tmp_path)
    assert clocks_of_log(found.log_text) == {"$glbnet$clk": 88.76, "sck": 70.55}
    assert not list(different_figures(of_route(found), None, "", found.log_text))
    monkeypatch.setattr(route, "min", max, raising=False)  # the fastest one
    fastest = routed(tmp_path)
    assert fastest.fmax_mhz == 88.76
    (said,) = different_figures(of_route(fastest), None, "", fastest.log_text)
    assert said == "the highest clock is stated as 88.76 MHz; in nextpnr's log `sck` reaches 70.55 MHz"


def test_a_clock_may_be_slower_than_in_a_log_that_does_not_time_all_cells(tmp_path: Path) -> None:
    found = routed(tmp_path)
    slower, faster = (replace(found, fmax_mhz=found.fmax_mhz + more) for more in (-3, 3))
    assert not list(different_figures(of_route(slower), None, "", found.log_text, log_times_all=False))
    for wrong, times_all in ((slower, True), (faster, False)):
        (said, *_) = different_figures(of_route(wrong), None, "", found.log_text, log_times_all=times_all)
        assert f"stated as {wrong.fmax_mhz:g} MHz" in said


def test_a_clock_that_is_missed_is_not_stated_to_be_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RouteResult, "timing_met", property(lambda self: self.fmax_mhz < self.target_mhz))
    found = routed(tmp_path)
    (said,) = different_figures(of_route(found), None, "", found.log_text)
    assert said.startswith("the clock of 60 MHz is stated to be missed; in nextpnr's log `sck` reaches")


@pytest.mark.parametrize("link", [Uart(1_000_000), Spi(1_000_000)])
@pytest.mark.parametrize(
    ("bytes_in", "bytes_out"),
    [(1, 1), (11, 1), (64, 10), (90, 5), (256, 3), (512, 3), (784, 10), (10, 700), (300, 300), (20_000, 2)],
)
def test_the_rate_of_a_link_is_that_of_the_drivers_packets(bytes_in: int, bytes_out: int, link: BoardLink) -> None:
    """It is within half a percent, with the buffers that a build has."""
    facts = Link(bytes(16), (LinkPort("x", bytes_in, 1, 8),), (LinkPort("y", bytes_out, 1, 8),), 10_000_000)
    counted = link.bytes_per_second / max(bytes_of_a_frame(facts.greeting))
    assert link_bandwidth.frames_a_second(bytes_in, bytes_out, link) == pytest.approx(counted, rel=0.005)


@pytest.mark.parametrize(("frames", "judged"), [(2, False), (3, False), (4, True), (9, True)])
def test_the_first_frames_may_come_apart(frames: int, judged: bool, tmp_path: Path) -> None:
    """A streaming step with a state came two cycles later in its second frame than at its full rate."""
    report = built(tmp_path, "ecp5").report
    assert report is not None
    assert report.design is not None
    assert report.simulation is not None
    late = report.design.interval_cycles + 2
    report = replace(report, simulation=replace(report.simulation, frames=frames, interval_cycles=late))
    assert any("were simulated" in said for said in different_figures(report, None, "", "")) == judged
