"""Cross-layer equalization: a factor per channel moves from a product into the depthwise product behind it.

The channels between them become equally large. ``post_training`` calls it before the integers are chosen.

Both have their own weights for every channel, so a factor taken out of one is put into the other, and integers with one
scale serve a small channel as well as a large one. A Relu between them lets positive factors pass; other bounds would
become one per channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnx_hw.onnx.graph.dependencies import readers_of
from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.quantization.biases import BiasTerm
from onnx_hw.quantization.im2col import is_matrix_product, weight_matrix
from onnx_hw.quantization.ranges.batched_run import BatchedRun, Frame

MIN_FACTOR = 1 / 64
"""Least factor of a channel: a smaller one, or one that is 0 on all samples, gains little more."""


@dataclass(frozen=True)
class EqualizedPair:
    """Product and the depthwise product behind it.

    Attributes:
        first, second: the products; ``second`` is depthwise.
        between: the nodes from the bias term of the first to the data of the second; the last one makes that data.
    """

    first: Node
    second: Node
    between: tuple[Node, ...]

    @property
    def data(self) -> str:
        return self.second.inputs[0]


def equalize_channels(
    model: Model, frames: Sequence[Frame], terms: Mapping[str, BiasTerm]
) -> tuple[Model, dict[str, str]]:
    """Return the same function, and the new names of the scaled values between equalized products, by their old names.

    Args:
        model: float32 model whose biases are separated (``biases.py``).
    """
    graph = model.graph
    pairs = _pairs(graph, terms)
    if not pairs:
        return model, {}
    largest_by_value = _largest(graph, frames, {pair.data for pair in pairs})
    added = Additions(graph)
    weights: dict[str, np.ndarray] = {}  # by the product's result
    renamed: dict[str, str] = {}
    for pair in pairs:
        largest = largest_by_value[pair.data]
        if np.isnan(largest).any() or not (largest < np.inf).any():
            continue
        factors = largest / largest[largest < np.inf].max()
        factors = np.clip(factors, MIN_FACTOR, 1)
        term = terms[pair.first.outputs[0]]
        for node, column in ((pair.first, 1 / factors), (pair.second, _repeated(pair.second, factors, graph))):
            place = facts_of(node).weights
            assert place is not None
            before = weights.get(node.outputs[0], graph.constants[node.inputs[place.at]].astype(np.float64))
            weights[node.outputs[0]] = before * place.broadcast(node, before.shape, column)
        along = [-1 if k == term.axis else 1 for k in range(graph.constants[term.name].ndim)]
        added.constants[term.name] = (added.constants[term.name] / factors.reshape(along)).astype(np.float32)
        for node in pair.between:
            (result,) = node.outputs
            renamed[result] = added.value(f"{result}/equal", graph.values[result])
    nodes = []
    for node in graph.nodes:
        inputs = [renamed.get(name, name) for name in node.inputs]
        if node.outputs[0] in weights:
            place = facts_of(node).weights
            assert place is not None
            stored = weights[node.outputs[0]].astype(np.float32)
            inputs[place.at] = added.constant(f"{node.inputs[place.at]}/equal", stored, "float")
        outputs_ = tuple(renamed.get(name, name) for name in node.outputs)
        nodes.append(replace(node, name=node.label, inputs=tuple(inputs), outputs=outputs_))
    return replace(model, graph=added.graph(nodes)), renamed


def _repeated(node: Node, factors: np.ndarray, graph: Graph) -> np.ndarray:
    """Repeat the factors of the data's channels for every output of a depthwise product."""
    place = facts_of(node).weights
    assert place is not None
    outputs = len(graph.constants[node.inputs[place.at]])
    return np.repeat(factors, outputs // factors.size)


def _pairs(graph: Graph, terms: Mapping[str, BiasTerm]) -> list[EqualizedPair]:
    readers, outputs = readers_of(graph.nodes), {value.name for value in graph.outputs}
    result = []
    for node in graph.nodes:
        if node.outputs[0] not in terms or not is_matrix_product(node):
            continue
        count = graph.constants[terms[node.outputs[0]].name].size
        between: list[Node] = []
        (name,) = node.outputs
        while name not in outputs and len(readers.get(name, ())) == 1:
            (reader,) = readers[name]
            is_term = not between and terms[node.outputs[0]].name in reader.inputs
            if not is_term and not (between and _passes_factors(reader)):
                if between and reader.outputs[0] in terms and _is_depthwise(reader, name, graph, count):
                    result.append(EqualizedPair(node, reader, tuple(between)))
                break
            between.append(reader)
            (name,) = reader.outputs
    return result


def _passes_factors(node: Node) -> bool:
    """Say whether a node has no bound but 0: it has neither operands nor attributes that could state another one."""
    return facts_of(node).effect is Effect.BOUNDS and len(node.inputs) == 1 and not node.attributes and not node.domain


def _is_depthwise(node: Node, data: str, graph: Graph, channels: int) -> bool:
    place = facts_of(node).weights
    if place is None or not is_matrix_product(node) or node.inputs[0] != data or channels < 2:
        return False
    return len(weight_matrix(node, graph.constants[node.inputs[place.at]])) == channels


def _largest(graph: Graph, frames: Sequence[Frame], names: set[str]) -> dict[str, np.ndarray]:
    """Return how large each channel may become, (channels,), by name: the largest absolute value of all samples, times
    its ratio to the largest value of all other samples.
    """
    samples, result = BatchedRun(graph, frames), dict[str, np.ndarray]()
    for node in graph.nodes:
        samples.step(node)
        for name in names.intersection(node.outputs):
            arrays = samples.of(name)
            others = (0, *range(2, arrays[0].ndim))
            each = np.sort([np.abs(array).max(axis=others).astype(np.float64) for array in arrays], axis=0)
            second = each[-2] if len(each) > 1 else each[-1]
            with np.errstate(all="ignore"):  # infinite data makes no factor
                result[name] = np.where(second > 0, each[-1] * (each[-1] / second), np.inf)
        samples.release(node)
    return result
