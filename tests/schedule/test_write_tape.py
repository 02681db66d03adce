"""Tapes: cores that take their weights from outside, against golden and the firing law; and tapes in a wrong order."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.messages.invariants import InvariantError
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.tape import TAPE, Tape, TapePort, packed_words, weights_edge
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.write_tape import group_needs, with_tape, write_tape
from onnx_hw.timing.frame_times import Frames
from onnx_hw_link.flash_tape import FlashTiming
from support.design_bench import Bench, assert_proven, no_stall, prove, random_frames, random_stall
from support.hand_built_designs import Sketch
from support.long_runs import prove_networks
from support.taped_designs import FAST_FLASH, SMALL_SDRAM, in_order, in_tiles, perceptron, taped_designs

LAYERS = ((12, 9, 8, 5), ((4, 3), (3, 2), (2, 1)))


def test_random_networks_on_a_tape() -> None:
    """No value and no firing is wrong."""
    assert prove_networks(taped_designs(3, 40), settings(max_examples=4))["networks"] >= 4


@settings(max_examples=60)
@given(taped_designs(4, 100))
def test_a_tape_stops_no_network_that_goes_on_without_it(design: Design) -> None:
    """With a source of its own for each core, the same frames leave or do not."""
    kept = {tensor: size for tensor, size in design.fifos.items() if tensor in design.network.tensors}
    free = replace(design, tape=None, flash=None, sdram=None, fifos=kept)
    assert Frames(design).times(3, interval=0).live == Frames(free).times(3, interval=0).live


@pytest.mark.slow
def test_many_random_networks_on_a_tape() -> None:
    """``benchmarks/tapes.py`` draws hundreds."""
    seen = prove_networks(taped_designs(4, 120), settings(max_examples=8))
    assert seen["networks"] >= 8


@pytest.mark.parametrize(
    ("flash", "stalls"),
    [(None, False), (None, True), (FAST_FLASH, False), (FAST_FLASH, True), (FlashTiming(2, 2, 6, 20, 3), True)],
)
def test_a_perceptron_on_a_tape(flash: FlashTiming | None, stalls: bool) -> None:
    design = write_tape(perceptron(*LAYERS, flash=flash))
    run = prove(design, frames=3, stalls=stalls)
    assert_proven(run)
    if flash and not stalls:
        assert run.interval_cycles == design.interval == flash.pass_cycles(220), "the flash is never idle"


@pytest.mark.parametrize("stalls", [False, True])
@pytest.mark.parametrize("word_bytes", [2, 4])
def test_a_perceptron_whose_weights_come_from_an_sdram(word_bytes: int, stalls: bool) -> None:
    """The circuit of the bench has models of the SDRAM and of its flash in it, and is refreshed while it waits."""
    timing = replace(SMALL_SDRAM, word_bytes=word_bytes)
    design = write_tape(perceptron(*LAYERS, sdram=timing))
    run = prove(design, frames=4, stalls=stalls)
    assert_proven(run)
    assert design.tape is not None and design.tape.size == timing.whole(design.tape.used_bytes)
    if not stalls:
        assert run.interval_cycles == design.interval == timing.pass_cycles(design.tape.size)


def test_a_frame_needs_no_later_one() -> None:
    """One frame alone leaves, though all later ones never come."""
    design = write_tape(perceptron(*LAYERS, flash=FAST_FLASH))
    assert_proven(prove(design, frames=1))
    assert Frames(design).times(1, interval=0).live


def test_the_order_is_that_of_a_schedule_with_weights_always_there() -> None:
    design = perceptron((6, 8, 8), ((2, 1), (1, 4)))
    needs = group_needs(design)
    tape = write_tape(design).tape
    assert tape is not None
    at = dict.fromkeys(range(len(tape.ports)), 0)
    cycles = []
    for which, groups in tape.runs:
        cycles += needs[tape.ports[which].node][at[which] : at[which] + groups].tolist()
        at[which] += groups
    assert cycles == sorted(cycles) and len(cycles) == 8 + 2
    assert tape.runs == ((0, 5), (1, 1), (0, 3), (1, 1)), "the second product begins when the first result comes"


def test_a_tape_that_feeds_a_later_core_first_is_a_predicted_deadlock() -> None:
    """The later core's buffer fills, and the earlier one, which would empty it, waits behind that."""
    design = perceptron(*LAYERS)
    backwards = in_order(design, ((2, 5), (1, 4), (0, 3)))
    assert not Frames(backwards).times(1, interval=0).live
    bench = Bench(backwards)
    for stall in (no_stall(backwards, 2), random_stall(backwards, 2, 1)):
        run = bench.prove(stall, frames=2)
        assert_proven(run, live=False)
        assert run.deadlock[0] == "(deal).deal waits in operation 19 for room on product2 (weights)"
        assert run.deadlock[-1] == "product1.weights waits in operation 0 for a token on product1 (weights)"


