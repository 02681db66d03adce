"""``report.html``: what stands in it, that it refers to nothing outside, and that no name gets out of its place."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from onnx_hw.messages.errors import Problem, ToolProblem, UserError
from onnx_hw.prove.circuit.gate_level import GateLevel
from onnx_hw.report import proof_chain
from onnx_hw.report.build_request import BuildRequest
from onnx_hw.report.html.dataflow_graph import dataflow_graph
from onnx_hw.report.html.page import notebook, outline, page, verdict
from onnx_hw.report.model import Report
from support.page_checks import check_page, data_of, words
from support.sample_report import DESIGN, FAST_LINK, FULL, SLOW_LINK, SYNTHESIS

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
    assert "Links 2 and 3 proven; 4 and 5 open" in text
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
    assert places == sorted(places) and places[-1] < text.index("Five links lead") < text.index("Core by core")
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
    slow = replace(SYNTHESIS, fmax_mhz=71.2, timing_met=False, critical_path=("conv1: total", "conv2: sum"))
    missed = replace(FULL, synthesis=slow)
    assert "the slowest path leads from conv1: total to conv2: sum" in words(checked(missed))
    assert (verdict(missed).kind, verdict(missed).sentence) == ("bad", "The circuit reaches 71.2 MHz, not 80 MHz")
    link = proof_chain.ChainLink("proven", "all of it", 2, 3, 10, 10)
    netlist_proven = replace(FULL.links, circuit_netlist=link)
    assert verdict(replace(FULL, links=netlist_proven)).sentence == "Links 2, 3 and 4 proven; 5 open"
    proven = replace(netlist_proven, netlist_bitstream=link)
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
    core = replace(DESIGN.nodes[0], name=HOSTILE, outputs=(HOSTILE,), origin=(HOSTILE,))
    design = replace(DESIGN, nodes=(core,), fifos=(replace(DESIGN.fifos[0], edge=HOSTILE),))
    text = checked(replace(FULL, design=design, model=replace(FULL.model, name=HOSTILE, notes=(HOSTILE,))))
    assert not any(part in text for part in ("<b>&", "\x1b", "\u202e"))
    assert words(text).count("<b>&\"'</script>") >= 4 and "{{ 7 * 6 }}" in words(text)


@pytest.mark.parametrize(
    ("digits", "path"),
    [("0000", ""), ("9900", "M0 9V0H2V9H4V9Z"), ("0190", "M1 9V8H2V0H3V9H4V9Z"), ("009", "M2 9V0H3V9Z")],
)
def test_outlines(digits, path):
    assert outline(digits) == path


def test_streams_of_the_graph_join_the_nodes_that_share_a_tensor():
    """Branches, several outputs, an input that two cores read: an edge for every reader, by the tensors alone."""
    draw = random.Random(3)
    for _ in range(20):
        tensors, cores = ["in0", "in1"], []
        for k in range(draw.randint(1, 12)):
            outputs = tuple(f"t{k}.{j}" for j in range(draw.randint(1, 2)))
            inputs = tuple(draw.sample(tensors, draw.randint(1, min(2, len(tensors)))))
            cores.append(replace(DESIGN.nodes[0], name=f"core{k}", inputs=inputs, outputs=outputs))
            tensors += outputs
        fifos = tuple(replace(DESIGN.fifos[0], edge=tensor, depth=n) for n, tensor in enumerate(tensors))
        graph = dataflow_graph(replace(DESIGN, nodes=tuple(cores), fifos=fifos), ())
        names = {node.identifier: node.name for node in graph.nodes}
        assert len(names) == len(graph.nodes)
        makers = {tensor: core.name for core in cores for tensor in core.outputs}
        read = [(makers.get(tensor, tensor), core.name, tensor) for core in cores for tensor in core.inputs]
        unread = set(makers) - {tensor for _, _, tensor in read}
        expected = sorted(read + [(makers[tensor], tensor, tensor) for tensor in unread])
        assert sorted((names[e.start], names[e.end], e.lines[0]) for e in graph.edges) == expected
        assert all(edge.label == f"4 of {tensors.index(edge.lines[0]):,}" for edge in graph.edges)


def test_nodes_and_rows_of_the_cores_lead_to_each_other():
    root = ElementTree.fromstring(checked(FULL))
    links = {element.get("href") for element in root.iter() if element.get("href")}
    assert links >= {"#core-0", "#core-1", "#node-0", "#node-1"}
    identifiers = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(set(identifiers)) == len(identifiers)
    assert "href" not in notebook(FULL) and "<script" not in notebook(FULL) and "conv2" in notebook(FULL)


def test_the_plots_have_the_figures_of_the_report():
    data = data_of(checked(FULL))
    cores = data["timeline"]["cores"]
    work = [["".join(str(digit) * steps for digit, steps in runs) for runs in core["frames"]] for core in cores]
    assert work == [list(core.frames) for core in FULL.timeline.cores]
    assert data["noise"]["tensors"] == [
        {"number": 0, "name": "image_int8", "bits": 8, "sqnr_db": 41.3},
        {"number": None, "name": "probabilities", "bits": None, "sqnr_db": 31.2},
    ]
    assert sorted(edge["label"] for edge in data["graph"]["edges"]) == ["", "", "4 of 6"]


def test_commands_are_those_of_the_build():
    """Those of a board with a link name its folder; an own board's its file; none where nothing was proven."""
    asked = BuildRequest({"model": "/m/digits.onnx", "board": "icebreaker", "out": "/b/a b", "inputs": "/m/x.npz"}, {})
    board = replace(FULL.board, name="icebreaker")
    report = replace(FULL, asked=asked, board=board, serial=FAST_LINK)
    text = checked(report)
    assert text.count('<code class="command">') == 4
    said = words(text)
    assert "onnx-hw verify '/b/a b' --frames 10000" in said
    assert "onnx-hw infer '/b/a b' --inputs /m/x.npz --check" in said
    assert "onnx-hw program" not in words(checked(replace(report, serial=None)))
    assert "--board FILE.py" in words(checked(replace(report, board=replace(board, name="mine"))))
    assert "onnx-hw verify" not in words(checked(replace(report, simulation=None)))


def test_links_count_what_is_wrong():
    """Values and cycles of all runs, of the circuit and of its cores alone; of the netlist, constants too."""
    run = SimpleNamespace(mismatches=2, firing_mismatches=3, values_compared=50, firings_compared=60, edges_compared=4)
    run.difference, run.deadlock = "y[0]: golden 1, circuit 2", ()
    proof = SimpleNamespace(runs=(run, run), stalls=("random",), frames=4, agrees=False)
    link = proof_chain.golden_circuit(proof, SimpleNamespace(runs=(run,), agrees=False, coverage="all"))
    assert (link.state, link.values, link.cycles, link.wrong) == ("failed", 150, 180, 15)
    assert link.difference == "y[0]: golden 1, circuit 2"
    netlist = GateLevel(9, 3, 8, 100, 70, 20, wrong=7, difference="weight 0 of word 1")
    assert proof_chain.circuit_netlist(netlist).wrong == 7
    links = replace(FULL.links, golden_circuit=link)
    assert "150 values, 180 cycles, 15 wrong" in words(checked(replace(FULL, links=links)))
    assert "40,000 values, 12,000 cycles, 0 wrong" in words(checked(FULL))
