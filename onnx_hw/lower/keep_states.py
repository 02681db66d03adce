"""Closing of states: outputs of a network become its inputs of the next frame, inside the circuit.

The network of one frame goes in, with states among its inputs and outputs; the network that keeps them comes out, whose
host knows nothing of them any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnx_hw.ir.network import Boundary, Network, NetworkNode
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.lower.layout.dead_code import remove_dead_code
from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.evaluate.fold_constants import drop_unneeded
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.model import Model
from onnx_hw.ops.kept_state import KeptState
from onnx_hw.ops.rearrange import Rearrange


@dataclass(frozen=True)
class KeptIntegers:
    """Integers of a state, by the names of their values in the model.

    Attributes:
        state: input of the graph.
        entering, leaving: integers at the beginning and at the end of a frame; both have the shape of the state.
        first: every integer of the first frame.
    """

    state: str
    entering: str
    leaving: str
    first: int


def keep_states(network: Network, kept: Sequence[KeptIntegers], results: Sequence[str]) -> Network:
    """Return the network that keeps its states.

    Args:
        network: network of one frame.
        kept: its states.
        results: outputs of the graph that remain.

    Raises:
        UserError: a state does not pass the hardware, or the host reads it.
    """
    if not kept:
        return network
    closing = _Closing(network)
    for state in kept:
        closing.close(state)
    if closing.problems:
        raise UserError(*closing.problems)
    closed = closing.network(results)
    for state in kept:
        parts = {"before": closed.head, "behind": closed.tail}
        readers = [where for where, part in parts.items() if part is not None and _reads(part, state.state)]
        if readers or state.state in closed.handed:
            raise UserError(
                closing.problem(state, f"must not be read on the host; nodes {' and '.join(readers)} the circuit do")
            )
    return verify_network(closed, "keep_states")


class _Closing:
    """Network under change."""

    def __init__(self, network: Network) -> None:
        self._network, self._outputs = network, list(network.outputs)
        self._inputs, self._entries = list(network.inputs), dict(network.entries)
        self._keepers: list[NetworkNode] = []
        self._movers: list[NetworkNode] = []
        self._states: set[str] = set()
        self.problems: list[Problem] = []

    def problem(self, state: KeptIntegers, what: str) -> Problem:
        return Problem(
            "state-on-host",
            f"the state `{state.state}` {what}",
            f"--state {state.state}:...",
            "leave this pair out: the host then gives the state to every frame and takes it back",
            "quantize",
        )

    def close(self, state: KeptIntegers) -> None:
        """Connect both ends of a state; a tensor that enters in several orders is kept in each of them."""
        entering = [boundary for boundary in self._inputs if boundary.onnx_name == state.entering]
        leaving = [boundary for boundary in self._network.outputs if boundary.onnx_name == state.leaving]
        self._states.add(state.state)
        if not entering:
            self.problems.append(self.problem(state, "must enter the circuit; nothing in it reads it"))
        elif not leaving:
            what = "must be made by the circuit; the host would make its next value"
            self.problems.append(self.problem(state, what))
        else:
            self._outputs = [boundary for boundary in self._outputs if boundary.onnx_name != state.leaving]
            for boundary in entering:
                self._connect(state, boundary, leaving[0])

    def _connect(self, state: KeptIntegers, entering: Boundary, leaving: Boundary) -> None:
        tensor, made = self._entries.pop(entering.tensor), self._network.tensors[leaving.tensor]
        self._inputs.remove(entering)
        source = np.empty(leaving.order.size, dtype=np.int64)
        source[leaving.order] = np.arange(leaving.order.size)
        source = source[entering.order]
        read = leaving.tensor
        if tensor.shape != made.shape or not np.array_equal(source, np.arange(source.size)):
            read = f"{entering.tensor}/next"
            mover = NetworkNode(
                f"move {entering.tensor}", Rearrange(made, tensor.shape, source), (leaving.tensor,), (read,)
            )
            self._movers.append(mover)
        low, high = tensor.range
        operand = replace(tensor, low=min(low, state.first), high=max(high, state.first))
        name = f"state {entering.tensor}"
        self._keepers.append(
            NetworkNode(name, KeptState(operand, state.first), (read,), (entering.tensor,), (state.state,))
        )

    def network(self, results: Sequence[str]) -> Network:
        """Return the network without the parts of the host that make or read states."""
        before, ends = self._network, [name for name in results if name in self._network.results]
        tail = _without(before.tail, [name for name in ends if name in _made(before.tail)])
        read = {*ends, *(() if tail is None else (value.name for value in tail.graph.inputs))}
        handed = tuple(name for name in before.handed if name in read)
        outputs = tuple(boundary for boundary in self._outputs if boundary.onnx_name in read)
        entering = {*(boundary.onnx_name for boundary in self._inputs), *handed}
        head = _without(before.head, [name for name in _made(before.head) if name in entering])
        closed = replace(
            before,
            nodes=(*self._keepers, *before.nodes, *self._movers),
            entries=self._entries,
            inputs=tuple(self._inputs),
            outputs=outputs,
            head=head,
            tail=tail,
            results=tuple(ends),
            handed=handed,
            arguments=tuple(value for value in before.arguments if value.name not in self._states),
        )
        closed = remove_dead_code(closed)
        known = {*_every(tail), *(boundary.onnx_name for boundary in closed.held)}
        approximate = {name: error for name, error in closed.approximate.items() if name in known}
        return replace(closed, approximate=approximate)


def _made(part: Model | None) -> list[str]:
    return [] if part is None else [value.name for value in part.graph.outputs]


def _every(part: Model | None) -> set[str]:
    return set() if part is None else {name for node in part.graph.nodes for name in node.outputs}


def _reads(part: Model, name: str) -> bool:
    return any(name in names_read(node) for node in part.graph.nodes)


def _without(part: Model | None, outputs: Sequence[str]) -> Model | None:
    """Return the part of the host that makes some of its outputs; None if it makes none."""
    if part is None or not outputs:
        return None
    graph = part.graph
    left = drop_unneeded(
        replace(part, graph=replace(graph, outputs=tuple(value for value in graph.outputs if value.name in outputs)))
    )
    read = set(outputs).union(*(names_read(node) for node in left.graph.nodes))
    inputs = tuple(value for value in graph.inputs if value.name in read)
    return replace(left, graph=replace(left.graph, inputs=inputs))
