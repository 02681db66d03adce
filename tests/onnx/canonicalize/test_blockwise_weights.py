"""Weights of few bits, a scale for every block of inputs, in the forms that are about, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_hw import flow
from onnx_hw.commands.build import build
from onnx_hw.ir import golden
from onnx_hw.onnx.evaluate import reference
from onnx_hw.ops.matmul import MatMul
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.progress import Silent
from onnx_hw.runtime.stage import Stage
from support.onnx_oracle import by_onnxruntime
from support.qdq_models import Sketch

INPUTS, OUTPUTS = 40, 6
"""Not a whole number of blocks of 16, to which onnxruntime's packed form pads them."""


class Blocks:
    """Drawn weights (INPUTS, OUTPUTS); ``exact``: the scales of an output are small multiples of one number."""

    def __init__(self, seed: int, bits: int, size: int, *, exact: bool, zeros: bool) -> None:
        self.random, self.bits, self.size = np.random.default_rng(seed), bits, size
        self.count = -(-INPUTS // size)
        self.integers = self.random.integers(0, 1 << bits, (OUTPUTS, self.count * size))
        scales = self.random.integers(1, 9, (OUTPUTS, self.count)) * self.random.uniform(0.01, 0.02, (OUTPUTS, 1))
        if exact:
            scales = np.exp2(self.random.integers(-8, -4, (OUTPUTS, self.count)))
        self.scales, middle = scales.astype(np.float32), 1 << (bits - 1)
        drawn = self.random.integers(0, 1 << bits, self.scales.shape)
        self.zeros = drawn if zeros else np.full(self.scales.shape, middle)
        self.given = zeros

    def packed(self, numbers: np.ndarray) -> np.ndarray:
        ones = np.unpackbits(numbers.astype(np.uint8)[..., None], axis=-1, bitorder="little")[..., : self.bits]
        return np.packbits(ones.reshape(*numbers.shape[:-1], -1), axis=-1, bitorder="little")

    def product(self, sketch: Sketch, x: str) -> str:
        packed = self.packed(self.integers.reshape(OUTPUTS, self.count, self.size))
        names = [sketch.constant(packed), sketch.constant(self.scales.reshape(-1))]
        if self.given:
            names.append(sketch.constant(self.packed(self.zeros).reshape(-1)))
        sizes = {"K": INPUTS, "N": OUTPUTS, "bits": self.bits, "block_size": self.size}
        return sketch.node("MatMulNBits", x, *names, domain="com.microsoft", **sizes)

    def dequantized(self, sketch: Sketch, x: str) -> str:
        """The same with a DequantizeLinear, of nibbles where they are such."""
        kind = TensorProto.UINT4 if self.bits == 4 else TensorProto.UINT8

        def stored(numbers: np.ndarray, name: str) -> str:
            dtype = helper.tensor_dtype_to_np_dtype(kind)
            sketch.constants.append(numpy_helper.from_array(numbers.astype(dtype), name))
            return name

        weights = stored(self.integers[:, :INPUTS].T, "w")
        scale, zero = sketch.constant(self.scales.T.copy()), stored(self.zeros.T, "z")
        weights = sketch.node("DequantizeLinear", weights, scale, zero, axis=0, block_size=self.size)
        return sketch.node("MatMul", x, weights)


def written(tmp_path: Path, blocks: Blocks, *, packed: bool, quantized: bool) -> Path:
    """One product of data that the model quantizes, or leaves in floats; the output in floats."""
    sketch = Sketch(opset=21)
    x = sketch.through_integers("x", 0.02, 3) if quantized else "x"
    y = (blocks.product if packed else blocks.dequantized)(sketch, x)
    model = sketch.model([1, INPUTS], TensorProto.FLOAT, y, 2, TensorProto.FLOAT)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model.ir_version = 10
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def frames(blocks: Blocks) -> dict[str, np.ndarray]:
    return {"x": blocks.random.uniform(-2, 2, (12, 1, INPUTS)).astype(np.float32)}


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("bits", "size", "zeros"), [(4, 16, True), (4, 32, False), (8, 16, True), (2, 16, False)])
def test_commensurable_scales_lose_nothing(tmp_path: Path, bits: int, size: int, zeros: bool, packed: bool) -> None:
    blocks = Blocks(bits + size, bits, size, exact=True, zeros=zeros)
    path = written(tmp_path, blocks, packed=packed, quantized=True)
    network = flow.quantize(flow.read(path))
    (product,) = (node.operator for node in network.nodes if isinstance(node.operator, MatMul))
    assert np.abs(product.weights).max() < 1 << (bits + 3)
    given = frames(blocks)
    (found,), (wanted,) = golden.run(network, given).values(), by_onnxruntime(path, given).values()
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("quantized", [True, False])
def test_others_get_new_integers_and_the_build_says_what_that_loses(
    tmp_path: Path, packed: bool, quantized: bool
) -> None:
    blocks = Blocks(7, 4, 16, exact=False, zeros=True)
    path, given = written(tmp_path, blocks, packed=packed, quantized=quantized), frames(blocks)
    (wanted,) = by_onnxruntime(path, given).values()
    for x, row in zip(given["x"], wanted, strict=True):
        (same,) = reference.run(flow.read(path), {"x": x}).values()
        assert np.allclose(same, row, rtol=1e-4, atol=1e-5)
    network = flow.quantize(flow.read(path), given)
    (found,) = golden.run(network, given).values()
    assert 1e-7 < ((found - wanted) ** 2).sum() / (wanted**2).sum() < 1e-3
    np.savez(tmp_path / "x.npz", **given)
    progress = Silent()
    build(
        BuildOptions(model=path, out=tmp_path / "o", stop_after=Stage.QUANTIZE, calibration=tmp_path / "x.npz"),
        progress,
    )
    assert any("blocks" in warning and "dB" in warning for warning in progress.warnings)
