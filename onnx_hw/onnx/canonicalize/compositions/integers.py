"""Operators of real numbers that a model applies to integers of 8 bits: they are computed with numbers as large.

onnxruntime's quantizer writes such in its form with operators on integers. Their scale does not matter; it is 1.
"""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, Need, composed
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.resize import Interpolation, interpolation_weights, source_positions

MAX_DENOMINATOR = 1 << 10
"""Greatest common denominator of the weights of one axis."""


@composed("Resize", meaning="", need=Need.ALWAYS)
def interpolate(composer: Composer, node: Node) -> str:
    """Compose a linear Resize of integers, whose results are rounded towards 0.

    The weights must be multiples of a power of two, so that floats compute them without an error. With the common
    denominator D of the results, a number rounded to the nearest one after (1 − 1/D)/2 was taken off is rounded down.
    """
    composer.require(
        str(node.attributes.get("mode", "nearest")) == "linear" and not node.attributes.get("antialias", 0)
    )
    real = _real(composer, node)
    denominator = _denominator(composer, node)
    resized = composer.add(node.op_type, real, *node.inputs[1:], version=node.version, **node.attributes)
    if denominator > 1:
        less = composer.constant((1 - 1 / denominator) / 2, real)
        if composer.type_of(node.inputs[0]) == "int8":
            less = composer.add("Mul", composer.add("Sign", resized), less)
        resized = composer.add("Sub", resized, less)
    return _stored(composer, node, resized)


@composed("MaxPool", meaning="", need=Need.ALWAYS)
def pool_volumes(composer: Composer, node: Node) -> str:
    """Compose the maxima of a volume of integers; those of images are hardware as they are."""
    composer.require(len(composer.shape(node.inputs[0])) == 5)
    return _stored(
        composer, node, composer.add("MaxPool", _real(composer, node), version=node.version, **node.attributes)
    )


def _scale(composer: Composer, node: Node) -> tuple[str, str]:
    """Return the names of the scale 1 and the zero point 0 of the integers of a node."""
    one = composer.added.constant(f"{composer.result}/one", np.array(1, dtype=np.float32), "float")
    return one, composer.constant(0, node.inputs[0])


def _real(composer: Composer, node: Node) -> str:
    """Return the integers that a node reads as real numbers; they must have 8 bits, and depend on data."""
    composer.require(composer.type_of(node.inputs[0]) in ("int8", "uint8") and composer.depends_on_data(node.inputs[0]))
    return composer.add("DequantizeLinear", node.inputs[0], *_scale(composer, node))


def _stored(composer: Composer, node: Node, real: str) -> str:
    return composer.add("QuantizeLinear", real, *_scale(composer, node))


def _denominator(composer: Composer, node: Node) -> int:
    """Return the common denominator of the weights of all axes together, a power of two."""
    before, after = composer.shape(node.inputs[0]), composer.shape(node.outputs[0])
    coordinates = str(node.attributes.get("coordinate_transformation_mode", "half_pixel"))
    composer.require(node.version >= 11 and "axes" not in node.attributes and coordinates != "tf_crop_and_resize")
    composer.require(not node.attributes.get("exclude_outside", 0))
    scales = [result / size for size, result in zip(before, after, strict=True)]
    if len(node.inputs) > 2 and node.inputs[2]:
        given = composer.constant_input(2)
        scales = [float(scale) for scale in given] if given.size else scales
    whole = 1
    for size, result, scale in zip(before, after, scales, strict=True):
        places = source_positions(size, result, scale, coordinates, (0, 1))
        weights = interpolation_weights(places, size, scale, Interpolation("linear", coordinates))
        parts = next((d for d in _POWERS if (np.rint(weights * d) == weights * d).all()), None)
        composer.require(parts is not None)
        assert parts is not None
        whole *= parts
    return whole


_POWERS = tuple(1 << k for k in range(MAX_DENOMINATOR.bit_length()))
