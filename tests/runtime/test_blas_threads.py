"""Products of floats on one thread, while a model is quantized and only then."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from onnx_hw import flow
from onnx_hw.onnx.operators import convolution
from onnx_hw.runtime.blas_threads import one_blas_thread
from support.fixture_paths import EXAMPLES


def threads() -> list[int]:
    """The threads of each BLAS library."""
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_one_thread() -> None:
    before = threads()
    with one_blas_thread():
        assert set(threads()) <= {1}
    assert threads() == before


def test_quantization_takes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    convolve = convolution.convolve

    def watched(*arguments: object) -> np.ndarray:
        seen.extend(threads())
        return convolve(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(convolution, "convolve", watched)
    model = flow.read(EXAMPLES / "digits" / "digits_float.onnx")
    samples = np.load(EXAMPLES / "digits" / "digits_calibration.npz")
    flow.quantize(model, {name: samples[name][:2] for name in samples.files if name != "labels"})
    assert seen
    assert set(seen) == {1}
