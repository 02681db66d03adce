"""Outputs for a caller's arrays, stacked on the axes on which the caller's samples are stacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onnx_hw.onnx.graph.model import Value
from onnx_hw.samples.outputs import holds_maps


def stacked_as(
    outputs: Mapping[str, np.ndarray], x: Mapping[str, ArrayLike] | ArrayLike, inputs: Sequence[Value]
) -> dict[str, Any]:
    """Return outputs by name, stacked as the samples were; maps are a list.

    Args:
        outputs: arrays by output, (samples, *shape of the output).
        x: the samples: arrays by graph input, or the array of the only input.
        inputs: the graph's inputs.
    """
    array = x[inputs[0].name] if isinstance(x, Mapping) else x
    stacking = np.ndim(array) - len(inputs[0].shape or ())
    stacked = {name: _stacked_as(output, stacking) for name, output in outputs.items()}
    return {name: _maps(output) if holds_maps(output) else output for name, output in stacked.items()}


def _maps(array: np.ndarray) -> list[Any]:
    """Return maps as a list; a single one as a list of one."""
    maps = array.tolist()
    return maps if isinstance(maps, list) else [maps]


def _stacked_as(array: np.ndarray, stacking: int) -> np.ndarray:
    """Return outputs, (samples, *shape), stacked as the samples were.

    Args:
        array: outputs of all samples.
        stacking: number of axes that the samples had more than the input: 1 for a new first axis, 0 for samples on the
            batch axis or a single sample, -1 for a single sample without its batch dimension.
    """
    if stacking > 0:
        return array
    batched = array.ndim > 1 and array.shape[1] == 1
    if stacking < 0:
        return array[0, 0, ...] if batched else array[0, ...]
    if batched:
        return array[:, 0]
    return array[0] if len(array) == 1 else array
