"""A design within its budget, FIFOs included, at the rate that was asked for; or a refusal whose advice is true."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.commands.check import check_hardware
from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design, FifoSize, pins_of
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.messages.text import short
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.operator import Resources
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule import folding_for_interval, schedule_for_board
from onnx_hw.schedule import schedule_network as module
from onnx_hw.schedule.budget import Budget, weight
from onnx_hw.schedule.explain_no_fit import OtherTarget, spelled
from onnx_hw.schedule.folding_for_interval import fold_for, resources_of
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.min_cycles import longest_interval
from onnx_hw.schedule.schedule_network import Designs, has_slow_design, interval_of, schedule_network
from onnx_hw.schedule.search_folding import cheapest_folding, least_interval
from onnx_hw_boards.pins import PadStream
from support.fixture_paths import model
from support.hand_built_designs import Sketch, unequal_branches
from support.schedule_with import schedule_with
from support.targets import ecp5_at

CLOCK = 80.0
AMPLE = Budget(dsp=10_000, lut=1_000_000, bram=10_000)


def convolutions(size: int = 6, channels: tuple[int, ...] = (3, 12, 8)) -> Network:
    generator = np.random.default_rng(1)
    sketch = Sketch()
    name = sketch.input("x", Tensor((size, size, channels[0]), Int(8)))
    for k, outputs in enumerate(channels[1:]):
        window = Window(sketch.tensors[name], (3, 3), pads=(1, 1, 1, 1))
        (name,) = sketch.add(f"window{k}", window, [name], (1, 1), 1)
        weights = generator.integers(-8, 8, (outputs, sketch.tensors[name].channels))
        (name,) = sketch.add(f"conv{k}", MatMul(sketch.tensors[name], weights), [name], (1, 1), 1)
    return sketch.design().network


NETWORK = convolutions()


def scheduled(budget: Budget = AMPLE, **choices: object) -> Design:
    return schedule_with(NETWORK, budget, CLOCK, **choices)


def refused(budget: Budget, **choices: object) -> str:
    with pytest.raises(UserError) as caught:
        scheduled(budget, **choices)
    (problem,) = caught.value.problems
    assert problem.message and problem.where and problem.hint
    expected = ExitCode.DOES_NOT_FIT if problem.code == "too-big" else ExitCode.USAGE
    assert caught.value.exit_code is expected
    return str(caught.value)


def without_logic(budget: Budget) -> Budget:
    """With no more look-up tables than its fastest design of hardware multipliers takes: none for products."""
    return replace(budget, lut=scheduled(budget).with_fifos().lut)


# ---- frames per second ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fps", [20_000, 55_555.5, 120_000, 1_000_000])
def test_the_rate_is_kept_by_the_cheapest_design(fps: float) -> None:
    design = scheduled(fps=fps)
    interval = int(CLOCK * 1e6 / fps)
    assert design.interval <= interval
    assert CLOCK * 1e6 / design.interval >= fps
    costs = []
    for other in (interval // 2, interval):  # a design of twice the rate costs more
        foldings = fold_for(NETWORK, other)
        if foldings is not None:
            costs.append(weight(resources_of(NETWORK, foldings)))
    assert weight(design.resources()) == min(costs)


def test_the_interval_is_rounded_in_favour_of_the_rate() -> None:
    assert interval_of(3.0, 1e-6 * 10) == 3  # 10 Hz
    assert interval_of(0.1, 80.1) == 801_000_000  # 80.1 is no binary fraction
    assert interval_of(1e9, 80.0) == 0


@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf")])
def test_a_rate_is_a_positive_number(fps: float) -> None:
    with pytest.raises(UserError, match="frames per second must be positive"):
        scheduled(fps=fps)


def test_no_lanes_make_it_faster_than_its_structure() -> None:
    cycles, node = least_interval(NETWORK)
    assert cycles == 6 and fold_for(NETWORK, 6) is not None and fold_for(NETWORK, 5) is None  # a row a cycle
    most = CLOCK * 1e6 / cycles
    assert scheduled(fps=float(spelled(most))).interval == 6
    for fps in (most * 1.01, CLOCK * 1.01e6):  # more than one a cycle, too
        told = refused(AMPLE, fps=fps)
        assert f"error[fps-unreachable]: this model can do {spelled(most)} frames a second at 80 MHz" in told
        assert "6 cycles a frame" in told and f"where  `{node.name}`" in told


def test_lanes_and_rate_are_both_kept() -> None:
    cap = replace(AMPLE, mac_lanes=8)
    fastest = scheduled(cap)
    rate = CLOCK * 1e6 / fastest.interval
    slow = scheduled(cap, fps=rate / 2)
    assert slow.interval <= 2 * fastest.interval and slow.resources().mac_lanes < fastest.resources().mac_lanes <= 8
    told = refused(cap, fps=rate * 2)
    assert re.search(r"needs \d+ MAC lanes of 8\n", told)


# ---- what does not fit ----------------------------------------------------------------------------------------------


def test_a_rate_that_does_not_fit_is_told_with_what_does() -> None:
    tight = without_logic(replace(AMPLE, dsp=20))
    fps = 4 * CLOCK * 1e6 / scheduled(tight).interval
    told = refused(tight, fps=fps)
    assert re.search(rf"error\[too-big\]: {fps:.12g} frames a second at 80 MHz needs \d+ multipliers of 20[,\n]", told)
    assert re.search(r"where  most multipliers: `conv[01]` \d+, `conv[01]` \d+", told)
    (advice,) = re.findall(r"`--fps ([\d.]+)` fits", told)
    assert scheduled(tight, fps=float(advice)).interval == scheduled(tight).interval


def test_what_is_far_too_large_is_refused_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message holds a lower bound, which no cheapest design is searched for; it is one of the cheapest design."""
    cheapest = resources_of(NETWORK, fold_for(NETWORK, longest_interval(NETWORK)) or {})
    monkeypatch.setattr(folding_for_interval, "_problem", lambda *_: pytest.fail("foldings are searched for"))
    monkeypatch.setattr(Window, "foldings", lambda *_: pytest.fail("products are too much by themselves"))
    for fps in (None, 20_000):
        told = refused(replace(AMPLE, lut=100, dsp=1), fps=fps)
        needs = re.search(
            r"even the slowest design needs at least (\d+) LUTs of 100\n +where +most LUTs: `conv0`", told
        )
        assert needs is not None and 125 < int(needs[1]) <= cheapest.lut


