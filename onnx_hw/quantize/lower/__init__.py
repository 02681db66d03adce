"""How ONNX operators become hardware: one small function each, grouped by family, found by name.

A lowering reads ``builder.values`` of the node's inputs and sets those of its outputs. It raises ``Obstacle`` when the
node cannot be hardware.
"""

from onnx_hw.quantize.lower import (
    activation,
    arithmetic,
    comparing,
    convolution,
    extremum,
    functions,
    grids,
    joining,
    layout,
    matmul,
    moving,
    pooling,
    quantization,
    reducing,
    transposed_convolution,
)
from onnx_hw.quantize.lower.registry import LOWERINGS, lowering_of

__all__ = ["LOWERINGS", "lowering_of"]

_FAMILIES = (
    *(activation, arithmetic, comparing, convolution, extremum, functions, grids, joining),
    *(layout, matmul, moving, pooling, quantization, reducing, transposed_convolution),
)
