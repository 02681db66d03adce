"""The walk over the tensors of a network: the same values as ``trace``, and no more of them in memory than are read."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from support.fixture_paths import EXAMPLES

DIGITS = EXAMPLES / "digits" / "digits.onnx"


def test_only_what_is_read_later_is_kept() -> None:
    network = flow.quantize(flow.read(DIGITS))
    integers = golden.random_integers(network)
    kept = golden.trace(network, integers)
    alive: dict[str, weakref.ref[np.ndarray]] = {}
    for name, array in golden.walk(network, integers):
        np.testing.assert_array_equal(array, kept[name])
        alive[name] = weakref.ref(array if array.base is None else array.base)
        del array
        assert sum(one() is not None for other, one in alive.items() if other not in integers) <= 3
    assert alive.keys() == kept.keys()


def test_frames_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    network = flow.quantize(flow.read(DIGITS))
    frames = {"image": np.load(EXAMPLES / "digits" / "digits_test.npz")["image"][:5]}
    together = golden.run(network, frames)
    counts: list[int] = []
    walk = golden.walk

    def watched(network: flow.Network, integers: dict[str, np.ndarray]) -> object:
        counts.append(len(next(iter(integers.values()))))
        return walk(network, integers)

    monkeypatch.setattr(golden, "walk", watched)
    monkeypatch.setattr(golden, "MAX_VALUES", 2 * sum(tensor.size for tensor in network.tensors.values()))
    for name, array in golden.run(network, frames).items():
        np.testing.assert_array_equal(array, together[name])
    assert counts == [2, 2, 1]
