"""The section of the report about golden and the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx_hw.prove.model.compare import TensorComparison
from onnx_hw.quantization.mixed_precision.sqnr_by_tensor import TensorLoss
from onnx_hw.report.losses import Loss
from onnx_hw.report.model import FloatModel, OutputLikeness, Reference, TensorLikeness
from onnx_hw.samples.sqnr import NoiseStatistics

WORST_TENSORS = 10


def describe_reference(compared: TensorComparison, lost: Sequence[TensorLoss] = ()) -> Reference:
    """Args:
    lost: by tensors, the one that loses most first.
    """
    found, fidelity = compared.agreement, compared.fidelity
    float_model = None
    if fidelity is not None:
        worst = sorted(
            (TensorLikeness(name, likeness.sqnr_db) for name, likeness in fidelity.tensors.items()),
            key=lambda tensor: (tensor.sqnr_db is None, tensor.sqnr_db or 0.0),
        )
        losses = tuple(
            Loss(one.tensor.name, one.tensor.kind, one.bits, one.sqnr_db, one.share, one.saturated, one.advice)
            for one in lost[:WORST_TENSORS]
        )
        float_model = FloatModel(_outputs(fidelity.outputs), tuple(worst[:WORST_TENSORS]), losses)
    return Reference(
        found.frames,
        found.tensors_compared,
        found.values_compared,
        found.equal,
        found.one_step,
        found.worst,
        _outputs(found.outputs),
        float_model,
    )


def _outputs(likeness: Mapping[str, NoiseStatistics]) -> tuple[OutputLikeness, ...]:
    return tuple(OutputLikeness(name, of.values, of.equal, of.worst, of.sqnr_db) for name, of in likeness.items())