def test_a_link_that_is_too_fast_is_nothing_to_explain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fastest design is taken then; why none keeps the link busy is not worked out."""
    monkeypatch.setattr(schedule_for_board, "most_frames_a_second", lambda *_: 1e5)
    monkeypatch.setattr(module, "nothing_fits", lambda *_: pytest.fail("an error is worked out"))
    monkeypatch.setattr(module, "far_too_big", lambda *_: pytest.fail("an error is worked out"))
    board = find_board("icebreaker")
    design, _ = schedule_for_board.schedule_for_board(board, NETWORK)
    assert 0 < design.frames_per_second < 1e5
    assert schedule_for_board.schedule_for_board(board, NETWORK, ScheduleRequest(fps=100))[0].interval > design.interval


def test_the_least_number_of_lanes_that_fits_is_told() -> None:
    told = refused(replace(AMPLE, mac_lanes=1))
    assert "even the slowest design needs 2 MAC lanes of 1" in told
    (advice,) = re.findall(r"hint   `--multipliers (\d+)` fits: \d+ lanes, [\d.]+ frames a second", told)
    assert scheduled(replace(AMPLE, mac_lanes=int(advice))).resources().mac_lanes == int(advice)

    fps = CLOCK * 1e6 / 500
    told = refused(replace(AMPLE, mac_lanes=3), fps=fps)
    (advice,) = re.findall(r"`--multipliers (\d+)` fits", told)
    assert scheduled(replace(AMPLE, mac_lanes=int(advice)), fps=fps).interval <= 500
    assert "`--fps " in told  # slower, with three lanes


def test_where_only_both_help_both_are_told() -> None:
    tight = without_logic(Budget(dsp=4))
    told = refused(replace(tight, mac_lanes=1), fps=1e6)
    (advice,) = re.findall(r"hint   without --multipliers, `--fps ([\d.]+)` fits", told)
    assert scheduled(tight, fps=float(advice)).resources().dsp <= 4


def test_other_boards_are_tried() -> None:
    small = Budget(dsp=1, lut=100)
    boards = {
        "small": OtherTarget(small, ecp5_at(80.0)),
        "large": OtherTarget(AMPLE, ecp5_at(80.0)),
        "slow": OtherTarget(AMPLE, ecp5_at(0.1)),
    }
    told = refused(small, elsewhere=boards)
    assert "`--board large` fits" in told and "`--board slow` fits" in told and "small" not in told
    told = refused(small, elsewhere=boards, fps=20_000)
    assert "`--board large` fits" in told and "`--board slow` fits" not in told


def test_where_nothing_helps_that_is_told() -> None:
    assert "hint   no board helps" in refused(Budget(bram=0, lut=100))


# ---- more than is comfortable ---------------------------------------------------------------------------------------


def test_a_budget_that_is_too_small_is_stretched_where_it_must_be() -> None:
    slowest = fold_for(NETWORK, 10**6)
    assert slowest is not None
    need = resources_of(NETWORK, slowest)
    comfortable, most = Budget(dsp=30, lut=need.lut - 1), Budget(dsp=50, lut=10 * need.lut)
    design = scheduled(comfortable, most=most)
    assert need.lut <= design.resources().lut
    assert design.resources().dsp <= 30 < scheduled(most).resources().dsp <= 50  # of this there was enough
    assert scheduled(Budget(dsp=30, lut=need.lut * 5), most=most).resources().dsp <= 30


# ---- FIFOs ----------------------------------------------------------------------------------------------------------


def with_deep_fifos(monkeypatch: pytest.MonkeyPatch, depth: int) -> None:
    """Every FIFO of one depth: a network of which that is true would take minutes."""

    def sized(design: Design, **_: object) -> Design:
        fifos = {edge.tensor: FifoSize(depth, 1, 1) for edge in design.edges() if edge.producer}
        return replace(design, fifos=fifos)

    monkeypatch.setattr(module, "size_fifos", sized)


def test_where_fifos_are_too_big_the_nodes_are_folded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with_deep_fifos(monkeypatch, 1024)
    free = scheduled()
    nodes, together = free.resources().bram, free.with_fifos().bram
    assert nodes < together
    tight = replace(AMPLE, bram=together - 1)
    again = scheduled(tight)
    assert again.with_fifos().bram <= tight.bram  # type: ignore[operator]
    assert again.interval > free.interval
    least = scheduled(AMPLE, fps=100).with_fifos().bram
    told = refused(replace(AMPLE, bram=least - 1))
    assert f"even the slowest design needs {least} block RAMs of {least - 1}\n" in told
    assert "the FIFO of `" in told


def test_fifos_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    design = unequal_branches(2048)
    assert set(design.fifo_costs()) == {edge.tensor for edge in design.edges() if edge.producer}
    blocks = {tensor: cost.bram for tensor, cost in design.fifo_costs().items() if cost.bram}
    assert list(blocks.values()) == [1] and design.with_fifos().bram == design.resources().bram + 1
    assert design.with_fifos().lut > design.resources().lut


# ---- pins -----------------------------------------------------------------------------------------------------------


def wide_product() -> Network:
    sketch = Sketch()
    weights = np.random.default_rng(3).integers(-8, 8, (16, 64))
    sketch.add(
        "dense", MatMul(Tensor((1, 1, 64), Int(8)), weights), [sketch.input("x", Tensor((1, 1, 64), Int(8)))], (1, 1), 1
    )
    return sketch.design().network


def test_streams_of_the_outside_are_no_wider_than_the_pins() -> None:
    network = wide_product()
    (boundary,) = network.outputs
    bits = network.tensors[boundary.tensor].dtype.bits
    free, _ = schedule_network(network, AMPLE, target=ecp5_at(CLOCK))
    assert free.resources().pins == 64 * 8 + 2 + 16 * bits + 2  # all at once
    for pins in (400, 100, 8 + 2 + bits + 2):
        design, _ = schedule_network(network, replace(AMPLE, pins=pins), target=ecp5_at(CLOCK))
        folding = design.foldings["dense"]
        assert folding.in_lanes * 8 + 2 + folding.out_lanes * bits + 2 == design.resources().pins <= pins
    with pytest.raises(UserError) as caught:
        schedule_network(network, replace(AMPLE, pins=8 + 2 + bits + 1), target=ecp5_at(CLOCK))
    assert f"even the slowest design needs at least {bits + 12} pins of {bits + 11}\n" in str(caught.value)
    assert f"most pins: the stream `dense.o` {bits + 2}, the stream `x` 10" in str(caught.value)


def test_too_few_pins_are_seen_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folding is asked for where the narrowest streams have too many pins."""
    monkeypatch.setattr(Designs, "_offers_at", lambda *_: pytest.fail("a folding was asked for"))
    with pytest.raises(UserError, match="needs at least 29 pins of 28"):
        schedule_network(wide_product(), replace(AMPLE, pins=28), target=ecp5_at(CLOCK))
    assert not has_slow_design(wide_product(), replace(AMPLE, pins=28), target=ecp5_at(CLOCK))


