"""What a person sees of a report; as plain text, since colour must never be needed."""

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from onnx_hw.report import report
from onnx_hw.report.show import bar, summary, verdict
from sample_report import FULL


def shown(what, width=100):
    console = Console(width=width, no_color=True, legacy_windows=False)
    with console.capture() as capture:
        console.print(what)
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
        " accuracy   model 98.06%, golden 97.78% of 360 samples; circuit 97.78% of 300\n"
        " clock      96.5 MHz, PASS at 80 MHz\n"
        " speed      69,444 frames/s, first result after 25 µs, at 80 MHz; multipliers busy 57%\n"
        " bitstream  digits-ecp5/top.bit\n"
        " report     digits-ecp5/report.json\n"
    )


def test_without_synthesis_the_resources_are_estimates():
    text = shown(summary(replace(FULL, synthesis=None), Path("out")))
    assert " LUT4  [=         ]   6%    4,836 of 83,640  (estimated)\n" in text  # FIFOs, too
    assert " BRAM  [=         ]   6%       12 of 208  (estimated)\n" in text
    assert "FF" not in text
    assert "MHz, " not in text


def test_an_early_stop_shows_what_there_is():
    assert shown(summary(report.Report(FULL.model, FULL.board), Path("out"))).strip() == ""


def test_what_was_asked_for_is_told_beside_what_came_of_it():
    asked = replace(FULL, design=replace(FULL.design, frames_per_second_asked=60_000.0))
    assert " speed      69,444 frames/s (60,000 asked), first result" in shown(summary(asked, Path("out")))


def test_missed_timing_is_a_verdict():
    missed = replace(FULL.synthesis, fmax_mhz=71.24, timing_met=False)
    assert shown(verdict(missed)) == " clock      71.2 MHz, FAIL at 80 MHz\n"


def test_bars():
    assert shown(bar("DSP", 1, 1000)) == " DSP   [=         ]   0%        1 of 1,000\n"
    assert shown(bar("DSP", 200, 100)) == " DSP   [==========] 200%      200 of 100\n"
    assert shown(bar("DSP", 1, 0)) == " DSP   [==========] 100%        1 of 0\n"


def test_names_with_brackets_are_not_markup():
    core = replace(FULL.design.nodes[0], name="conv[red]")
    text = shown(summary(replace(FULL, design=replace(FULL.design, nodes=(core,))), Path("[bold]")))
    assert "conv[red]" in text
    assert "[bold]/top.bit" in text
