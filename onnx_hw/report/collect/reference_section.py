"""Section of the report about golden and the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx_hw.prove.model.compare import TensorComparison
from onnx_hw.quantization.mixed_precision.sqnr_by_tensor import TensorLoss
from onnx_hw.report.losses import Loss
from onnx_hw.report.model import FloatModel, OutputFidelity, Reference, TensorFidelity
from onnx_hw.samples.sqnr import NoiseStatistics

MAX_TENSORS = 10


def describe_reference(compared: TensorComparison, lost: Sequence[TensorLoss] = ()) -> Reference:
    """Return the section; ``lost`` are losses by tensor, the greatest first."""
    agreement, fidelity = compared.agreement, compared.fidelity
    float_model = None
    if fidelity is not None:
        worst = sorted(
            (TensorFidelity(name, noise.sqnr_db) for name, noise in fidelity.tensors.items()),
            key=lambda tensor: (tensor.sqnr_db is None, tensor.sqnr_db or 0.0),
        )
        losses = tuple(
            Loss(one.tensor.name, one.tensor.kind, one.bits, one.sqnr_db, one.share, one.saturated, one.advice)
            for one in lost[:MAX_TENSORS]
        )
        float_model = FloatModel(_outputs(fidelity.outputs), tuple(worst[:MAX_TENSORS]), losses)
    return Reference(
        agreement.frames,
        agreement.tensors_compared,
        agreement.values_compared,
        agreement.equal,
        agreement.one_step,
        agreement.worst,
        _outputs(agreement.outputs),
        float_model,
    )


def _outputs(noise: Mapping[str, NoiseStatistics]) -> tuple[OutputFidelity, ...]:
    return tuple(
        OutputFidelity(name, output.values, output.equal, output.worst, output.sqnr_db)
        for name, output in noise.items()
    )