def test_each_order_stops_exactly_where_it_is_predicted() -> None:
    """Some orders are live by their buffers, some are not; the circuit agrees about every one."""
    design = perceptron((2, 4, 6), ((2, 2), (2, 2)), capacity=1)
    live = set()
    for order in sorted(set(permutations([0, 0, 1, 1, 1]))):
        other = in_order(design, [(which, 1) for which in order])
        run = prove(other, frames=2)
        assert_proven(run, live=False)
        assert bool(run.deadlock) != Frames(other).times(2, interval=0).live
        live.add(not run.deadlock)
    assert live == {False, True}


def swapped(design: Design) -> np.ndarray:
    """The bytes of a tape with two words of a core in each other's place."""
    beats = design.taped_beats()[TAPE].copy()
    beats[[0, 12]] = beats[[12, 0]]
    return beats


def test_a_wrong_word_is_seen() -> None:
    """Two bytes are swapped on the way into a circuit that is simulated."""
    design = write_tape(perceptron(*LAYERS))
    assert not np.array_equal(swapped(design), design.taped_beats()[TAPE])

    class Wrong(Design):
        def taped_beats(self) -> dict[str, np.ndarray]:
            beats = super().taped_beats()
            return beats | ({TAPE: swapped(design)} if TAPE in beats else {})

    wrong = Wrong(**{name: getattr(design, name) for name in Design.__dataclass_fields__})
    run = prove(wrong, frames=2)
    assert run.mismatches and run.difference is not None


@pytest.mark.parametrize("runs", [((0, 3), (1, 4)), ((0, 4), (1, 4), (2, 5)), ((0, 3), (1, 4), (2, 5), (3, 1))])
def test_a_run_too_long_or_missing_is_refused(runs: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(InvariantError, match="must be"):
        in_order(perceptron(*LAYERS), runs)


def test_words_of_another_folding_are_refused() -> None:
    design = write_tape(perceptron(*LAYERS))
    assert design.tape is not None
    other = replace(design.tape, ports=(*design.tape.ports[:2], replace(design.tape.ports[2], bits=24)))
    with pytest.raises(InvariantError, match="the tape must have the words"):
        with_tape(design, other)


def test_words_begin_at_bytes_lowest_bits_first() -> None:
    words = np.array([[1, -1, 2], [-2, 3, -8]])
    assert packed_words(words, 12).tolist() == [[0xF1, 0x02], [0x3E, 0x08]]
    tape = Tape((TapePort("a", 12, 1, 2), TapePort("b", 4, 2, 1)), ((0, 1), (1, 1), (0, 1)))
    contents = tape.contents({"a": words, "b": np.array([[5], [-6]])})
    assert contents[:6].hex() == "f102" + "050a" + "3e08" and len(contents) == tape.size == 28
    assert tape.digest(contents) != tape.digest(bytes(28)) and tape.image(contents)[16:44] == contents


def test_a_design_without_a_tape_stays() -> None:
    plain = perceptron(*LAYERS, taped=False)
    assert write_tape(plain) is plain and plain.taped_ports() == () and plain.tape_cycles == 0
    assert weights_edge("product0") not in {edge.tensor for edge in plain.edges()}
    assert random_frames(plain, 1, 0)


@pytest.mark.parametrize("tile", [1, 2, 4, 8])
@pytest.mark.parametrize("stalls", [False, True])
def test_products_over_many_pixels_on_a_tape(tile: int, stalls: bool) -> None:
    """Two products over an image, whose results come tile by tile and are put back in the order of pixels."""
    sketch, image = Sketch(), Tensor((2, 4, 6), Int(5))
    x = sketch.input("x", image)
    for k, outputs in enumerate((7, 5)):
        product = MatMul(image, np.random.default_rng(k).integers(-2, 3, (outputs, image.channels)), taped=True)
        (x,) = sketch.add(f"product{k}", product, [x], MatMulFolding((2, 3)[k], (3, 2)[k]), 2)
        (image,) = product.results()
    free = replace(sketch.design(), flash=FAST_FLASH)
    design = write_tape(in_tiles(free, {"product0": tile, "product1": tile}))
    run = prove(design, frames=3, stalls=stalls)
    assert_proven(run)
    assert len(design.network.nodes) == (2 if tile == 1 else 3), "the last results leave tile by tile"
