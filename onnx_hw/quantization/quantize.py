"""Entry of quantization: any model becomes a network.

A model goes in, with samples or assumed ranges and a ``Scheme``; the network comes out, with the models that it is
made of. The model keeps the integers that it brings; samples say how to choose those that it lacks. ``flow.quantized``
and ``commands.build_stages`` call ``prepare_model`` and ``quantize_model``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from onnx_hw.ir.network import Network
from onnx_hw.lower.keep_states import KeptIntegers, keep_states
from onnx_hw.messages.errors import user_error
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.onnx.canonicalize.cast_to_float32 import cast_to_float32
from onnx_hw.onnx.canonicalize.decompose_dynamic_quantization import require_samples
from onnx_hw.onnx.canonicalize.is_quantized import is_quantized
from onnx_hw.onnx.check.supported import require_capability, require_constant_weights
from onnx_hw.onnx.graph.model import Model
from onnx_hw.quantization.complete import complete_and_lower
from onnx_hw.quantization.decisions import QuantError
from onnx_hw.quantization.mixed_precision.search import ChosenWidths
from onnx_hw.quantization.mixed_precision.sqnr_by_tensor import TensorLoss
from onnx_hw.quantization.post_training import QuantizedFloats, prepare_floats, quantize_prepared_floats
from onnx_hw.quantization.ranges.calibrate import RangeSource, SampleRanges
from onnx_hw.quantization.ranges.mse import MseRange
from onnx_hw.quantization.scheme import DEFAULT, Scheme
from onnx_hw.quantization.tie_states import tie_states
from onnx_hw.runtime.blas_threads import one_blas_thread
from onnx_hw.samples.sequences import with_states


@dataclass(frozen=True)
class Quantized:
    """Result of quantization: a network, and what it was made of.

    Attributes:
        network: network of integers, with the name of the model.
        model: quantized model that the network computes; a state is an input and an output of it.
        step: network of one frame, whose states are inputs and outputs; ``network`` itself without states.
        brings: whether the model came with integers of its own for its data.
        floats: the model as given and as prepared for quantization; None where no integers were chosen.
        chosen: description of the integers that a partly quantized model lacked, by value or weight.
        ranges: range of each value for which an MSE range was searched, by name.
        held: quantization error of each value on samples, by the names of the prepared model.
        widths: bit widths that a search for a goal found; None without a goal.
        tensor_losses: function that computes the losses, the largest first; empty for integers of the model.
        equalized: float model of which the integers of weights were made, with the names of ``model``; None if all
            integers came with the model.
    """

    network: Network
    model: Model
    step: Network
    brings: bool = True
    floats: tuple[Model, Model] | None = None
    chosen: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, MseRange] = field(default_factory=dict)
    held: Mapping[str, QuantError] = field(default_factory=dict)
    widths: ChosenWidths | None = None
    tensor_losses: Callable[[], tuple[TensorLoss, ...]] = tuple
    equalized: Model | None = None


@dataclass(frozen=True)
class PreparedModel:
    """A model before quantization.

    Attributes:
        model: the model as given, of one frame.
        canonical: the same function in the few operators that are lowered, folded; see ``canonicalize``.
        brings: whether the model brings integers of its own for its data.
        given: the model as given, before its states were tied to integers of its own.
        kept: integers of the states that it brings.
    """

    model: Model
    canonical: Model
    brings: bool
    given: Model
    kept: tuple[KeptIntegers, ...] = ()


def prepare_model(model: Model) -> PreparedModel:
    """Bring a model into the form that ``quantize_model`` takes, and look whether it brings integers of its own.

    Args:
        model: the model of one frame, such as ``flow.read(path).frame.model``.

    Raises:
        UserError: everything that hardware cannot do; a tensor is too large; the model is not typed.
    """
    require_capability(model)
    kept: tuple[KeptIntegers, ...] = ()
    canonical, given = canonicalize(model), model
    brings = is_quantized(model) or is_quantized(canonical)
    if brings and model.states:
        model, kept = tie_states(model, adopt=False)
        canonical = canonicalize(model)
    require_constant_weights(canonical)
    return PreparedModel(model, canonical, brings, given, kept)


@one_blas_thread()
def quantize_model(
    prepared: PreparedModel, ranges: RangeSource | None, scheme: Scheme | None = None, *, loadable: bool = False
) -> Quantized:
    """Return the network of a model.

    Args:
        ranges: where the ranges of values without integers come from; None where nothing is known of them.
        scheme: how integers are chosen where the model has none; None for the default scheme.
        loadable: whether constants that depend on weights and scales have to be such as can be loaded at run time.

    Raises:
        UserError: every obstacle, with the nodes' own names; a value is not finite during calibration; the model has no
            integers at all and ``ranges`` is None; a scheme is given and there is nothing to choose, or it names what
            is not quantized.
    """
    model, ready, brings, kept = prepared.model, prepared.canonical, prepared.brings, prepared.kept
    chosen_by, floats = scheme or replace(DEFAULT, widen=True), None
    if model.states and isinstance(ranges, SampleRanges):
        ranges = replace(ranges, frames=with_states(model, ranges.frames))
    result: QuantizedFloats | None = None
    if not brings and ranges is None:
        require_samples(model, given=False)
        raise user_error(
            "calibration-missing",
            f"the float model `{model.name}` must come with calibration frames",
            hint="quantize(model, calibration={input: array of frames})",
            stage="quantize",
        )
    if not brings and ranges is not None:
        result = quantize_prepared_floats(prepare_floats(ready), ranges, chosen_by)
        ready, floats = result.model, (model, result.floats)
        chosen_by = replace(chosen_by, data_overrides={}, weight_overrides={}, goal=None)  # already applied
        ready, kept = tie_states(ready, adopt=True)
    exact = result.exact if result is not None else ()
    step, completed, chosen = complete_and_lower(ready, ranges, chosen_by, exact, loadable=loadable)
    network = keep_states(step, kept, _results(prepared.given)) if kept else step
    if scheme is not None and floats is None and not chosen:
        raise user_error(
            "scheme",
            f"bits are chosen for a model that lacks integers; `{model.name}` brings all of its own",
            hint="leave out what asks for bits: --bits, --precision, --sqnr, --accuracy-loss, --output-kind",
            stage="quantize",
        )
    if chosen and floats is None:
        floats = model, cast_to_float32(ready)
    quantized = Quantized(network, completed if floats else model, step, brings, floats, chosen)
    if result is None:
        return quantized
    return replace(
        quantized,
        ranges=result.ranges,
        held=result.held,
        widths=result.widths,
        tensor_losses=result.tensor_losses,
        equalized=result.equalized,
    )


def _results(model: Model) -> list[str]:
    """Return the outputs of a graph that are no states; all of them where there are no others."""
    kept = {pair.output for pair in model.states}
    names = [value.name for value in model.graph.outputs]
    return [name for name in names if name not in kept] or names
