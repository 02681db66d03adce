"""The golden model: what the integer network means, in numpy. No circuit and no timing here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from onnx_hw.ir.network import Loop, Network
from onnx_hw.onnx.evaluate import reference
from onnx_hw.samples.samples import one_frame, stack_outputs

MAX_VALUES = 10_000_000
"""Number of values of all tensors of the frames that are computed together."""


def integers_of(network: Network, frames: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return what the host streams in.

    Args:
        frames: by graph input, (frames, *shape of the input), in the model's dtypes.

    Returns:
        by hardware input tensor, (frames, height, width, channels) int64: the head has run, the order is the stream's.
    """
    count = len(next(iter(frames.values())))
    integers: dict[str, list[np.ndarray]] = {boundary.tensor: [] for boundary in network.inputs}
    for k in range(count):
        values = _before_hardware(network, one_frame(frames, k), [boundary.onnx_name for boundary in network.inputs])
        for boundary in network.inputs:
            elements = boundary.host_order.entering(np.asarray(values[boundary.onnx_name]))
            integers[boundary.tensor].append(elements.astype(np.int64).reshape(network.tensors[boundary.tensor].shape))
    return {tensor: np.stack(arrays) for tensor, arrays in integers.items()}


def trace(network: Network, integers: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Compute every tensor of the network, (frames, height, width, channels) int64, from those of its inputs."""
    return dict(walk(network, integers))


def walk(network: Network, integers: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield every tensor of the network with its name, as ``trace`` returns them, one after the other.

    Only those that a later node reads are kept, so that all tensors of a large network need not be in memory at once.
    A network that keeps state goes through its frames one after the other, from the initial state on.
    """
    if network.keepers:
        yield from _walk_in_sequence(network, integers).items()
        return
    yield from integers.items()
    values = dict(integers)
    last = {name: k for k, group in enumerate(network.groups) for node in group for name in node.inputs}
    for k, group in enumerate(network.groups):
        results = _computed(group, values)
        for name in {name for node in group for name in node.inputs} & values.keys():
            if last[name] == k:
                del values[name]
        yield from results.items()
        values.update((name, array) for name, array in results.items() if last.get(name, k) > k)
        del results


def _walk_in_sequence(network: Network, integers: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Compute every tensor, frame by frame: what a frame leaves in a state is read in the next one."""
    each: dict[str, list[np.ndarray]] = {}
    left: dict[str, np.ndarray] = {}  # by tensor that a keeper reads: that of the frame before
    for k in range(len(next(iter(integers.values())))):
        entering = {name: array[k : k + 1] for name, array in integers.items()}
        for node in network.keepers:
            (read,), (made,) = node.inputs, node.outputs
            before = left.get(read, np.zeros((0, *network.tensors[made].shape), np.int64))
            (states,) = node.operator.golden(np.concatenate([before, before]))
            entering[made] = states[-1:]
        values = dict(walk(network.one_frame, entering))
        left = {name: values[name] for node in network.keepers for name in node.inputs}
        for name, array in values.items():
            each.setdefault(name, []).append(array)
    return {name: np.concatenate(arrays) for name, arrays in each.items()}


def _computed(group: Loop, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Compute the results of a node, or of all nodes of a loop, one row after the other."""
    node = group[0]
    if len(group) == 1 and all(name in values for name in node.inputs):
        return dict(zip(node.outputs, node.operator.golden(*(values[name] for name in node.inputs)), strict=True))
    frames = len(next(iter(values.values())))
    made = {
        name: np.zeros((frames, *tensor.shape), dtype=np.int64)
        for node in group
        for name, tensor in zip(node.outputs, node.operator.results(), strict=True)
    }
    known = {name: made[name] if name in made else values[name] for node in group for name in node.inputs}
    steps = next(iter(made.values())).shape[1]
    for step in range(steps):
        for node in group:
            first = max(0, step - 1) if node.operator.feedback else step  # which needs the row before
            rows = (known[name] for name in node.inputs)
            results = node.operator.golden(*(r[:, first : step + 1] if r.shape[1] == steps else r for r in rows))
            for name, result in zip(node.outputs, results, strict=True):
                made[name][:, step] = result[:, -1]
    return made


def one_frame_more(integers: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return frames and another one behind them, for the tokens of a frame that never comes.

    Such tokens depend on padding and kept states alone, so that any frame will do.
    """
    return {name: np.concatenate([array, array[:1]]) for name, array in integers.items()}


def walk_in_pieces(network: Network, integers: Mapping[str, np.ndarray]) -> Iterator[tuple[int, str, np.ndarray]]:
    """Yield every tensor of a few frames, and then of the next ones: number of the first one, name, array.

    Args:
        integers: those of the inputs, (frames, height, width, channels); at most ``MAX_VALUES`` of all tensors are
            computed together, and one frame at least.
    """
    count = len(next(iter(integers.values())))
    together = max(1, MAX_VALUES // sum(tensor.size for tensor in network.tensors.values()))
    together = count if network.keepers else together  # a piece would begin with the initial state
    for first in range(0, count, together):
        piece = {name: array[first : first + together] for name, array in integers.items()}
        yield from ((first, name, array) for name, array in walk(network, piece))


def outputs_of(
    network: Network,
    integers: Mapping[str, np.ndarray],
    frames: Mapping[str, np.ndarray],
    observe: Callable[[str, Any], None] | None = None,
) -> dict[str, np.ndarray]:
    """Return the graph's outputs, in the model's own names and dtypes, from the integers that left the hardware.

    Args:
        integers: by hardware output tensor, (frames, height, width, channels).
        frames: what went in, for a tail that also reads graph inputs, and for outputs that do not pass the hardware.
        observe: called with name and array of every value of the tail, frame after frame.

    Returns:
        by graph output, (frames, *shape of the output).
    """
    tail = network.tail
    each = []
    for k in range(len(next(iter(integers.values())))):
        values = _before_hardware(network, one_frame(frames, k), network.handed)
        for boundary in network.outputs:
            elements = integers[boundary.tensor][k].astype(boundary.onnx_dtype)
            values[boundary.onnx_name] = boundary.host_order.leaving(elements)
        if tail is not None:
            tail_inputs = {value.name: values[value.name] for value in tail.graph.inputs}
            values |= reference.run(tail, tail_inputs, observe=observe)
        each.append({name: values[name] for name in network.results})
    return stack_outputs(each)


def run(network: Network, frames: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run head, integers and tail; return the graph's outputs by name, (frames, *shape)."""
    leaving: dict[str, list[np.ndarray]] = {boundary.tensor: [] for boundary in network.outputs}
    for _, name, array in walk_in_pieces(network, integers_of(network, frames)):
        if name in leaving:
            leaving[name].append(array)
    return outputs_of(network, {name: np.concatenate(arrays) for name, arrays in leaving.items()}, frames)


def _before_hardware(network: Network, frame: Mapping[str, np.ndarray], names: Sequence[str]) -> dict[str, Any]:
    """Return the graph inputs and values of the head, by name, for one frame."""
    values = {name: frame[name] for name in names if name in frame}
    computed = [name for name in names if name not in frame]
    if network.head is None or not computed:
        return values
    head_inputs = {value.name: frame[value.name] for value in network.head.graph.inputs}
    return values | reference.run(network.head, head_inputs, outputs=computed)


RANDOM_FRAMES = 4
"""Number of random frames of the proof when no samples are given."""


SEED = 20
"""Seed of those frames: two builds use the same ones."""


def streamed_in(network: Network, frames: Mapping[str, np.ndarray] | None) -> Mapping[str, np.ndarray]:
    """Return what the host streams in, by hardware input tensor: the frames, or random integers without frames."""
    if frames is None:
        return random_integers(network)
    integers = integers_of(network, frames)
    few = max(0, 2 - len(next(iter(integers.values()))))  # two frames at least: state must not leak
    return {tensor: np.concatenate([array] + [array[:1]] * few) for tensor, array in integers.items()}


def random_integers(network: Network) -> dict[str, np.ndarray]:
    """Draw frames over the whole range of every input of the hardware; always the same ones."""
    generator = np.random.Generator(np.random.PCG64(SEED))
    tensors = {boundary.tensor: network.tensors[boundary.tensor] for boundary in network.inputs}
    return {
        name: generator.integers(*tensor.range, (RANDOM_FRAMES, *tensor.shape), endpoint=True)
        for name, tensor in tensors.items()
    }