def test_pins_are_no_reason_to_be_slow() -> None:
    """At one interval the wide lanes of the outside give way, the narrow ones grow."""
    network = wide_product()
    free, bound = (fold_for(network, 4, pins) for pins in (None, 400))
    assert free is not None and bound is not None
    pins = [resources_of(network, foldings).pins for foldings in (free, bound)]
    assert pins[1] <= 400 < pins[0]
    assert bound["dense"].out_lanes < free["dense"].out_lanes
    assert network.nodes[0].operator.cycles(bound["dense"]) <= 4


def test_a_stream_needs_the_pins_that_the_board_gives_it() -> None:
    for tensor, lanes in ((Tensor((1, 1, 9), Int(8)), 3), (Tensor((1, 1, 9), Int(3)), 9)):
        assert pins_of(Order(tensor, lanes)) == PadStream("x", lanes, tensor.dtype.bits).pins


# ---- a folding that was given ---------------------------------------------------------------------------------------


def test_a_given_folding_keeps_what_was_asked_for() -> None:
    foldings = fold_for(insert_forks(NETWORK), 400)
    assert foldings is not None
    design = scheduled(AMPLE, foldings=foldings)
    assert all(design.foldings[name] == folding for name, folding in foldings.items())
    rate = CLOCK * 1e6 / design.interval
    assert scheduled(AMPLE, foldings=foldings, fps=rate * 0.999).interval == design.interval
    told = refused(AMPLE, foldings=foldings, fps=rate * 1.001)
    assert f"every core must take at most {design.interval - 1} cycles a frame\n  where  cycles: `" in told
    assert f"` {design.interval}\n" in told and f"`--fps {spelled(rate)}`" in told
    lanes = design.resources().mac_lanes
    assert scheduled(replace(AMPLE, mac_lanes=lanes), foldings=foldings).interval == design.interval
    told = refused(replace(AMPLE, mac_lanes=lanes - 1), foldings=foldings)
    assert f"this folding needs {lanes} MAC lanes of {lanes - 1}" in told
    # comfort is no reason to refuse what somebody has thought about
    tight = replace(AMPLE, mac_lanes=1)
    assert scheduled(tight, most=AMPLE, foldings=foldings).interval == design.interval


