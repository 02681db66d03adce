"""Products of integer matrices: exact beyond what floats hold, and without a copy of all vectors."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from onnx_hw.exact import matrix_product as product


@pytest.mark.parametrize("bound", [1 << 52, 1 << 60])
@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_blocks_make_the_whole(monkeypatch: pytest.MonkeyPatch, rows: int, bound: int) -> None:
    """A last block of fewer rows, one that is full, and rows that are longer than a block."""
    monkeypatch.setattr(product, "BLOCK", 3 * 5 - 1)
    random = np.random.default_rng(rows)
    vectors, weights = random.integers(-99, 99, (2, rows, 5)), random.integers(-99, 99, (2, 5, 4))
    made = product.matrix_product(vectors, weights, bound)
    assert made.dtype == np.int64
    assert made.tolist() == [
        [[sum(int(a) * int(b) for a, b in zip(v, w, strict=True)) for w in weights[k].T] for v in vectors[k]]
        for k in range(2)
    ]
    monkeypatch.setattr(product, "BLOCK", 2)
    assert np.array_equal(product.matrix_product(vectors, weights, bound), made)


@pytest.mark.parametrize("bound", [1 << 52, 1 << 60])
def test_vectors_of_a_large_image_are_not_copied(bound: int) -> None:
    vectors, weights = np.ones((1, 1 << 16, 64), dtype=np.int64), np.ones((1, 64, 1), dtype=np.int64)
    tracemalloc.start()
    try:
        product.matrix_product(vectors, weights, bound)
        assert tracemalloc.get_traced_memory()[1] < vectors.nbytes / 2
    finally:
        tracemalloc.stop()
