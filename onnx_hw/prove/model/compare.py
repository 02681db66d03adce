"""Comparison of a network with its model (link 2), and with the float model where there was one.

Every build calls ``compare`` when it has a network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.onnx.graph.model import Model
from onnx_hw.prove.model.float_fidelity import Fidelity, check_preparation
from onnx_hw.prove.model.frames import MIN_FRAMES, frames_to_compare
from onnx_hw.prove.model.golden_vs_reference import Agreement, FrameComparison
from onnx_hw.prove.model.known_values import known_values
from onnx_hw.samples.frames import by_reference
from onnx_hw.samples.sequences import with_states
from onnx_hw.samples.sqnr import NoiseStatistics

SEQUENCE_FRAMES = 64
"""Number of frames in which the outputs of a network that keeps state are likened to those of its float model."""


@dataclass(frozen=True)
class TensorComparison:
    """Result of the comparison.

    Attributes:
        agreement: agreement of golden with the quantized model.
        fidelity: fidelity of golden to the model with floats; None where there was no such model.
        frames: frames on which they were compared, by graph input.
        from_user: number of those that were given, which come first.
    """

    agreement: Agreement
    fidelity: Fidelity | None = None
    frames: tuple[Mapping[str, np.ndarray], ...] = ()
    from_user: int = 0

    def __repr__(self) -> str:
        return str(self.agreement)


def compare(
    quantized: Model,
    network: Network,
    given: Mapping[str, np.ndarray] | None,
    floats: tuple[Model, Model] | None = None,
    sequence: Network | None = None,
) -> TensorComparison:
    """Compare golden with the model on four frames; on none where none are given and none can be drawn.

    A state that is kept from frame to frame is an input and an output here. What equals the model in one frame for
    every state equals it in all of them.

    Args:
        quantized: model that the network was made of.
        network: network to compare with it, of one frame.
        given: frames by graph input, (frames, *shape).
        floats: the float model that the quantized one was made of, as given and as prepared for quantization; None for
            a model that came quantized.
        sequence: the network that keeps its states, whose outputs are likened to those of the float model.

    Raises:
        UserError: they differ, and rounding does not explain it; with exit code 4.
    """
    comparison = FrameComparison(quantized, network)
    fidelity = None if floats is None else Fidelity(*floats, quantized)
    whole = given
    if given is not None and quantized.states:
        few = {name: array[:MIN_FRAMES] for name, array in given.items()}
        given = with_states(quantized if floats is None else floats[0], few)
    frames, from_user = frames_to_compare(quantized, network, given)
    if floats is not None and frames:
        check_preparation(*floats, frames[0])
    for number, frame in enumerate(frames):
        known = known_values(network, frame)
        comparison.add(frame, known)
        if fidelity is not None and number < from_user:  # drawn frames may lie outside of the ranges
            fidelity.add(frame, known)
    if fidelity is not None and whole is not None and quantized.states and sequence is not None:
        _liken_sequences(fidelity, sequence, {name: array[:SEQUENCE_FRAMES] for name, array in whole.items()})
    return TensorComparison(comparison.agreement, fidelity, tuple(frames), from_user)


def _liken_sequences(fidelity: Fidelity, network: Network, frames: Mapping[str, np.ndarray]) -> None:
    """Liken the outputs of whole sequences, in which each side goes on with its own state."""
    expected, fidelity.outputs = by_reference(fidelity.model, frames), {}
    for name, values in golden.run(network, frames).items():
        if expected[name].dtype.kind in "fiub":
            fidelity.outputs[name] = NoiseStatistics().with_values(values, expected[name])
