"""Quantized model as a function of arrays: what the circuit will compute, before there is one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from onnx_hw.api.notes import warn_of
from onnx_hw.api.stacking import stacked_as
from onnx_hw.ir import golden
from onnx_hw.ir.network import Boundary, Network
from onnx_hw.messages.html import render_value
from onnx_hw.messages.text import printable
from onnx_hw.onnx.canonicalize.unbatch import ReadModel
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.dependencies import names_behind_inputs
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Model
from onnx_hw.samples.check_samples import check_samples
from onnx_hw.samples.outputs import Outputs
from onnx_hw.samples.samples import join_batches, split_samples

if TYPE_CHECKING:
    from onnx_hw.api.model_source import ModelSource
    from onnx_hw.api.requests import GivenSamples
    from onnx_hw.runtime.options import QuantizeOptions, ReadOptions, Resize


@dataclass(frozen=True, repr=False, eq=False)
class QuantizedModel:
    """Quantized model. Called with arrays, it returns exactly what its circuit will compute.

    ``network(x)`` takes the array of the only input, or a dictionary of arrays by input. An array has the input's
    shape, with or without a batch dimension of 1, or holds samples on the batch axis or on a new first axis. Results
    are a dictionary by output name, in the model's own dtypes and units: the operators that stay on the host are run,
    too. They are stacked in the same way as the samples. An output with a map for each row is a list of dictionaries.

    Attributes:
        network: the integer network, for ``flow.schedule`` and the later steps.
        model: the model as written.
        quantized: the same model with the integers of the network, as ``flow.quantized`` returns it.
        source, calibration, quantizing, reading, resize: what it was made of, for ``onnx_hw.build``.
    """

    network: Network
    model: ReadModel
    quantized: Model
    source: ModelSource
    calibration: GivenSamples | None
    quantizing: QuantizeOptions
    reading: ReadOptions
    resize: Resize | None = None

    def __call__(self, x: Mapping[str, ArrayLike] | ArrayLike) -> Outputs:
        """Return the outputs for samples: a dictionary by output name, in the model's dtypes and units.

        Args:
            x: arrays by graph input, or the array of the only input. The key ``labels`` may hold right classes.

        Raises:
            UserError: the arrays do not fit the inputs.
        """
        frames, labels = self._frames(x, "x")
        outputs = join_batches(golden.run(self.network, frames), self.model.frame.batch)
        return Outputs(stacked_as(outputs, x, self.model.frame_inputs), labels)

    def trace(self, x: Mapping[str, ArrayLike] | ArrayLike, *, integers: bool = False) -> Outputs:
        """Return every tensor for samples, by name.

        A tensor that is a value of the model has its name and its layout, with frames on the first axis; any other
        tensor of the circuit is (frames, height, width, channels). Values that have no tensor of their own, such as
        those before a quantizer, are computed as ONNX says from the ones that have. Values that no output depends on,
        and those that were folded away, such as a convolution before a BatchNormalization, are left out.

        Args:
            x: arrays by graph input, or the array of the only input.
            integers: whether the integers of the circuit are returned, int64, by the names of the circuit's tensors.
                By default the real numbers that they stand for are returned, float64, with the values that the host
                computes behind the circuit. Of a network that keeps a state, values between its tensors are left out.

        Raises:
            UserError: the arrays do not fit the inputs.
        """
        frames, _ = self._frames(x, "x")
        values = golden.trace(self.network, golden.integers_of(self.network, frames))
        if integers:
            return Outputs(dict(self._integers(values)))
        traced = dict(self._real_held(values))
        for more in (self._on_host(values, frames), self._between(values, frames), dict(self._real_unheld(values))):
            traced |= {name: array for name, array in more.items() if name not in traced}
        graph = self.model.frame.model.graph
        place = {name: k for k, name in enumerate(name for node in graph.nodes for name in node.outputs)}
        place |= {value.name: -1 for value in graph.inputs}
        return Outputs({name: traced[name] for name in sorted(traced, key=lambda name: place.get(name, len(place)))})

    def _frames(
        self, x: Mapping[str, ArrayLike] | ArrayLike, source: str
    ) -> tuple[Mapping[str, np.ndarray], np.ndarray | None]:
        """Return samples as frames by graph input, (frames, *shape of one frame), and their labels."""
        batch = self.model.frame.batch
        samples = check_samples(x, self.model.frame_inputs, frames_of_a_sample=batch, source=source)
        warn_of(samples.notes)
        return split_samples(samples.arrays, batch), samples.labels

    def _integers(self, values: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
        """Yield names and integers of the circuit's tensors, in the model's layout where they have one."""
        for tensor, array in values.items():
            held = self._held.get(tensor, ())
            if not held:
                yield tensor, array
            for boundary in held:
                yield boundary.onnx_name, _in_layout(boundary, array)

    def _real_held(self, values: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
        """Yield values of the model whose integers the circuit has, as real numbers, where their scale is known."""
        for tensor, array in values.items():
            for boundary in self._held.get(tensor, ()):
                if tensor in self.network.grids:
                    yield _without_type(boundary.onnx_name), _in_layout(boundary, self._real(tensor, array))
                elif boundary.line is not None:
                    yield boundary.onnx_name, boundary.numbers(_in_layout(boundary, array))

    def _real_unheld(self, values: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the other tensors of the circuit, as real numbers, where their scale is known."""
        for tensor, array in values.items():
            if tensor in self.network.grids and tensor not in self._held:
                yield tensor, self._real(tensor, array)

    def _real(self, tensor: str, array: np.ndarray) -> np.ndarray:
        """Return the real numbers that integers of a tensor stand for."""
        lines = zip(*self.network.grids[tensor].lines(), strict=True)
        slope, offset = (np.array([float(number) for number in part]) for part in lines)
        return np.asarray(slope * array + offset)

    def _between(self, values: Mapping[str, np.ndarray], frames: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the values of the model that follow from those of the circuit, as the quantized model computes them.

        Nothing is returned of a network that keeps a state: a single frame does not say what it was.
        """
        if self.quantized.states:
            return {}
        known: dict[str, np.ndarray] = {}
        for boundary in self.network.held:
            array = _in_layout(boundary, values[boundary.tensor])
            dtype = BY_NAME[self.quantized.graph.values[boundary.onnx_name].element_type].dtype
            known[boundary.onnx_name] = boundary.numbers(array).astype(dtype)
        collected: dict[str, list[np.ndarray]] = {}
        wanted = names_behind_inputs(self.model.frame.model.graph) - known.keys() - frames.keys()

        def observe(name: str, value: Any) -> None:
            if name in wanted and isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
                collected.setdefault(name, []).append(value.astype(np.float64) if value.dtype.kind == "f" else value)

        count = len(next(iter(values.values()), ()))
        for k in range(count):
            frame = {name: array[k] for name, array in frames.items()}
            reference.run(
                self.quantized, frame, observe=observe, instead={name: array[k] for name, array in known.items()}
            )
        return _stacked(collected)

    def _on_host(self, values: Mapping[str, np.ndarray], frames: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the values of the model that the host computes behind the circuit, and the graph's outputs."""
        collected: dict[str, list[Any]] = {}
        known = self.model.frame.model.graph.values

        def observe(name: str, value: Any) -> None:
            if name in known and isinstance(value, np.ndarray):
                collected.setdefault(name, []).append(value)

        leaving = {boundary.tensor: values[boundary.tensor] for boundary in self.network.outputs}
        outputs = golden.outputs_of(self.network, leaving, frames, observe=observe)
        return _stacked(collected) | outputs

    @cached_property
    def _held(self) -> dict[str, tuple[Boundary, ...]]:
        """The values of the model that each tensor of the circuit holds, by tensor."""
        held: dict[str, tuple[Boundary, ...]] = {}
        for boundary in self.network.held:
            held[boundary.tensor] = (*held.get(boundary.tensor, ()), boundary)
        return held

    def _facts(self) -> dict[str, str]:
        graph, network = self.model.graph, self.network
        bits = sorted({grid.bits for name, grid in network.grids.items() if name in network.tensors})
        return {
            "inputs": ", ".join(map(repr, self.model.frame_inputs)),
            "outputs": ", ".join(map(repr, graph.outputs)),
            "operators": f"{len(network.nodes)}",
            "multiply-accumulates of a frame": f"{sum(network.macs.values()):,}",
            "bits of data": ", ".join(map(str, bits)),
        }

    def __repr__(self) -> str:
        facts = self._facts()
        text = f"{facts['inputs']} → {facts['outputs']}, {facts['operators']} operators, {facts['bits of data']} bits"
        return printable(f"QuantizedModel {self.network.name}: {text}")

    def _repr_html_(self) -> str:
        rows = [(node.name, repr(node.operator), ", ".join(node.origin)) for node in self.network.nodes]
        columns = ("node", "operator", "of the model's nodes")
        return render_value(f"Quantized model {self.network.name}", self._facts(), "Nodes", columns, rows)


def _without_type(name: str) -> str:
    """Return the name of a value of the model, from that of its integers in the quantized model."""
    return re.sub(r"/u?int\d+$", "", name)


def _stacked(collected: Mapping[str, list[Any]]) -> dict[str, np.ndarray]:
    """Return arrays of frames, those of values whose shape is the same in all frames."""
    return {name: np.stack(parts) for name, parts in collected.items() if len({part.shape for part in parts}) == 1}


def _in_layout(boundary: Boundary, streamed: np.ndarray) -> np.ndarray:
    """Return frames of a tensor, (frames, height, width, channels), in the layout of the model's value."""
    array = np.empty((len(streamed), prod(boundary.onnx_shape)), dtype=streamed.dtype)
    array[:, boundary.order] = streamed.reshape(len(streamed), -1)
    return array.reshape(len(streamed), *boundary.onnx_shape)
