"""Integers of every width from 1 to 16 bits through networks built directly: golden, circuit and firing law agree."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.rounding import Rounding
from onnx_hw.ir.design import Design
from onnx_hw.ops.argmax import ArgMax
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.reduce import Reduce
from onnx_hw.ops.requantize import Requantize
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from support.design_bench import assert_proven, every_tensor, prove, random_frames
from support.hand_built_designs import Sketch


def network(bits: int, seed: int) -> tuple[Design, Requantize]:
    """A convolution onto a grid, a pool and a product onto another, the greatest of its sums; the first requantizer."""
    generator = np.random.default_rng(seed)
    kinds = [Int(bits, bool(generator.integers(2))) for _ in range(3)]
    sketch = Sketch()
    x = sketch.input("x", Tensor((2, 3, 2), kinds[0]))
    window = Window(sketch.tensors[x], (2, 2), pads=(1, 0, 0, 1), pad_value=kinds[0].max)
    (columns,) = sketch.add("window", window, [x], (1, 2), 2)
    weights = Int(bits, signed=bits > 1)
    matrix = generator.integers(weights.min, weights.max, (3, 8), endpoint=True)
    matrix[:, 0] = weights.min, weights.max, weights.max
    (sums,) = sketch.add("conv", MatMul(sketch.tensors[columns], matrix), [columns], (2, 1), 2)

    def quantized(name: str, sums: str, kind: Int) -> str:
        """Onto a grid whose ends the sums just pass."""
        first, last = sketch.tensors[sums].range
        step = Fraction(max(last - first, 1), 1 << bits) * Fraction(9, 10)
        zero = generator.integers(kind.min, kind.max, endpoint=True)
        grid = Grid.over(kind, step, int(zero), list(Rounding)[generator.integers(len(Rounding))])
        requantize = Requantize(sketch.tensors[sums], (Fraction(1),), (step * (kind.min - int(zero)) - first,), grid)
        return sketch.add(name, requantize, [sums], (1, 1), 2)[0]

    y = quantized("grid", sums, kinds[1])
    (pooled,) = sketch.add("pool", Pool(sketch.tensors[y], "max", (2, 2), (2, 2), (0, 0, 1, 0)), [y], (1, 1), 2)
    other = sketch.input("other", Tensor(sketch.tensors[pooled].shape, kinds[2]))
    product = Multiply(sketch.tensors[pooled], sketch.tensors[other], (-kinds[1].max, -kinds[2].min))
    (products,) = sketch.add("multiply", product, [pooled, other], (1, 1), 2)
    z = quantized("second grid", products, kinds[2])
    (total,) = sketch.add("reduce", Reduce(sketch.tensors[z], "sum"), [z], (1, 1), 2)
    sketch.add("argmax", ArgMax(sketch.tensors[total]), [total], (1, 1), 2)
    (first,) = (node.operator for node in sketch.nodes if node.name == "grid")
    assert isinstance(first, Requantize)
    return sketch.design(), first


QUICK = (1, 3, 6, 11, 16)


@pytest.mark.parametrize(
    "bits", [bits if bits in QUICK else pytest.param(bits, marks=pytest.mark.slow) for bits in range(1, 17)]
)
def test_every_width(bits: int) -> None:
    design, requantize = network(bits, bits)
    assert_proven(prove(design, frames=2, seed=bits))
    values = every_tensor(design.network, random_frames(design, 2, bits))
    (sums, y) = values["conv.o"].reshape(-1), values["grid.o"].reshape(-1)
    wanted = [requantize.grid.integer(Fraction(int(v)) + requantize.offset[0]) for v in sums]
    assert y.tolist() == wanted
    for name, tensor in design.network.tensors.items():
        low, high = tensor.dtype.min, tensor.dtype.max
        assert low <= values[name].min() and values[name].max() <= high, name
        assert tensor.dtype.bits == bits or name in ("conv.o", "multiply.o", "reduce.o", "argmax.o"), name
