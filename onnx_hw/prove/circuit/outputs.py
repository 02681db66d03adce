"""Outputs of the graph, as they left the circuit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.prove.circuit.prove import Proof
from onnx_hw.samples.samples import frame_count


def circuit_outputs(design: Design, proof: Proof, frames: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the graph's outputs of the circuit, by name; of the first frames, where it has not computed all of them.

    Args:
        frames: frames that it was proven with, by graph input; see ``streamed_in``.
    """
    streamed = {tensor: array[: frame_count(frames)] for tensor, array in proof.outputs.items()}
    return golden.outputs_of(design.network, streamed, frames)
