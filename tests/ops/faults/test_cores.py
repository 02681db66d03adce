"""Deliberate faults of single cores, their constants and arithmetic: the proof must see each of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Const

from onnx_hw_rtl.cores import add, argmax, concat, depthwise, matmul, multiply, reduce, requantize
from onnx_hw_rtl.streams import engine
from support.injected_faults import CASES, Fault, each_in_its_cores, prove_case

# ---- constants ----------------------------------------------------------------------------------------------------


def one_weight_is_wrong(patch: pytest.MonkeyPatch) -> None:
    original = matmul.MatMul.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        self.words[2, 3] ^= 1

    patch.setattr(matmul.MatMul, "__init__", init)


def one_kernel_weight_is_wrong(patch: pytest.MonkeyPatch) -> None:
    """The last tap of the last channel."""
    original = depthwise.Depthwise.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        self.words[7, 1] ^= 1

    patch.setattr(depthwise.Depthwise, "__init__", init)


def weights_of_the_neighbour(patch: pytest.MonkeyPatch) -> None:
    """Two lanes have changed their weights."""
    original = depthwise.Depthwise._weights

    def weights(self: Any, *arguments: Any) -> Any:
        first, second, *others = original(self, *arguments)
        return [second, first, *others]

    patch.setattr(depthwise.Depthwise, "_weights", weights)


def weights_come_late(patch: pytest.MonkeyPatch) -> None:
    """Beside the element of the next tap."""
    original = depthwise.Depthwise._weights
    patch.setattr(
        depthwise.Depthwise,
        "_weights",
        lambda self, m, reader: [engine.delayed(m, weight, 1, "late") for weight in original(self, m, reader)],
    )


def requantizes_with(change: Callable[[Any], dict[str, Any]]) -> Callable[[pytest.MonkeyPatch], None]:
    """Other constants than those that were proven."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = requantize.Requantize.__init__

        def init(self: Any, arithmetic: Any, **named: Any) -> None:
            original(self, replace(arithmetic, **change(arithmetic)), **named)

        patch.setattr(requantize.Requantize, "__init__", init)

    return apply


def one_addend_is_wrong(arithmetic: requantize.MultiplyAddShift) -> dict[str, Any]:
    addends = list(arithmetic.addends)
    addends[3] += 1 << (arithmetic.shift - 1)
    return {"addends": addends}


def one_pixel_less(patch: pytest.MonkeyPatch) -> None:
    original = reduce.Reduce.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named | {"pixels": named["pixels"] - 1})

    patch.setattr(reduce.Reduce, "__init__", init)


def adds_with(*digits: tuple[tuple[int, int], ...]) -> Callable[[pytest.MonkeyPatch], None]:
    """Other factors; as many digits, so that the timing stays."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = add.Add.__init__

        def init(self: Any, *arguments: Any, **named: Any) -> None:
            original(self, *arguments, **named | {"digits": digits})

        patch.setattr(add.Add, "__init__", init)

    return apply


def joins_with(change: Callable[[list[Any], list[int]], tuple[list[Any], list[int]]]) -> Callable[..., None]:
    """Other types of the inputs, or other beats of each."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = concat.Concat.__init__

        def init(self: Any, *inputs: Any, **named: Any) -> None:
            changed, beats = change(list(inputs), list(named["beats"]))
            original(self, *changed, **named | {"beats": beats})

        patch.setattr(concat.Concat, "__init__", init)

    return apply


def a_sign_is_lost(inputs: list[Any], beats: list[int]) -> tuple[list[Any], list[int]]:
    """And another one appears."""
    return [inputs[0], *(replace(shape, signed=not shape.signed) for shape in inputs[1:])], beats


def a_beat_comes_from_the_neighbour(inputs: list[Any], beats: list[int]) -> tuple[list[Any], list[int]]:
    return inputs, [beats[0] - 1, beats[1] + 1, *beats[2:]]


def takes_the_payload_of_another(patch: pytest.MonkeyPatch) -> None:
    """The beat of the input that is popped is lost."""
    original = concat.Concat._part
    patch.setattr(concat.Concat, "_part", lambda self, turn: original(self, turn) ^ 1)


def changes_the_payload_late(patch: pytest.MonkeyPatch) -> None:
    """By one operation."""
    original = concat.Concat._part
    patch.setattr(concat.Concat, "_part", lambda self, turn: original(self, {"beat": turn["beat"] - 1}))


