"""What ``infer --check`` gives to paste into the form for boards that were tried; and the form is there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from onnx_hw import __version__
from onnx_hw.cli.show.summaries import FORM, infer_summary, tried_on_board
from onnx_hw.commands.infer import InferResult, Tried
from onnx_hw.samples.outputs import Outputs
from onnx_hw.timing.link_times import LinkTimesCheck
from onnx_hw_link.session import Faults
from support.fixture_paths import CHECKOUT

MADE = InferResult(
    Outputs({"y": np.zeros((3, 1))}, None),
    3,
    (10_000, 11_000),
    (9_216, 9_300, 9_216),
    Faults(broken=1, missed=2, silent=3, resent=4),
    Tried("digits", "icebreaker", "5a" * 16, "/dev/ttyUSB1", 1_000_000),
    True,
)


def test_what_may_be_pasted() -> None:
    first, board, build, port, *rest, last = tried_on_board(MADE).splitlines()
    assert first == last == "```"
    assert board == "board: icebreaker; its revision, and how it is connected: ..."
    assert build == f"onnx-hw {__version__}: digits on icebreaker, design {'5a' * 16}"
    assert port.startswith("port: /dev/ttyUSB1, 1,000,000 baud; ")
    assert rest == ["frames: 3 of 3 as golden", "wire: 1 broken packets, 2 missed, 3 silences, 4 sent again"]
    assert infer_summary(MADE).plain.endswith(f"for {FORM}:\n\n{tried_on_board(MADE)}")
    assert "```" not in infer_summary(replace(MADE, checked=False)).plain
    simulated = replace(MADE, device=replace(MADE.device, port="sim"))
    assert "port: simulated, no board, " in tried_on_board(simulated)


@pytest.mark.parametrize("intervals", [(9_216, 9_300, 9_216), ()])
def test_cycles_are_told_where_they_were_compared(intervals: tuple[int, ...]) -> None:
    seen = LinkTimesCheck(frames=3, exact=2, wrong=(), latency=10_000)
    told = tried_on_board(replace(MADE, timing=seen, intervals=intervals))
    pace = "9,216 from frame to frame" if intervals else "one frame alone"
    assert f"cycles: 2 of 3 as predicted, 1 within bounds, {pace}\n" in told


def test_the_form_is_there() -> None:
    form = CHECKOUT / ".github" / "ISSUE_TEMPLATE" / "tried-on-a-board.yml"
    name, *body = form.read_text("utf-8").splitlines()
    assert name.removeprefix("name: ") in FORM
    assert any("label: " in line and "--check" in line for line in body)
