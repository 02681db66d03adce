"""Faults in the simulator of runs in lockstep: each changes its result for drawn circuits."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from onnx_hw_sim.circuit import Recording
from onnx_hw_sim.lockstep import arithmetic, library, program, steps
from onnx_hw_sim.lockstep.levelize import Levelization, order
from onnx_hw_sim.lockstep.simulator import LockstepSimulator
from support.random_circuits import Drawn, Exchanges, Expressions, words

V, DRIVER = "vectors.h", "driver.cpp"
IN_CPP: Mapping[str, tuple[type[Drawn], int, str, str, str]] = {
    "a choice turned round": (Expressions, 0, V, "? yes : no", "? no : yes"),
    "a sign one place too high": (Expressions, 0, V, "(S)(x << shift) >> shift", "(S)(x << shift) >> (shift + 1)"),
    "a shift by 31 is one by 30": (Expressions, 0, V, "by < 31u ? by : all(31)", "by < 31u ? by : all(30)"),
    "a shift by 64 moves nothing": (Expressions, 0, V, "wide < 64u ? x >> (wide & 63u) : D{}", "x >> (wide & 63u)"),
    "a borrow is a carry": (Expressions, 0, V, "borrow >>= 32", "borrow = -(borrow >> 32)"),
    "partial products are not added": (Expressions, 3, V, " + join(product.w[i + j])", ""),
    "the lower word is not shifted in": (Expressions, 1, V, "i > place ? x.w[i - place - 1][k] : 0", "0"),
    "bits that are not written are lost": (Exchanges, 0, V, "*word & ~enable[k]", "*word & enable[k]"),
    "a reset lasts too long": (Exchanges, 0, DRIVER, "run.resetting > reset_delay", "run.resetting >= reset_delay"),
    "the last cycle is not remembered": (Exchanges, 0, DRIVER, "if (run.last()) remember_state(r);", ""),
    "no second reset": (Exchanges, 0, DRIVER, "--run.false_start == 0", "(run.false_start = 0)"),
}  # fmt: skip


def run(drawn: type[Drawn], seed: int, folder: Path) -> Recording:
    circuit = drawn(seed).circuit()
    return LockstepSimulator.build(circuit, folder).run(words(circuit, seed=1))


@pytest.fixture(scope="module")
def sound(compiled_in: Path) -> Callable[[type[Drawn], int], Recording]:
    return cache(lambda drawn, seed: run(drawn, seed, compiled_in))  # type: ignore[return-value]


def assert_differ(one: Recording, other: Recording) -> None:
    same_tokens = one.tokens["y"].shape == other.tokens["y"].shape and np.array_equal(
        one.tokens["y"], other.tokens["y"]
    )
    assert not same_tokens or (one.cycles, one.valid, one.ready) != (other.cycles, other.valid, other.ready)


@pytest.mark.parametrize("name", IN_CPP)
def test_a_fault_in_what_is_compiled_is_seen(name: str, sound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, seed, file, old, new = IN_CPP[name]
    usual = sound(drawn, seed)
    sources = shutil.copytree(library.HERE, tmp_path / "sources")
    text = (sources / file).read_text()
    assert old in text
    (sources / file).write_text(text.replace(old, new))
    monkeypatch.setattr(library, "HERE", sources)
    assert_differ(usual, run(drawn, seed, tmp_path))


def none_late(drawn: list[steps.Step]) -> Levelization:
    return replace(order(drawn), late=frozenset())


IN_PYTHON: Mapping[str, tuple[type[Drawn], int, Callable[[pytest.MonkeyPatch], None]]] = {
    "who exchanges is set at once": (Exchanges, 0, lambda patch: patch.setattr(program, "order", none_late)),
    "resets are left out": (Exchanges, 0, lambda patch: patch.setattr(steps, "_control", enables_only)),
    "memories begin with zeros": (Exchanges, 0, lambda patch: patch.setattr(steps, "_contents", lambda *_: ())),
    "not less is less": (Expressions, 1, lambda patch: kind(patch, "$ge", "$lt")),
    "a parity is whether there is any": (Expressions, 0, lambda patch: kind(patch, "$reduce_xor", "$reduce_or")),
    "a difference is a sum": (Expressions, 0, lambda patch: kind(patch, "$sub", "$add")),
}

control = steps._control


def enables_only(of: object, cell: object, pin: str) -> str | None:
    return None if pin == "SRST" else control(of, cell, pin)  # type: ignore[arg-type]


def kind(patch: pytest.MonkeyPatch, one: str, other: str) -> None:
    patch.setitem(arithmetic._KINDS, one, arithmetic._KINDS[other])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", IN_PYTHON)
def test_a_fault_in_what_is_written_is_seen(name: str, sound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, seed, put_in = IN_PYTHON[name]
    usual = sound(drawn, seed)
    put_in(monkeypatch)
    assert_differ(usual, run(drawn, seed, tmp_path))
