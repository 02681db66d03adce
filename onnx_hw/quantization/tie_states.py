"""Tying of states: what a frame leaves is rounded to the integers that the next frame begins with.

A QDQ model with states goes in, a QDQ model comes out in which the output of every pair lies on the grid of the input,
so that a circuit can keep its integers. ``quantize`` calls it. If the quantizer was chosen here, the input takes the
integers that the output has already, where it has some: then a buffer that is shifted from frame to frame is not
rounded again. Otherwise a quantizer like that of the input stands before the output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnx_hw.lower.keep_states import KeptIntegers
from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.evaluate.fold_constants import drop_unneeded
from onnx_hw.onnx.graph.dependencies import readers_of
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.model import Model, Node, StatePair
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of
from onnx_hw.quantization.insert_qdq import clips_to_integers, divides_multiples


def tie_states(model: Model, *, adopt: bool) -> tuple[Model, tuple[KeptIntegers, ...]]:
    """Return a model whose states are rounded to the integers of their inputs, and the names of those integers.

    Args:
        model: model with quantizers; its ``states`` name pairs.
        adopt: whether the integers of an input may be replaced by those of its output.

    Raises:
        UserError: an input that is a state has no integers, or several; all of them at once.
    """
    if not model.states:
        return model, ()
    tying = _Tying(model, adopt)
    kept = [tying.tie(pair) for pair in model.states]
    if tying.problems:
        raise UserError(*tying.problems)
    outputs = []
    for value in model.graph.outputs:
        tied = tying.outputs.get(value.name)
        if tied in (None, value.name) or len(model.graph.outputs) == len(model.states):
            outputs.append(value)  # a model without other outputs keeps those
        if tied is not None and tied != value.name:
            outputs.append(replace(value, name=tied))
    graph = replace(tying.added.graph(tying.nodes), outputs=tuple(outputs))
    states = tuple(replace(pair, output=tying.outputs[pair.output]) for pair in model.states)
    return drop_unneeded(replace(model, graph=graph, states=states)), tuple(kept)


@dataclass(frozen=True)
class RoundTrip:
    """Nodes that round a value to integers and back, in order: perhaps a Clip, the quantizer and its reverse."""

    nodes: tuple[Node, ...]

    @property
    def quantizer(self) -> Node:
        """Node that makes the integers."""
        return next(node for node in self.nodes if facts_of(node).effect is Effect.QUANTIZES)

    @property
    def parameters(self) -> tuple[tuple[str, ...], ...]:
        """Names of the constants of each node."""
        return tuple(node.inputs[1:] for node in self.nodes)


class _Tying:
    """Model under change.

    Attributes:
        nodes: nodes so far.
        outputs: name of the rounded output, by that of the output.
        problems: what is wrong.
    """

    def __init__(self, model: Model, adopt: bool) -> None:
        self.model, self.adopt = model, adopt
        self.added, self.nodes = Additions(model.graph), list(model.graph.nodes)
        self.outputs: dict[str, str] = {}
        self.problems: list[Problem] = []

    def tie(self, pair: StatePair) -> KeptIntegers:
        """Tie one pair; return the names of its integers."""
        (value,) = (value for value in self.model.graph.inputs if value.name == pair.input)
        if BY_NAME[value.element_type].is_integer:
            self.outputs[pair.output] = pair.output
            return KeptIntegers(pair.input, pair.input, pair.output, int(pair.first))
        rounding, direct = self._of_input(pair.input)
        self.outputs[pair.output] = pair.output
        if rounding is None:
            self._complain(pair, "must be quantized where it enters, before anything else is computed with it")
            return KeptIntegers(pair.input, "", "", 0)
        known = self._of_output(pair.output)
        if self.adopt and direct and known is not None and self._alike(known, rounding):
            rounding = self._replaced(pair.input, rounding, known)
        elif not direct:
            rounding = self._inserted(pair.input, rounding)
        source = pair.output
        made, result = self._copied(rounding, source, f"{source}/state")
        self.nodes += made
        self.outputs[source] = result
        return KeptIntegers(
            pair.input,
            rounding.quantizer.outputs[0],
            RoundTrip(tuple(made)).quantizer.outputs[0],
            self._first(pair, rounding),
        )

    def _complain(self, pair: StatePair, what: str) -> None:
        self.problems.append(
            Problem(
                "state-not-quantized",
                f"the state `{pair.input}` {what}",
                f"--state {pair.input}:{pair.output}",
                "quantize this input by itself, or give the float model with --calibration",
                "quantize",
            )
        )

    def _of_input(self, name: str) -> tuple[RoundTrip | None, bool]:
        """Return the rounding that all readers of an input go through, and whether it is the first that they do."""
        readers = readers_of(self.nodes)
        found: list[tuple[RoundTrip, bool]] = []
        waiting = [name]
        while waiting:
            value = waiting.pop()
            for node in readers.get(value, ()):
                effect = facts_of(node).effect
                behind = readers.get(node.outputs[0], ())
                clipped = effect is Effect.BOUNDS and all(facts_of(n).effect is Effect.QUANTIZES for n in behind)
                if effect is Effect.QUANTIZES or (clipped and behind):
                    first = [] if effect is Effect.QUANTIZES else [node]
                    for quantizer in [node] if effect is Effect.QUANTIZES else behind:
                        found.append((self._whole([*first, quantizer], readers), value == name))
                elif effect is Effect.KEEPS and node.inputs[0] == value:
                    waiting += node.outputs
                else:
                    return None, False
        if not found or any(rounding.parameters[0] != found[0][0].parameters[0] for rounding, _ in found):
            same = found and all(
                self._alike(rounding, found[0][0]) and self._equal(rounding, found[0][0]) for rounding, _ in found
            )
            if not same:
                return None, False
        return found[0][0], len(found) == 1 and found[0][1]

    def _whole(self, nodes: Sequence[Node], readers: Mapping[str, Sequence[Node]]) -> RoundTrip:
        """Return the rounding whose quantizer is the last of some nodes, with what makes numbers of its integers."""
        chain = list(nodes)
        behind = readers.get(chain[-1].outputs[0], ())
        reverse = [node for node in behind if facts_of(node).effect is Effect.DEQUANTIZES]
        if reverse:
            chain.append(reverse[0])
            chain += filter(divides_multiples, readers.get(reverse[0].outputs[0], ()))
        return RoundTrip(tuple(chain))

    def _of_output(self, name: str) -> RoundTrip | None:
        """Return the rounding behind which an output only moves elements; None without one."""
        makers = {made: node for node in self.nodes for made in node.outputs if made}
        node = makers.get(name)
        while node is not None and facts_of(node).effect is Effect.KEEPS:
            node = makers.get(node.inputs[0])
        if node is not None and divides_multiples(node):
            node = makers.get(node.inputs[0])
        if node is None or facts_of(node).effect is not Effect.DEQUANTIZES:
            return None
        quantizer = makers.get(node.inputs[0])
        if quantizer is None or facts_of(quantizer).effect is not Effect.QUANTIZES:
            return None
        before = makers.get(quantizer.inputs[0])
        first = [before] if before is not None and clips_to_integers(before) else []
        return self._whole([*first, quantizer], readers_of(self.nodes))

    def _alike(self, one: RoundTrip, other: RoundTrip) -> bool:
        """Return whether the integers of two roundings have one type, and one scale each."""
        values, constants = self.added.values, self.added.constants
        types = {values[rounding.quantizer.outputs[0]].element_type for rounding in (one, other)}
        scales = [constants.get(rounding.quantizer.inputs[1]) for rounding in (one, other)]
        return len(types) == 1 and all(scale is not None and scale.size == 1 for scale in scales)

    def _equal(self, one: RoundTrip, other: RoundTrip) -> bool:
        """Return whether two roundings have equal constants."""
        constants = self.added.constants
        pairs = [
            (constants.get(a), constants.get(b))
            for a, b in zip(one.quantizer.inputs[1:], other.quantizer.inputs[1:], strict=False)
        ]
        return all(a is not None and b is not None and np.array_equal(a, b) for a, b in pairs)

    def _copied(self, rounding: RoundTrip, source: str, name: str) -> tuple[list[Node], str]:
        """Return nodes that round another value in the same way, and the name of their result."""
        made: list[Node] = []
        for node in rounding.nodes:
            like = self.added.values[node.outputs[0]]
            shape = self.added.values.get(source)
            typed = like if shape is None else replace(like, shape=shape.shape)
            is_last = node is rounding.nodes[-1]
            result = self.added.value(name if is_last else f"{name}/{like.element_type}", typed)
            made.append(replace(node, name="", inputs=(source, *node.inputs[1:]), outputs=(result,), where=""))
            source = result
        return made, source

    def _replaced(self, name: str, old: RoundTrip, new: RoundTrip) -> RoundTrip:
        """Round an input as another value is rounded; return the new rounding."""
        made, result = self._copied(new, name, f"{name}/kept")
        there = {id(node) for node in old.nodes}
        renamed = {old.nodes[-1].outputs[0]: result}
        self._renames([node for node in self.nodes if id(node) not in there], made, renamed)
        return RoundTrip(tuple(made))

    def _inserted(self, name: str, rounding: RoundTrip) -> RoundTrip:
        """Round an input as a value that is made of it is rounded; return the new rounding."""
        made, result = self._copied(rounding, name, f"{name}/kept")
        self._renames(self.nodes, made, {name: result})
        return RoundTrip(tuple(made))

    def _renames(self, nodes: Sequence[Node], first: Sequence[Node], renamed: Mapping[str, str]) -> None:
        self.nodes = [
            *first,
            *(replace(node, inputs=tuple(renamed.get(name, name) for name in node.inputs)) for node in nodes),
        ]

    def _first(self, pair: StatePair, rounding: RoundTrip) -> int:
        """Return the integer of the first value."""
        value: Any = np.array(pair.first, dtype=np.float32)
        for node in rounding.nodes:
            constants = [self.added.constants[name] if name else None for name in node.inputs[1:]]
            (value,) = compute(node, [value, *constants])[:1]
            if facts_of(node).effect is Effect.QUANTIZES:
                break
        return int(np.asarray(value).reshape(-1)[0])