def multiplies_with(**changes: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Other offsets or types than those of the operator."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = multiply.Multiply.__init__

        def init(self: Any, a: Any, b: Any, factors: Any, result: Any, **named: Any) -> None:
            given = {"a": a, "b": b, "factors": factors, "result": result, **named}
            original(self, **given | {name: change(given[name]) for name, change in changes.items()})

        patch.setattr(multiply.Multiply, "__init__", init)

    return apply


def seeks_with(**changes: bool) -> Callable[[pytest.MonkeyPatch], None]:
    """Another extreme, or another one of equal elements."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = argmax.ArgMax.__init__
        patch.setattr(argmax.ArgMax, "__init__", lambda self, **named: original(self, **named | changes))

    return apply


def unused_lanes_may_win(patch: pytest.MonkeyPatch) -> None:
    """The tree believes that the last beat is full."""
    original = argmax.ArgMax._best_of_beat

    def best(self: Any, *arguments: Any) -> Any:
        channels, self.channels = self.channels, self.chunks * self.lanes
        found = original(self, *arguments)
        self.channels = channels
        return found

    patch.setattr(argmax.ArgMax, "_best_of_beat", best)


def lanes_are_misnumbered(patch: pytest.MonkeyPatch) -> None:
    """Two neighbours have each other's number."""
    original = argmax.Candidate
    patch.setattr(
        argmax,
        "Candidate",
        lambda first, key, lane: original(first, key, Const(first ^ 1) if isinstance(lane, Const) else lane),
    )


def pixels_have_one_vector(patch: pytest.MonkeyPatch) -> None:
    """The second pixel's results are those of the first."""
    original = matmul.MatMul._dot
    found: dict[int, Any] = {}

    def dot(self: Any, m: Any, place: int, vector: Any, weights: Any) -> Any:
        if place < self.out_lanes:
            found[place] = original(self, m, place, vector, weights)
        return found[place % self.out_lanes]

    patch.setattr(matmul.MatMul, "_dot", dot)


def constants_of_the_next_lane(patch: pytest.MonkeyPatch) -> None:
    """A pixel's first channel is taken for the one after the last of the pixel beside it."""
    original = requantize.Requantize.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        further = np.minimum(self.words + self.words.shape[1], self.words.max())
        self.words = np.concatenate([self.words, further], axis=1)

    patch.setattr(requantize.Requantize, "__init__", init)


# ---- the list -----------------------------------------------------------------------------------------------------


FAULTS = [
    Fault("two pixels have one vector", pixels_have_one_vector, ("matmul of pixels",)),
    Fault("a pixel has the constants of the next channels", constants_of_the_next_lane, ("requantize of pixels",)),
    Fault("one weight of one lane is wrong", one_weight_is_wrong, ("matmul",)),
    Fault("one weight of one lane is wrong", one_kernel_weight_is_wrong, ("depthwise",)),
    Fault("two lanes have each other's weights", weights_of_the_neighbour, ("depthwise",)),
    Fault("the weights come one cycle late", weights_come_late, ("depthwise",)),
    Fault(
        "ties go to the odd neighbour", requantizes_with(lambda a: {"tie_parity": 1 - a.tie_parity}), ("requantize",)
    ),
    Fault("the result saturates too late", requantizes_with(lambda a: {"high": a.high + 1}), ("requantize",)),
    Fault("one channel's addend is wrong", requantizes_with(one_addend_is_wrong), ("requantize",)),
    Fault("a digit of a factor has the wrong sign", adds_with(((1, 3), (1, 0)), ((-1, 2), (1, 0))), ("add",)),
    Fault("a digit of a factor has the wrong weight", adds_with(((1, 3), (-1, 0)), ((-1, 2), (1, 1))), ("add",)),
    Fault("the offsets are exchanged", multiplies_with(offsets=lambda pq: pq[::-1]), ("multiply",)),
    Fault("an offset is one too large", multiplies_with(offsets=lambda pq: (pq[0], pq[1] + 1)), ("multiply",)),
    Fault(
        "a factor is a bit too narrow", multiplies_with(factors=lambda f: (f[0], (f[1][0] - 1, True))), ("multiply",)
    ),
    Fault("a sign is lost", multiplies_with(factors=lambda f: (f[0], (f[1][0], False))), ("multiply",)),
    Fault("ties go to the last", seeks_with(last=True), ("argmax",)),
    Fault("the least is sought", seeks_with(largest=False), ("argmax",)),
    Fault("an unused lane may win", unused_lanes_may_win, ("argmax",)),
    Fault("lanes are misnumbered", lanes_are_misnumbered, ("argmax",)),
    Fault("operands are extended with the wrong sign", joins_with(a_sign_is_lost), ("concat",)),
    Fault("a beat is taken from the next operand", joins_with(a_beat_comes_from_the_neighbour), ("concat",)),
    Fault("the payload is not that of the token", takes_the_payload_of_another, ("concat",)),
    Fault("the payload changes one operation late", changes_the_payload_late, ("concat",)),
    Fault("the last pixel belongs to the next frame", one_pixel_less, ("reduce",)),
]


@pytest.mark.parametrize(("fault", "name"), each_in_its_cores(FAULTS))
def test_fault_is_caught(fault: Fault, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.check(name, monkeypatch)


def test_a_wrong_value_is_told_in_the_words_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensor, frame, row, column, channel: output 3 is lane 1 of the second group."""
    one_weight_is_wrong(monkeypatch)
    run = prove_case(CASES["matmul"])
    assert run.firing_mismatches == 0
    assert re.fullmatch(r"node\.o\[0, 0, 0, 3\]: golden -?\d+, circuit -?\d+, cycle \d+", str(run.difference))