# ---- a real model ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_network_that_fills_the_block_rams() -> None:
    """Nine tenths of them for its weights alone."""
    options = BuildOptions(model=model("tinymaix_vww96_mobilenetv1_int8") / "model.onnx")
    assert check_hardware(options) is None
    refusal = check_hardware(options.but(multipliers=20))
    assert refusal is not None
    (advice,) = re.findall(r"`--multipliers (\d+)` fits: \1 lanes", str(refusal))
    assert check_hardware(options.but(multipliers=int(advice))) is None
    refusal = check_hardware(options.but(multipliers=40, fps=1500.0))
    assert refusal is not None
    (rate,) = re.findall(r"`--fps (\d+)` fits: \d+ lanes", str(refusal))
    assert check_hardware(options.but(multipliers=40, fps=float(rate))) is None


# ---- words ----------------------------------------------------------------------------------------------------------


def test_rates_are_never_promised_too_high() -> None:
    rates = {1234.9: "1234", 99.99: "99.9", 100.0: "100", 12.3456: "12.3", 0.0123456: "0.0123", 9.999: "9.99"}
    assert {rate: spelled(rate) for rate in rates} == rates


def test_long_names_keep_their_end() -> None:
    assert short("conv1") == "`conv1`"
    told = short("a" * 300 + "/last")
    assert len(told) == 50 and told.startswith("`…aaa") and told.endswith("/last`")


def test_cheapest_is_none_beyond_reach() -> None:
    assert cheapest_folding(NETWORK, AMPLE, 5) is None
    assert cheapest_folding(NETWORK, Budget(mac_lanes=1), 10**6) is None
    folding = cheapest_folding(NETWORK, AMPLE, 10**7)
    assert folding is not None and {name: folding[name] for name in ("conv0", "conv1")} == {
        "conv0": MatMulFolding(1, 1),
        "conv1": MatMulFolding(1, 1),
    }


def test_room_is_left_for_fifos() -> None:
    """Block RAMs and logic cells that a design takes beyond what there is are taken off until others are chosen."""
    room, most = Budget(bram=25, logic=None), Budget(bram=28, logic=3_000, lut=9_000)
    cores = Resources(bram=26, logic=4_000)
    assert room.leaving_for_fifos(cores, Resources(bram=30, logic=2_900), most) == Budget(bram=23)
    assert room.leaving_for_fifos(cores, Resources(bram=30, logic=3_400), most) == Budget(bram=23, logic=2_600)
    assert room.leaving_for_fifos(Resources(bram=22), Resources(bram=30), most) == Budget(bram=21), "not 23"
    assert room.leaving_for_fifos(cores, Resources(bram=28, logic=3_000), most) is None, "there is enough"
    assert room.leaving_for_fifos(cores, Resources(bram=30, lut=9_001), most) is None
    assert room.leaving_for_fifos(cores, Resources(bram=53), most) is None, "nothing would be left"
