"""Linear Resize by any factors: each result is a sum of four elements, or two, with weights that are its own.

The weights of the formula in ONNX's specification are rational numbers: with align_corners, for example, multiples of
1 / (size − 1). All places of the result are channels of a depthwise product with the integers over their common
denominator, and a division follows. Whole factors have a lowering of their own.
"""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, composed
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.resize import Interpolation, interpolation_weights, source_positions

MAX_PLACES = 1 << 14
"""Greatest number of pixels of the result, each of which has weights of its own."""

MAX_DENOMINATOR = 1 << 10
"""Greatest common denominator of the weights of one axis."""

TOLERANCE = 1e-6
"""Greatest difference of a rational weight and its floating-point formula."""


@composed("Resize", meaning="")
def resize(composer: Composer, node: Node) -> str:
    """Compose a linear Resize of one image or signal by factors that are not whole, or with align_corners."""
    attributes = node.attributes
    names = ("mode", "coordinate_transformation_mode", "keep_aspect_ratio_policy")
    mode, coordinates, policy = (
        str(attributes.get(n, d)) for n, d in zip(names, ("nearest", "half_pixel", "stretch"), strict=True)
    )
    before, after = composer.shape(node.inputs[0]), composer.shape(node.outputs[0])
    composer.require(mode == "linear" and policy == "stretch" and not attributes.get("antialias", 0))
    composer.require(node.version >= 11 and "axes" not in attributes and composer.is_float(node.outputs[0]))
    composer.require(len(before) in (3, 4) and before[0] == 1 and before[:2] == after[:2])
    composer.require(coordinates in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"))
    sizes, results = before[2:], after[2:]
    composer.require(prod(results) <= MAX_PLACES)
    scales = [result / size for size, result in zip(sizes, results, strict=True)]
    if len(node.inputs) > 2 and node.inputs[2]:
        given = composer.constant_input(2)
        scales = [float(scale) for scale in given[2:]] if given.size else scales
    pairs = list(zip(sizes, results, strict=True))
    if coordinates == "align_corners":
        composer.require(any(size not in (1, result) for size, result in pairs))
    else:
        composer.require(any(result % size and size % result for size, result in pairs))
    axes = [_taps(composer, *pair, scale, coordinates) for pair, scale in zip(pairs, scales, strict=True)]
    sources, weights, denominator = axes[0]
    for more, factors, divisor in axes[1:]:  # (places, taps) of all axes together
        sources = (sources[:, None, :, None] * sizes[-1] + more[None, :, None, :]).reshape(len(sources) * len(more), -1)
        weights = (weights[:, None, :, None] * factors[None, :, None, :]).reshape(len(sources), -1)
        denominator *= divisor
    places, taps = sources.shape
    channels = np.arange(before[1])[None, :, None] * prod(sizes)
    origin = channels + sources[:, None, :]  # (places, channels, taps)
    signal = composer.gathered([node.inputs[0]], origin.reshape(1, places, -1))
    stored = composer.added.constant(
        f"{node.outputs[0]}/weights", weights.reshape(places, 1, taps).astype(np.int32), "int32"
    )
    kernel = composer.add("DequantizeLinear", stored, composer.constant(1.0))
    sums = composer.add("Conv", signal, kernel, version=11, group=places, strides=(taps,))
    means = composer.add("Div", sums, composer.constant(float(denominator)))
    return composer.add("Reshape", composer.add("Transpose", means, perm=(0, 2, 1)), composer.lengths(after))


def _taps(
    composer: Composer, size: int, result: int, scale: float, coordinates: str
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return sources and integer weights, int64 (results, 2) each, and the denominator of the weights of one axis."""
    positions = source_positions(size, result, scale, coordinates, (0, 1))
    exact = interpolation_weights(positions, size, scale, Interpolation("linear", coordinates))
    for denominator in range(1, MAX_DENOMINATOR + 1):
        whole = np.rint(exact * denominator)
        if np.abs(whole / denominator - exact).max() <= TOLERANCE and (whole.sum(axis=1) == denominator).all():
            order = np.argsort(-np.abs(whole), axis=1, kind="stable")[:, :2] if size > 1 else np.zeros((result, 1), int)
            order = np.sort(order, axis=1)
            weights = np.take_along_axis(whole, order, axis=1).astype(np.int64)
            composer.require(bool((weights.sum(axis=1) == denominator).all()))
            return order, weights, denominator
    composer.require(False)
    raise AssertionError
