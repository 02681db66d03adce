"""``report.html``: what stands in it, that it refers to nothing outside, and that no name gets out of its place."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from onnx_hw.messages.errors import Problem, ToolProblem, UserError
from onnx_hw.report import proof_chain
from onnx_hw.report.html.dataflow_graph import Station, draw
from onnx_hw.report.html.page import outline, page, verdict
from onnx_hw.report.model import Report
from support.page_checks import check_page, words
from support.sample_report import FAST_LINK, FULL, SLOW_LINK

HOSTILE = "<b>&\"'</script><img src='http://x'>\x1b[2J\u202e{{ 7 * 6 }}"


def checked(report: Report) -> str:
    """Return the page of a report; it is well-formed and alone, every table and picture has words."""
    text = page(report)
    check_page(text)
    return text


def test_everything_is_there():
    text = words(checked(FULL))
    for name in ("conv1", "conv2", "digits", "image_int8", "scores_int8", "LFE5U-85F", "yosys", "0" * 64):
        assert name in text
    assert "Links 2 and 3 proven; 4 open" in text
    assert "932" in text and "69,444 frames/s" in text and "97.78 %" in text


def test_the_first_card_of_a_linked_board_is_what_a_user_gets():
    """Next to it stands what the circuit alone could do."""
    for serial, shown, limit in ((SLOW_LINK, "1,316", "link"), (FAST_LINK, "69,444", "circuit")):
        text = checked(replace(FULL, serial=serial))
        cards = text.split('<dl class="tiles">')[1].split("<div>")
        first, second = (" ".join(words(f"<body>{card}").split()) for card in cards[1:3])
        assert first == f"speed through the link {shown} frames/s the {limit} is the limit"
        assert "speed of the circuit" in second and "69,444 frames/s" in second


def test_an_early_stop_has_a_page():
    text = words(checked(Report(FULL.model, FULL.board)))
    assert "Nothing was proven" in text and "Core by core" not in text


def test_a_failure_is_said_first():
    problems = (Problem("too-big", "30 multipliers of 28", "`conv2`", "fewer lanes"), Problem("odd", "and <more>"))
    broken = replace(FULL, failure=proof_chain.failure("synthesize", UserError(*problems)))
    text = words(checked(broken))
    places = [text.index(part) for part in ("failed in the stage synthesize", "30 multipliers of 28", "and <more>")]
    assert places == sorted(places) and places[-1] < text.index("Four links lead") < text.index("Core by core")
    tool = ToolProblem("tool-failed", "yosys failed", "log", "", "tools", ("ERROR: <oops>",))
    assert "ERROR: <oops>" in words(checked(replace(FULL, failure=proof_chain.failure("synthesize", UserError(tool)))))


def test_names_in_a_failure_are_code_and_nothing_is_said_twice():
    problems = (
        Problem("a", "`c1` has 3; `<c2>` 4", "`c1`; then `c2`", "`--fps 2` fits"),
        Problem("b", "1 ` 2", "", "`--fps 2` fits"),
    )
    text = page(replace(FULL, failure=proof_chain.failure("schedule", UserError(*problems))))
    assert [words(text).count(part) for part in ("c1 has 3; <c2> 4", "where: c1 then c2", "hint: --fps 2 fits")] == [
        1,
        1,
        1,
    ]
    assert text.count('<code class="whole">') == 5 and "1 ` 2" in text


def test_the_verdict():
    slow = replace(FULL.synthesis, fmax_mhz=71.2, timing_met=False, critical_path=("conv1: total", "conv2: sum"))
    missed = replace(FULL, synthesis=slow)
    assert "the slowest path leads from conv1: total to conv2: sum" in words(checked(missed))
    assert (verdict(missed).kind, verdict(missed).sentence) == ("bad", "The circuit reaches 71.2 MHz, not 80 MHz")
    proven = replace(FULL.links, circuit_netlist=proof_chain.ChainLink("proven", "all of it", 2, 3, 10, 10))
    assert verdict(replace(FULL, links=proven)).word == "proven"
    assert verdict(FULL).word == "proven in part"
    differing = replace(
        FULL.links, golden_circuit=proof_chain.ChainLink("failed", "all", difference="y[0]: golden 1, circuit 2")
    )
    failed = replace(FULL, links=differing)
    assert verdict(failed).sentence == "Link 3 of the chain is broken"
    assert "y[0]: golden 1, circuit 2" in words(checked(failed))
    assert verdict(replace(FULL, failure=proof_chain.failure("route", None))).word == "was interrupted"


def test_names_are_words_and_nothing_else():
    core = replace(FULL.design.nodes[0], name=HOSTILE, outputs=(HOSTILE,), origin=(HOSTILE,))
    design = replace(FULL.design, nodes=(core,), fifos=(replace(FULL.design.fifos[0], edge=HOSTILE),))
    text = checked(replace(FULL, design=design, model=replace(FULL.model, name=HOSTILE, notes=(HOSTILE,))))
    assert not any(part in text for part in ("<b>&", "\x1b", "\u202e"))
    assert words(text).count("<b>&\"'</script>") >= 4 and "{{ 7 * 6 }}" in words(text)


@pytest.mark.parametrize(
    ("digits", "path"),
    [("0000", ""), ("9900", "M0 9V0H2V9H4V9Z"), ("0190", "M1 9V8H2V0H3V9H4V9Z"), ("009", "M2 9V0H3V9Z")],
)
def test_outlines(digits, path):
    assert outline(digits) == path


@pytest.mark.parametrize("seed", range(5))
def test_tracks_lead_from_where_a_tensor_begins_to_where_it_ends(seed):
    """Followed from row to row, the lines of the picture join exactly the stations that share a tensor."""
    import random

    random = random.Random(seed)
    gives: dict[int, list[str]] = {}
    takes: dict[int, list[str]] = {}
    count = random.randint(3, 12)
    for number in range(count * 2):
        first = random.randrange(count - 1)
        gives.setdefault(first, []).append(f"t{number}")
        takes.setdefault(random.randrange(first + 1, count), []).append(f"t{number}")
    stations = [Station(tuple(takes.get(k, ())), tuple(gives.get(k, ()))) for k in range(count)]
    picture = draw(stations)
    ends = {}
    for path in picture.paths:
        numbers = [int(n) for n in re.findall(r"\d+", path)]
        begin = (numbers[0], numbers[1])
        ends.setdefault(begin, []).append((numbers[0], numbers[-1]) if "V" in path else (numbers[-2], numbers[-1]))
    dots = {(dot.x, dot.y): k for k, dot in enumerate(picture.dots)}
    joined = []
    for place, k in dots.items():
        for end in ends.get(place, ()):
            while end not in dots:
                (end,) = ends[end]
            joined.append((k, dots[end]))
    wanted = [(k, there) for k in gives for name in gives[k] for there in takes if name in takes[there]]
    assert sorted(joined) == sorted(wanted)
    assert all(0 < dot.x < picture.width and 0 < dot.y < picture.height for dot in picture.dots)
