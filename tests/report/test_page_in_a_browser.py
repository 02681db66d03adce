"""Pages laid out by Chromium, where there is one: wide and narrow, light and dark."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from onnx_hw.commands.explore.grid import Choice
from onnx_hw.commands.explore.report import page as explore_page
from onnx_hw.commands.explore.result import Explored, Tally
from onnx_hw.commands.explore.row import ExploreRow, State
from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.report import proof_chain
from onnx_hw.report.html.comparison import compare
from onnx_hw.report.html.page import page
from onnx_hw.report.model import Report
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw_boards.cells import Cells
from support.sample_report import FULL

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DARK, LIGHT = 0, 1  # as Blink numbers them

MEASURE = """
const box = (element) => element.getBoundingClientRect();
const all = (selector) => [...document.querySelectorAll(selector)];
const meets = (one, two) =>
  one.left < two.right && two.left < one.right && one.top < two.bottom && two.top < one.bottom;
const nodes = all(".flow li");
const blocks = all("main > section, main > header");
const shade = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number);
const found = {
  width: document.documentElement.clientWidth,
  needed: document.documentElement.scrollWidth,
  verdict: Math.max(0, ...all(".verdict").map((verdict) => box(verdict).bottom)),
  copy: all("td > .copy").map((button) => box(button).right),
  hot: all(".flow.drawn li.hot").map((node) => {
    const [one, frame] = [box(node), box(node.closest(".scroll"))];
    return frame.top <= one.top && one.bottom <= frame.bottom;
  }),
  overlaps: blocks.slice(1).filter((block, k) => box(block).top < box(blocks[k]).bottom - 1).length,
  empty: all("svg").filter((svg) => !svg.childElementCount || box(svg).width < 10 || box(svg).height < 9).length,
  nodes: nodes.length,
  meeting: nodes.filter((one, k) => nodes.slice(k + 1).some((two) => meets(box(one), box(two)))).length,
  labels: all(".flow .edge").filter((label) => nodes.some((node) => meets(box(label), box(node)))).length,
  outside: all(".flow li *").filter((line) => box(line).bottom > box(line.closest("li")).bottom + 1).length,
  cut: all(".flow .name").filter((name) => name.scrollWidth > name.clientWidth).length,
  drawn: all(".flow path.line").length,
  distant: all(".flow .distant").reduce((sum, line) => sum + Number(line.textContent.match(/\\d+/)[0]), 0),
  plots: all(".plot canvas").map((canvas) => Math.min(canvas.width, canvas.height)),
  painted: all(".plot canvas").map((canvas) => new Set(new Uint32Array(
    canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size),
  brightness: (shade[0] + shade[1] + shade[2]) / 3,
};
parent.postMessage(JSON.stringify(found), "*");
"""

FRAME = """<!DOCTYPE html><body style="margin: 0">
<iframe src="page.html" style="border: 0; height: 900px; width: WIDTHpx"></iframe>
<script>addEventListener("message", (event) => { document.body.dataset.found = event.data; });</script></body>
"""
"""Page around the page, as wide as it is asked to be: a window of Chromium is at least about 500 pixels wide."""

LONG = "model/activation/Relu;model/batch_normalization/FusedBatchNormV3;model/conv2d/Conv2D/" + 9 * "x_"


def failed():
    """A build whose circuit differs, with names as exporters make them."""
    assert FULL.design is not None
    core = replace(FULL.design.nodes[0], name=LONG, outputs=(LONG,))
    problem = Problem("circuit-differs", f"{LONG}[0, 5, 3, 3]: golden 17, circuit 18, cycle 4211", LONG, "report it")
    design = replace(FULL.design, nodes=(core, FULL.design.nodes[1]))
    return replace(FULL, design=design, failure=proof_chain.failure("simulate", UserError(problem)), warnings=(LONG,))


def laid_out(text: str, folder: Path, width: int, scheme: int) -> dict[str, Any]:
    """Return what Chromium measures on a page."""
    text = text.replace("</body>", f"<script>//<![CDATA[\n{MEASURE}\n//]]></script></body>")
    (folder / "page.html").write_text(text, encoding="utf-8")
    place = folder / "frame.html"
    place.write_text(FRAME.replace("WIDTH", str(width)), encoding="utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1400,900",
        "--virtual-time-budget=10000",
        f"--user-data-dir={folder}",
    ]
    options += [f"--blink-settings=preferredColorScheme={scheme}", "--dump-dom", place.as_uri()]
    try:
        done = subprocess.run([str(CHROMIUM), *options], capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("Chromium does not answer")
    told = re.search(r'data-found="([^"]*)"', done.stdout)
    assert told is not None, done.stderr[-2000:]
    return dict(json.loads(unescape(told[1])))


def dense(layers: int) -> Report:
    """Return the report of a dense block: every layer reads the outputs of all layers before it."""
    assert FULL.design is not None
    core, fifo = FULL.design.nodes[0], FULL.design.fifos[0]
    outputs = [tuple(f"t{layer}.{reader}" for reader in range(layer, layers)) for layer in range(layers)]
    inputs = [("in", *(outputs[before][layer - before - 1] for before in range(layer))) for layer in range(layers)]
    cores = tuple(
        replace(core, name=f"layer {k}", inputs=taken, outputs=given)
        for k, (taken, given) in enumerate(zip(inputs, outputs, strict=True))
    )
    fifos = tuple(replace(fifo, edge=tensor) for given in outputs for tensor in given)
    return replace(FULL, design=replace(FULL.design, nodes=cores, fifos=fifos), timeline=None)


def explored() -> str:
    """Return the page of an exploration with many columns."""
    cells = Cells(1234, 2345, 12, 7)
    rows = tuple(
        ExploreRow(
            number=number,
            choice=Choice(board="ulx3s", scheduling=ScheduleRequest(multipliers=number), seed=number),
            command=f"onnx-hw build {LONG}.onnx --board ulx3s --multipliers {number} --seed {number}",
            state=State.ROUTED,
            lanes=number,
            interval=1000 // number,
            latency=2000,
            used=cells,
            fmax_mhz=80.0 + number,
            frames_per_second=1000.0 * number,
            sqnr_db=30.0,
            accuracy=0.97,
            best=number == 3,
            knee=number == 3,
        )
        for number in range(1, 6)
    )
    return explore_page(Explored(Path("explored"), rows, Tally(), 1.0), LONG)


WIDTHS = pytest.mark.parametrize(("width", "scheme"), [(1280, LIGHT), (800, DARK), (390, DARK)])


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@WIDTHS
def test_nothing_overlaps_or_is_empty(tmp_path: Path, width: int, scheme: int) -> None:
    found = laid_out(page(failed()), tmp_path, width, scheme)
    assert found["needed"] <= found["width"] <= width < found["width"] + 30, "the page is wider than the window"
    assert found["verdict"] < 600, "the reason for failure is below the fold"
    assert (found["overlaps"], found["empty"], found["outside"], found["cut"]) == (0, 0, 0, 0)
    assert (found["nodes"], found["meeting"], found["labels"], found["hot"]) == (6, 0, 0, [True])
    assert len(found["plots"]) == 2 and min(found["plots"]) > 90, "the timeline, and signal to noise"
    assert min(found["painted"]) > 5, "a plot is empty"
    assert (found["brightness"] < 60) == (scheme == DARK)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@WIDTHS
def test_other_pages_fit(tmp_path: Path, width: int, scheme: int) -> None:
    for text in (explored(), compare(failed(), FULL, (LONG, "b")).page()):
        found = laid_out(text, tmp_path, width, scheme)
        assert found["needed"] <= found["width"] <= width < found["width"] + 30, "the page is wider than the window"
        assert (found["overlaps"], found["empty"]) == (0, 0)
        assert (found["brightness"] < 60) == (scheme == DARK)
        assert width < 800 or all(right < width for right in found["copy"]), "a button is outside of the window"


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_long_streams_of_a_dense_block_are_named_and_not_drawn(tmp_path: Path) -> None:
    """Drawn, they would take dagre minutes for a network of a hundred layers."""
    found = laid_out(page(dense(24)), tmp_path, 1280, LIGHT)
    assert (found["meeting"], found["labels"], found["cut"]) == (0, 0, 0)
    streams = found["drawn"] + found["distant"] / 2
    assert found["distant"] > 0 and streams == 24 + sum(range(24)) + 24
