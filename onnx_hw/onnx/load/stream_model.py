"""Streaming form of a model: a network over a whole sequence becomes one that takes a hop of it per frame.

Every window over time reads the last steps of its data from a buffer that outlives the frame, an input and an output
that are paired as a state: Concat(buffer, new steps), and a window without padding. Recurrent layers go on from their
last state. What is left is the network of a few steps, which gives for every hop what the whole network gives there.

Step i of a streamed value is step i − lag of the whole network's value: a window that is centred, or valid, gives the
result of a step when the last step that it needs has come. Where two values with different lags meet, the earlier one
waits in a buffer. Zeros in the buffers are the zeros of a causal padding; other paddings differ while buffers fill.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.evaluate.fold_constants import fold
from onnx_hw.onnx.evaluate.infer_shapes import infer
from onnx_hw.onnx.graph.dependencies import names_read, subgraphs
from onnx_hw.onnx.graph.model import Model, Node, Value
from onnx_hw.onnx.load.hop_builder import HopBuilder, IndivisibleHop
from onnx_hw.onnx.load.stream_rules import ELEMENTWISE, RULES, elementwise
from onnx_hw.onnx.operators.facts import SCALE_EFFECTS
from onnx_hw.onnx.operators.registry import facts_of

MAX_HOP = 4096
"""Greatest number of steps of a hop."""


@dataclass(frozen=True)
class StreamedModel:
    """Streaming form of a model.

    Attributes:
        model: model of one hop, with its buffers as states.
        hop: steps of every input that come with a frame.
        lags: by output that has an axis of time, the number of its steps by which it comes later.
    """

    model: Model
    hop: int
    lags: Mapping[str, int]


def stream_model(model: Model) -> StreamedModel:
    """Return the streaming form of a model.

    The axis of time is found: the one along which the whole network works step by step.

    Raises:
        UserError: a node cannot work hop by hop, along any axis; that of the axis on which most nodes can is told.
    """
    if model.states:
        problem = "the states of a streamed model must be its own; --state names others"
        raise UserError(Problem("streaming", problem, "--streaming", "leave --state out", "arguments"))
    typed = fold(infer(model), lambda node: facts_of(node).effect in SCALE_EFFECTS)
    known = [value for value in typed.graph.inputs if value.shape is not None]
    choices = [[k for k in (2, 1, 0, *range(3, len(value.shape or ()))) if _is_long(value, k)] for value in known]
    if not known or len(known) < len(typed.graph.inputs) or not all(choices):
        inputs = ", ".join(repr(value) for value in typed.graph.inputs)
        problem = f"the inputs of a streamed model must be sequences of a fixed length, not {inputs}"
        raise UserError(Problem("streaming", problem, "--streaming", "set sizes: --dim NAME=N", "arguments"))
    best: tuple[int, UserError] | None = None
    for axes in list(product(*choices))[:16]:
        hop = 1
        while hop <= MAX_HOP:
            walk = _Streamer(typed, {value.name: axis for value, axis in zip(known, axes, strict=True)}, hop)
            try:
                return walk.run()
            except IndivisibleHop as error:
                hop *= error.stride
            except UserError as error:
                if best is None or walk.done > best[0]:
                    best = walk.done, error
                break
    if best is None:
        problem = f"a hop must have at most {MAX_HOP:,} steps"
        raise UserError(Problem("streaming", problem, "--streaming", "stream a model of smaller strides", "arguments"))
    raise best[1]


def _is_long(value: Value, axis: int) -> bool:
    length = value.shape[axis] if value.shape is not None and axis < len(value.shape) else None
    return isinstance(length, int) and length > 1


class _Streamer:
    """Walk over the nodes of a model.

    Attributes:
        done: number of nodes that were streamed.
    """

    def __init__(self, model: Model, axes: Mapping[str, int], hop: int) -> None:
        self.model, self.hop, self.done = model, hop, 0
        self.builder = HopBuilder(model, axes, hop)

    def run(self) -> StreamedModel:
        """Stream every node."""
        built = self.builder
        if len(built.length) > 1:
            raise built.refused(None, "all inputs must have as many steps")
        for node in self.model.graph.nodes:
            self._visit(node)
            self.done += 1
        outputs = [replace(value, shape=None) for value in self.model.graph.outputs]
        lags = {value.name: built.over[value.name].lag for value in outputs if value.name in built.over}
        if not lags and not any(value.name in built.now for value in outputs):
            raise built.refused(None, "an output must follow from the sequence")
        graph = replace(
            self.model.graph,
            nodes=tuple(built.nodes),
            inputs=tuple(built.inputs),
            outputs=(*outputs, *built.outputs),
            constants=built.constants,
            values=built.values,
        )
        later = [f"`{name}` is that of {lag} steps before" for name, lag in lags.items() if lag > 0]
        (steps,) = built.length
        note = f"streaming: a frame is a hop of {self.hop} of {steps:,} steps, with {len(built.states)} states"
        model = infer(replace(self.model, graph=graph, notes=(*self.model.notes, "; ".join([note, *later]))))
        typed = {value.name: value for value in model.graph.values.values()}
        outputs = [typed.get(value.name, value) for value in model.graph.outputs]
        model = replace(model, graph=replace(model.graph, outputs=tuple(outputs)), states=tuple(built.states))
        return StreamedModel(model, self.hop, lags)

    def _visit(self, node: Node) -> None:
        """Stream a node; what does not depend on the sequence stays as it is."""
        built = self.builder
        read = [name for name in dict.fromkeys(node.inputs) if name in built.over]
        moving = [name for name in node.inputs if name in built.now]
        if not read:
            if any(name in built.over for graph in subgraphs(node) for name in names_read(node)):
                raise built.refused(node, "a subgraph must not read a sequence")
            built.add(node, node.inputs)
            if moving:
                built.now.update(node.outputs)
            if built.fixed.issuperset(name for name in node.inputs if name):
                built.fixed.update(node.outputs)
            return
        if moving:
            raise built.refused(node, "a value of the last step must not be joined with all steps")
        rule = RULES.get(node.op_type if not node.domain else "")
        if rule is not None:
            rule(built, node)
        elif facts_of(node).effect in ELEMENTWISE:
            elementwise(built, node)
        else:
            raise built.refused(node, "it must treat every step alike, or be a window over time")
