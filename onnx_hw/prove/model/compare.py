"""Comparison of a network with its model (link 2), and with the float model where there was one.

Every build calls ``compare`` when it has a network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from onnx_hw.ir.network import Network
from onnx_hw.onnx.graph.model import Model
from onnx_hw.prove.model.float_fidelity import Fidelity, check_preparation
from onnx_hw.prove.model.frames import frames_to_compare
from onnx_hw.prove.model.golden_vs_reference import Agreement, FrameComparison
from onnx_hw.prove.model.known_values import known_values


@dataclass(frozen=True)
class TensorComparison:
    """Result of the comparison.

    Attributes:
        agreement: agreement of golden with the quantized model.
        fidelity: fidelity of golden to the model with floats; None where there was no such model.
    """

    agreement: Agreement
    fidelity: Fidelity | None = None

    def __repr__(self) -> str:
        return str(self.agreement)


def compare(
    quantized: Model,
    network: Network,
    given: Mapping[str, np.ndarray] | None,
    floats: tuple[Model, Model] | None = None,
) -> TensorComparison:
    """Compare golden with the model on four frames; on none where none are given and none can be drawn.

    Args:
        quantized: model that the network was made of.
        network: network to compare with it.
        given: frames by graph input, (frames, *shape).
        floats: the float model that the quantized one was made of, as given and as prepared for quantization; None for
            a model that came quantized.

    Raises:
        UserError: they differ, and rounding does not explain it; with exit code 4.
    """
    comparison = FrameComparison(quantized, network)
    fidelity = None if floats is None else Fidelity(*floats, quantized)
    frames, from_user = frames_to_compare(quantized, network, given)
    if floats is not None and frames:
        check_preparation(*floats, frames[0])
    for number, frame in enumerate(frames):
        known = known_values(network, frame)
        comparison.add(frame, known)
        if fidelity is not None and number < from_user:  # drawn frames may lie outside of the ranges
            fidelity.add(frame, known)
    return TensorComparison(comparison.agreement, fidelity)
