"""Golden against the reference of the quantized model (link 2): every value that both know, frame by frame.

The model is the one that the user gave, or the one that quantization made of it, before any rewriting by the lowering.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import ExitCode, Problem, UserError
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Model, Node
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of, node_location
from onnx_hw.prove.model.known_values import KnownFrame, find_misplaced
from onnx_hw.prove.model.rounding_differences import find_unexplained
from onnx_hw.prove.model.segments import run_in_segments
from onnx_hw.samples.sqnr import NoiseStatistics


@dataclass(frozen=True)
class Agreement:
    """Agreement of golden with the model.

    Attributes:
        frames, tensors_compared: numbers of both.
        values_compared: number of values in all frames together.
        equal: values without any difference; the last bits of floats do not count.
        one_step: integers that differ by 1, where the real value lies next to a tie.
        worst: the largest difference of two integers.
        outputs: outputs of the graph, by name: golden against a run of the model on the samples alone.
    """

    frames: int = 0
    tensors_compared: int = 0
    values_compared: int = 0
    equal: int = 0
    one_step: int = 0
    worst: int = 0
    outputs: Mapping[str, NoiseStatistics] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.frames:
            return "not compared with the model"
        apart = self.values_compared - self.equal
        said = f"golden = model on {self.tensors_compared} tensors, {self.frames} frames"
        return f"{said} ({apart:,} of {self.values_compared:,} values rounded the other way)" if apart else said


class FrameComparison:
    """Comparison of golden with the model, frame by frame: the agreement so far."""

    def __init__(self, model: Model, network: Network) -> None:
        self.model = model
        self.producers = {name: node for node in model.graph.nodes for name in node.outputs if name}
        self.types = {value.name for value in model.graph.values.values() if value.element_type in BY_NAME}
        self.inputs = [value.name for value in model.graph.inputs]
        self.approximate = network.approximate
        self.lines = {boundary.onnx_name: boundary.line for boundary in network.held if boundary.line is not None}
        self.agreement = Agreement()
        if name := find_misplaced(network):
            raise self._error(name, f"the elements of {self._spelled(name)} must each have one place on its stream")

    def add(self, frame: Mapping[str, np.ndarray], known: KnownFrame) -> None:
        """Compare the known values of a frame.

        Raises:
            UserError: the first value that differs, in the order of the model's nodes, and where; with exit code 4.
        """
        for name in known.torn:
            raise self._error(name, f"the tensors that hold {self._spelled(name)} must hold the same")
        values = self._comparable(known)
        pieces = run_in_segments(self.model, frame, values)
        self._check_outputs(known, pieces.outputs)
        names = [name for name in (*self.inputs, *self.producers) if name in pieces.computed]
        agreement = replace(self.agreement, frames=self.agreement.frames + 1, tensors_compared=len(names))
        free: Mapping[str, Any] | None = pieces.outputs
        for name in names:
            golden, computed = values[name], pieces.computed[name]
            if golden.shape != computed.shape:
                shapes = f"{list(computed.shape)}, not {list(golden.shape)}"
                raise self._error(name, f"{self._spelled(name)} must have the shape {shapes}")
            node = self.producers.get(name)
            wrong = (
                golden != computed
                if node is None
                else find_unexplained(pieces, name, node, golden, self.approximate.get(name, 0.0))
            )
            if wrong.any():
                raise self._difference(name, wrong, golden, computed)
            agreement = _counted(agreement, self._integers(name, golden), self._integers(name, computed))
            if not np.array_equal(golden, computed, equal_nan=golden.dtype.kind == "f"):
                free = None  # a difference may grow on its way to the outputs
        free = reference.run(self.model, frame) if free is None else free
        self.agreement = replace(agreement, outputs=_likened(agreement.outputs, known.outputs, free))

    def _integers(self, name: str, values: np.ndarray) -> np.ndarray:
        """Return numbers of a grid as their integers; anything else as it is."""
        if name not in self.lines:
            return values
        slope, offset = self.lines[name]
        return np.asarray(np.rint((values - offset) / slope).astype(np.int64))

    def _comparable(self, known: KnownFrame) -> dict[str, np.ndarray]:
        """Return the values that both golden and the model know, by name.

        Integers of the hardware are int64, numbers of a grid float64 or as in the model.
        """
        both = {**known.host, **known.held}
        return {
            name: value
            for name, value in both.items()
            if isinstance(value, np.ndarray)
            and name in self.types
            and (name in self.producers or (name in self.inputs and name in known.held))
        }

    def _check_outputs(self, known: KnownFrame, outputs: Mapping[str, Any]) -> None:
        """Check that the host gives the user what golden and the tail computed."""
        for name, output in known.outputs.items():
            wanted = outputs[name]
            if isinstance(wanted, np.ndarray) and wanted.dtype != object:
                nan = wanted.dtype.kind == "f"
                if output.shape != wanted.shape or not np.array_equal(output, wanted, equal_nan=nan):
                    wrong = output != wanted if output.shape == wanted.shape else np.ones(1, dtype=bool)
                    raise self._difference(name, wrong, output, wanted)

    # ---- messages about a difference ---------------------------------------------------------------------------------

    def _difference(self, name: str, wrong: np.ndarray, golden: np.ndarray, computed: np.ndarray) -> UserError:
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        element = f"{self._spelled(name)}[{', '.join(map(str, at))}]"
        many = f"; {int(wrong.sum()):,} of its {wrong.size:,} values differ" if wrong.size > 1 else ""
        message = f"{element} must be {computed[at]}, as the model says, not {golden[at]}, as golden says"
        return self._error(name, f"{message} (frame {self.agreement.frames}{many})")

    def _error(self, name: str, message: str) -> UserError:
        node = self.producers.get(name)
        where = node_location(node) if node is not None and node.where else ""
        hint = "this is a bug of onnx-hw: please report it with the model"
        problem = Problem("golden-differs", message, where, hint, "quantize")
        return UserError(problem, exit_code=ExitCode.MISMATCH)

    def _spelled(self, name: str) -> str:
        """Name a value in the words of the user's model; an inserted quantizer is named like what it quantizes."""
        node = self.producers.get(name)
        if node is None or node.where or not _is_rounding(node):
            return f"`{name}`"
        quantized = node.inputs[0].removesuffix("/clipped").removesuffix("/float")
        return f"`{quantized}` in {self.model.graph.values[name].element_type}"


def _is_rounding(node: Node) -> bool:
    return facts_of(node).effect is Effect.QUANTIZES


def _counted(agreement: Agreement, golden: np.ndarray, computed: np.ndarray) -> Agreement:
    """Add the values of one tensor, whose differences are explained."""
    if golden.dtype.kind not in "iu":
        return replace(
            agreement, values_compared=agreement.values_compared + golden.size, equal=agreement.equal + golden.size
        )
    apart = np.abs(golden.astype(np.int64) - computed.astype(np.int64))
    return replace(
        agreement,
        values_compared=agreement.values_compared + golden.size,
        equal=agreement.equal + int((apart == 0).sum()),
        one_step=agreement.one_step + int((apart == 1).sum()),
        worst=max(agreement.worst, int(apart.max(initial=0))),
    )


def _likened(
    before: Mapping[str, NoiseStatistics], golden: Mapping[str, Any], model: Mapping[str, Any]
) -> dict[str, NoiseStatistics]:
    """Add the errors of every numeric output."""
    return {
        name: before.get(name, NoiseStatistics()).with_values(golden[name], wanted)
        for name, wanted in model.items()
        if name in golden and isinstance(wanted, np.ndarray) and wanted.dtype.kind in "fiub"
    }
