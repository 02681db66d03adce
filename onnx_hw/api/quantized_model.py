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
        source, calibration, quantizing, reading, resize: what it was made of, for ``onnx_hw.build``.
    """

    network: Network
    model: ReadModel
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
        tensor of the circuit is (frames, height, width, channels).

        Args:
            x: arrays by graph input, or the array of the only input.
            integers: whether the integers of the circuit are returned, int64, by the names of the circuit's tensors.
                By default the real numbers that they stand for are returned, float64, with the values that the host
                computes behind the circuit. Sums whose scale the host applies have no real numbers of their own.

        Raises:
            UserError: the arrays do not fit the inputs.
        """
        frames, _ = self._frames(x, "x")
        values = golden.trace(self.network, golden.integers_of(self.network, frames))
        if integers:
            return Outputs(dict(self._integers(values)))
        traced = dict(self._real(values))
        for name, array in self._on_host(values, frames).items():
            traced.setdefault(name, array)
        return Outputs(traced)

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

    def _real(self, values: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
        """Yield names and real numbers of the circuit's tensors, as far as their scale is known."""
        for tensor, array in values.items():
            grid, held = self.network.grids.get(tensor), self._held.get(tensor, ())
            if grid is not None:
                slope, offset = (
                    np.array([float(number) for number in part]) for part in zip(*grid.lines(), strict=True)
                )
                real = slope * array + offset
                if not held:
                    yield tensor, real
                for boundary in held:
                    yield re.sub(r"/u?int\d+$", "", boundary.onnx_name), _in_layout(boundary, real)
            else:
                for boundary in held:
                    if boundary.line is not None:
                        slope, offset = boundary.line
                        yield boundary.onnx_name, slope * _in_layout(boundary, array) + offset

    def _on_host(self, values: Mapping[str, np.ndarray], frames: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the values of the model that the host computes behind the circuit, and the graph's outputs."""
        collected: dict[str, list[Any]] = {}
        known = self.model.frame.model.graph.values

        def observe(name: str, value: Any) -> None:
            if name in known and isinstance(value, np.ndarray):
                collected.setdefault(name, []).append(value)

        leaving = {boundary.tensor: values[boundary.tensor] for boundary in self.network.outputs}
        outputs = golden.outputs_of(self.network, leaving, frames, observe=observe)
        same = {name: parts for name, parts in collected.items() if len({part.shape for part in parts}) == 1}
        return {name: np.stack(parts) for name, parts in same.items()} | outputs

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


def _in_layout(boundary: Boundary, streamed: np.ndarray) -> np.ndarray:
    """Return frames of a tensor, (frames, height, width, channels), in the layout of the model's value."""
    array = np.empty((len(streamed), prod(boundary.onnx_shape)), dtype=streamed.dtype)
    array[:, boundary.order] = streamed.reshape(len(streamed), -1)
    return array.reshape(len(streamed), *boundary.onnx_shape)
