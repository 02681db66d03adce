"""Fidelity of a quantized network to its float model; a part of link 2.

There are two questions. Does the model that was prepared for quantization, with scales folded into weights, still
compute the same? That is judged. What does quantization cost? That is only reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from re import sub
from typing import Any

import numpy as np

from onnx_hw.messages.errors import ExitCode, user_error
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.prove.model.known_values import KnownFrame
from onnx_hw.prove.model.segments import evaluate_in_double
from onnx_hw.samples.sqnr import NoiseStatistics

MIN_PREPARED_DB = 110.0
"""Least SQNR of the prepared model that needs no explanation: folding rounds weights to float32, 140 dB and more below
them, also where some tens of them are multiplied in a row.
"""

MARGIN_DB = 20.0
"""Difference to the SQNR that a change of the last bits of all constants leaves: where values cancel, or functions are
steep, rounding is worth more. A model with less than that has another meaning.
"""

SEED, DRAWS = 8, 8

MIN_ROUNDED_DB = 30.0
"""Least SQNR where the model rounds to integers, a few of which may round the other way."""

MIN_FROZEN_DB = 12.0
"""Least SQNR where the model rounds data with a scale per sample, and the prepared model does not."""


@dataclass
class Fidelity:
    """Fidelity, frame by frame.

    Attributes:
        model: model as given.
        prepared: the same function, ready for quantization.
        quantized: quantized model that was made of it.
        outputs: golden against the given model, by graph output.
        tensors: the numbers that golden's integers stand for, against the prepared model, by its names.
        host: what the host computes of golden's integers, likewise.
    """

    model: Model
    prepared: Model
    quantized: Model
    outputs: dict[str, NoiseStatistics] = field(default_factory=dict)
    tensors: dict[str, NoiseStatistics] = field(default_factory=dict)
    host: dict[str, NoiseStatistics] = field(default_factory=dict)

    def add(self, frame: Mapping[str, np.ndarray], known: KnownFrame) -> None:
        """Add the known values of a frame."""
        constants, expected = self.quantized.graph.constants, {}
        for node in self.quantized.graph.nodes:
            if facts_of(node).effect is Effect.QUANTIZES and node.outputs[0] in known.held:
                scale, zero = (constants.get(name) for name in node.inputs[1:3])
                name = sub(r"/u?int\d+$", "", node.outputs[0])
                if scale is not None and zero is not None and name in self.prepared.graph.values:
                    expected[name] = (known.held[node.outputs[0]] - zero.astype(np.int64)) * scale.astype(np.float64)

        def observe(name: str, value: Any) -> None:
            given = known.host.get(name)
            if isinstance(given, np.ndarray) and given.dtype.kind == "f" and given.shape == np.shape(value):
                self.host[name] = self.host.get(name, NoiseStatistics()).with_values(given, value)
            if name in expected:
                self.tensors[name] = self.tensors.get(name, NoiseStatistics()).with_values(expected[name], value)

        reference.run(self.prepared, frame, observe=observe)
        for name, truth in reference.run(self.model, frame).items():
            if name in known.outputs and isinstance(truth, np.ndarray) and truth.dtype.kind in "fiub":
                self.outputs[name] = self.outputs.get(name, NoiseStatistics()).with_values(known.outputs[name], truth)


def check_preparation(model: Model, prepared: Model, frame: Mapping[str, np.ndarray]) -> None:
    """Raise UserError, with exit code 4, unless the prepared model computes the same as the given one.

    Both are computed in double precision, so that only the folded weights are rounded.
    """
    facts = [facts_of(node) for node in model.graph.nodes]
    rounds = any(row.rounded is not None or row.effect is Effect.SNAPS for row in facts)
    outputs = evaluate_in_double(prepared, frame)
    least = MIN_FROZEN_DB if any(row.chooses_scale for row in facts) else MIN_ROUNDED_DB if rounds else MIN_PREPARED_DB
    for name, expected in evaluate_in_double(model, frame).items():
        if not isinstance(expected, np.ndarray) or expected.dtype != np.float64:
            continue
        likeness = NoiseStatistics().with_values(outputs[name], expected)
        if likeness.sqnr_db is None or likeness.sqnr_db >= least:
            continue
        if least == MIN_PREPARED_DB and likeness.sqnr_db >= _rounded_db(prepared, frame, outputs)[name] - MARGIN_DB:
            continue
        raise user_error(
            "preparation-differs",
            f"the output `{name}` must be the same before and after the model is prepared for quantization; "
            f"it differs by up to {likeness.worst:g} ({likeness.sqnr_db:.1f} dB)",
            hint="this is a bug of onnx-hw: please report it with the model",
            stage="quantize",
            exit_code=ExitCode.MISMATCH,
        )


def _rounded_db(model: Model, frame: Mapping[str, np.ndarray], outputs: Mapping[str, Any]) -> dict[str, float]:
    """Return the least SQNR that is left, by output, where the last bits of all float32 constants change."""
    generator = np.random.Generator(np.random.PCG64(SEED))

    def nudged(array: Any) -> Any:
        if not isinstance(array, np.ndarray) or array.dtype != np.float32:
            return array
        return array * np.float32(1 + 2.0**-22 * generator.choice((-1, 1), array.shape))

    least: dict[str, float] = {}
    for _ in range(DRAWS):  # in one draw, two constants whose values cancel may change alike
        constants = {name: nudged(array) for name, array in model.graph.constants.items()}
        other = evaluate_in_double(replace(model, graph=replace(model.graph, constants=constants)), frame)
        for name, wanted in outputs.items():
            if isinstance(wanted, np.ndarray) and wanted.dtype == np.float64:
                ratio = NoiseStatistics().with_values(other[name], wanted).sqnr_db
                least[name] = min(least.get(name, inf), inf if ratio is None else ratio)
    return least
