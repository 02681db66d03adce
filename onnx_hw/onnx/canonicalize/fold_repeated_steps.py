"""Folding of equal steps of a recurrent cell into one step with an axis of time: one cell, not one for each step.

Values of a step, [1, channels] or with more axes of length 1, become [steps, 1, channels] (``graph.loops``). What a
step reads from outside becomes such a value, too: slices of one tensor become this tensor again, and equal operators on
them one operator on all steps. What stands behind the steps reads a step's slice, or all steps where it joins them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.canonicalize.find_repeated_steps import RepeatedStep, Result, Source, find_repeated_steps
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.loops import DELAY, loops_together
from onnx_hw.onnx.graph.model import Graph, Model, Node, Value
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of, operator_of

VERSION = 13
"""Opset of the inserted nodes."""

CHANNELS = 2
"""Axis of channels of [steps, 1, channels]."""

PER_ELEMENT = frozenset((Effect.ADDS, Effect.SCALES, Effect.AFFINE, Effect.BOUNDS, Effect.BENDS))
"""Effects of operators that compute each element by itself."""

MAX_ELEMENTS = 1 << 20
"""Greatest number of elements of a tensor of which the slices are recognized."""


class Unfoldable(Exception):
    """Chain of steps that cannot become one."""


def fold_repeated_steps(model: Model) -> Model:
    """Return the same model with a loop in place of one chain of equal steps, or the same object without a chain.

    Args:
        model: folded model.
    """
    for steps in find_repeated_steps(model.graph):
        try:
            graph = _Folder(model.graph, steps).graph
        except Unfoldable:
            continue
        newest = max(node.version for node in graph.nodes if not node.domain)
        opsets = {**model.opsets, "": max(newest, model.opsets.get("", VERSION))}
        return replace(model, graph=graph, opsets=opsets)
    return model


class _Folder:
    """Builder of the graph in which a chain is a loop."""

    def __init__(self, graph: Graph, found: RepeatedStep) -> None:
        self.old, self.found, self.steps = graph, found, len(found.steps)
        self.added, self.nodes = Additions(graph), list[Node]()
        self.makers = {name: (node, n) for node in graph.nodes for n, name in enumerate(node.outputs) if name}
        self.whole: dict[tuple[str, ...], str] = {}  # values of single steps: that of all steps
        self.inner: set[str] = set()  # values of the loop
        self.lengths: dict[tuple[int, ...], str] = {}
        self.prefix = f"{found.template[-1].label}/steps"
        self._require_free_data()
        self._loop()
        kept = {id(node) for step in found.steps for node in step}
        rest = [new for node in graph.nodes if id(node) not in kept for new in self._joined(node)]
        self._slices({name for node in rest for name in names_read(node)} | {value.name for value in graph.outputs})
        self.graph = self.added.graph(loops_together([*self.nodes, *rest]))

    # ---- facts ----------------------------------------------------------------------------------------------------

    def _require_free_data(self) -> None:
        """Raise Unfoldable if some data from outside depends on a step."""
        inner = {name for step in self.found.steps for node in step if node is not None for name in node.outputs}
        reached = set(inner)
        for node in self.old.nodes:
            if not reached.isdisjoint(names_read(node)):
                reached.update(node.outputs)
        for n, row in enumerate(self.found.origins):
            for q, (source, _) in enumerate(row):
                if source is Source.OUTSIDE and not reached.isdisjoint(self._inputs(n, q)):
                    raise Unfoldable
        if not reached.isdisjoint(name for name in self.found.initial.values() if name):
            raise Unfoldable

    def _inputs(self, n: int, q: int) -> tuple[str, ...]:
        """Return the names of an input of a node in all steps in which it is no constant."""
        nodes = (step[n] for step in self.found.steps)
        return tuple(node.inputs[q] for node in nodes if node is not None)

    def _outputs(self, n: int, output: int) -> tuple[str, ...]:
        """Return the names of a result of a node in all steps; an empty one where it is a constant."""
        nodes = (step[n] for step in self.found.steps)
        return tuple("" if node is None else node.outputs[output] for node in nodes)

    def _shape(self, name: str) -> tuple[int, ...]:
        value = self.added.values.get(name)
        if value is None or value.shape is None or not all(isinstance(n, int) for n in value.shape):
            raise Unfoldable
        return tuple(value.shape)  # type: ignore[arg-type]

    def _width(self, name: str) -> int:
        """Return the number of channels of a value of one step, which lie on its last axis."""
        shape = self._shape(name)
        if not shape or prod(shape) != shape[-1] or self.added.values[name].element_type != "float":
            raise Unfoldable
        return shape[-1]

    # ---- new nodes --------------------------------------------------------------------------------------------------

    def _add(self, op_type: str, *inputs: str, origin: Node | None = None, **attributes: Any) -> str:
        result = self.added.value(f"{self.prefix}/{op_type.lower()}", Value("", "float", None))
        if origin is None:
            self.nodes.append(Node("", op_type, "", VERSION, inputs, (result,), attributes))
        else:
            self.nodes.append(replace(origin, inputs=inputs, outputs=(result,)))
        return result

    def _lengths(self, *numbers: int) -> str:
        if numbers not in self.lengths:
            name = f"{self.prefix}/{'_'.join(map(str, numbers)) if len(numbers) < 5 else 'numbers'}"
            self.lengths[numbers] = self.added.constant(name, np.array(numbers, dtype=np.int64), "int64")
        return self.lengths[numbers]

    def _constant(self, array: np.ndarray) -> str:
        return self.added.constant(f"{self.prefix}/constant", array.astype(np.float32), "float")

    def _part(self, name: str, first: int, end: int, axis: int) -> str:
        return self._add("Slice", name, *(self._lengths(k) for k in (first, end, axis)))

    # ---- the loop ---------------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        """Add the loop, and record which value has the results of all steps."""
        found, delays = self.found, dict[Result, tuple[int, str]]()
        for state, name in found.initial.items():
            width = self._width(found.template[state[0]].outputs[state[1]])
            delays[state] = self._delay(name, width)
            self.inner.add(delays[state][1])
        results: dict[Result, str] = {}
        for n, node in enumerate(found.template):
            inputs: list[str] = []
            for q, (source, result) in enumerate(found.origins[n]):
                if source is Source.CONSTANT:
                    inputs.append(node.inputs[q])
                elif source is Source.OWN:
                    inputs.append(results[result])
                elif source is Source.STATE:
                    inputs.append(delays[result][1])
                else:
                    names = self._inputs(n, q)
                    if len(names) != self.steps:  # a constant in place of a node that reads data
                        raise Unfoldable
                    inputs.append(self._stacked(names))
            for output, made in enumerate(self._vectorized(node, inputs)):
                results[n, output] = made
                self.inner.add(made)
        for state, (place, _) in delays.items():
            delay = self.nodes[place]
            self.nodes[place] = replace(delay, attributes={**delay.attributes, "of": results[state]})
        for (n, output), made in results.items():
            if found.template[n].outputs[output]:
                self.whole[self._outputs(n, output)] = made

    def _delay(self, first: str | None, width: int) -> tuple[int, str]:
        """Add the value of the step before; return the place of its node, and its name with the first value."""
        known = self.old.constants.get(first or "")
        if first and self._width(first) != width:
            raise Unfoldable
        start = np.zeros(width) if known is None else known
        result = self.added.value(f"{self.prefix}/previous", Value("", "float", None))
        attributes = {"of": "", "axis": 0, "steps": self.steps}
        inputs = (self._constant(start.reshape(1, 1, width)),)
        self.nodes.append(Node("", DELAY[1], DELAY[0], 1, inputs, (result,), attributes))
        place = len(self.nodes) - 1
        if first and known is None:
            row = self._add("Reshape", first, self._lengths(1, 1, width))
            padded = self._add("Pad", row, self._lengths(0, 0, 0, self.steps - 1, 0, 0))
            result = self._add("Add", result, padded)
        return place, result

    def _vectorized(self, node: Node, inputs: Sequence[str]) -> list[str]:
        """Add a node of a step for all steps at once; return the names of its results.

        Args:
            node: node of one step.
            inputs: names of its inputs, which are constants or have all steps.

        Raises:
            Unfoldable: the node does more than products with constants and functions of each element.
        """
        constants = [self.old.constants.get(name) if name in node.inputs else None for name in inputs]
        widths = [self._width(name) for name in node.outputs if name]
        data = [k for k, array in enumerate(constants) if array is None and inputs[k]]
        normalizes = facts_of(node).effect is Effect.NORMALIZES and data == [0]
        if node.domain or not node.outputs[0] or (not all(node.outputs) and not normalizes):
            raise Unfoldable
        if facts_of(node).moves and data == [0]:
            same = np.arange(self._width(node.inputs[0]))
            moved = self._moved(node)
            return [inputs[0] if np.array_equal(of, same) else self._channels(inputs[0], of) for of in moved]
        at = facts_of(node).weights
        if at is not None and at.rank == 2 and data == [0]:
            return [self._product(node, inputs, constants)]
        own = [self._width(node.inputs[k]) for k in data]
        if facts_of(node).effect is Effect.JOINS:
            pairs = zip(inputs, constants, strict=True)
            parts = [name if array is None else self._row(array) for name, array in pairs]
            if sum(self._widths(node)) != widths[0]:
                raise Unfoldable
            return [self._add("Concat", *parts, axis=CHANNELS)]
        if normalizes:
            return [self._normalization(node, inputs, constants)]
        if facts_of(node).effect not in PER_ELEMENT or len(node.outputs) != 1:
            raise Unfoldable
        if any(width != widths[0] for width in own):
            raise Unfoldable
        return [self._add(node.op_type, *self._beside(inputs, constants, widths[0]), origin=node)]

    def _widths(self, node: Node) -> list[int]:
        return [
            self.old.constants[name].shape[-1] if name in self.old.constants else self._width(name)
            for name in node.inputs
        ]

    def _row(self, array: np.ndarray) -> str:
        """Add a constant of one step for all steps."""
        if array.size != array.shape[-1]:
            raise Unfoldable
        return self._constant(np.broadcast_to(array.reshape(1, 1, -1), (self.steps, 1, array.size)))

    def _beside(self, inputs: Sequence[str], constants: Sequence[np.ndarray | None], width: int) -> list[str]:
        """Return the inputs of a function of each element, with constants that fit to all steps."""
        fitting = []
        for name, array in zip(inputs, constants, strict=True):
            if array is not None and array.dtype == np.float32 and array.ndim:
                if array.size not in (1, width) or array.shape[-1] != array.size:
                    raise Unfoldable
                name = self._constant(array.reshape(-1))
            fitting.append(name)
        return fitting

    def _product(self, node: Node, inputs: Sequence[str], constants: Sequence[np.ndarray | None]) -> str:
        """Add the product of all steps: what the node makes of unit vectors are its factors, of zeros its bias."""
        weights, *others = constants[1:]
        bias = next((array for array in others if array is not None), None)
        if weights is None or weights.ndim != 2 or (any(inputs[2:]) and bias is None):
            raise Unfoldable
        columns, missing = self._width(node.inputs[0]), [None] * len(others)
        try:
            (factors,) = compute(node, [np.eye(columns, dtype=np.float32), weights, *missing])
            (offset,) = compute(node, [np.zeros((1, columns), dtype=np.float32), weights, *others])
        except UserError:
            raise Unfoldable from None
        product = self._add("MatMul", inputs[0], self._constant(np.asarray(factors)))
        self.nodes[-1] = replace(self.nodes[-1], name=node.name, where=node.where)
        return product if bias is None else self._add("Add", product, self._constant(np.asarray(offset).reshape(-1)))

    def _normalization(self, node: Node, inputs: Sequence[str], constants: Sequence[np.ndarray | None]) -> str:
        """Add the normalization of each step, whose channels are the last axis of the node's data."""
        rank = len(self._shape(node.inputs[0]))
        axis = operator_of(node).attributes.get("axis")
        if axis is None or int(node.attributes.get("axis", axis.default)) % rank != rank - 1 or any(node.outputs[1:]):
            raise Unfoldable
        fitting = self._beside(inputs, constants, self._width(node.inputs[0]))
        made = self._add(node.op_type, *fitting, origin=node)
        self.nodes[-1] = replace(self.nodes[-1], attributes={**node.attributes, "axis": CHANNELS})
        return made

    def _moved(self, node: Node) -> list[np.ndarray]:
        """Return, for each result of a node that moves elements, the number of each among those of its first input."""
        shape, constants = self._shape(node.inputs[0]), self.old.constants
        if prod(shape) > MAX_ELEMENTS or any(name and name not in constants for name in node.inputs[1:]):
            raise Unfoldable
        rest = [constants[name] if name else None for name in node.inputs[1:]]
        try:
            results = compute(node, [np.arange(prod(shape)).reshape(shape), *rest])
        except UserError:
            raise Unfoldable from None
        return [np.asarray(array).reshape(-1) for array in results]

    def _channels(self, name: str, numbers: np.ndarray) -> str:
        """Add some channels of a value, as early as they can be told apart: a product has them as its columns."""
        node = next((other for other in reversed(self.nodes) if name in other.outputs), None)
        if node is not None and node.op_type == "MatMul":
            factors = self.added.constants[node.inputs[1]][:, numbers]
            made = self._add("MatMul", node.inputs[0], self._constant(factors))
            self.nodes[-1] = replace(self.nodes[-1], name=node.name, where=node.where)
            return made
        if node is not None and not node.domain and facts_of(node).effect in PER_ELEMENT:
            inputs = []
            for of in node.inputs:
                array = self.added.constants.get(of)
                if array is None and of:
                    inputs.append(self._channels(of, numbers))
                else:
                    inputs.append(of if array is None or array.size == 1 else self._constant(array[numbers]))
            return self._add(node.op_type, *inputs, origin=node)
        return self._add("Gather", name, self._lengths(*numbers.tolist()), axis=CHANNELS)

    # ---- data from outside ------------------------------------------------------------------------------------------

    def _stacked(self, names: tuple[str, ...]) -> str:
        """Return the value that has, in each step, one of several values; add it unless it exists.

        Raises:
            Unfoldable: the values are not slices of one tensor, nor made of such by equal nodes.
        """
        if names in self.whole:
            return self.whole[names]
        arrays = [self.old.constants.get(name) for name in names]
        width = self._width(names[0])
        if any(self._width(name) != width for name in names):
            raise Unfoldable
        known = [array for array in arrays if array is not None]
        if len(known) == len(names):
            made = self._constant(np.stack([array.reshape(1, -1) for array in known]))
        else:
            made = self._of_equal_nodes(names) or self._slices_of_one(names, width)
        if not made:
            raise Unfoldable
        self.whole[names] = made
        return made

    def _makers(self, names: Sequence[str]) -> list[Node] | None:
        """Return the nodes that make some values, if these have one operator with the same attributes."""
        made = [self.makers.get(name) for name in names]
        nodes = [node for entry in made if entry is not None for node in entry[:1]]
        if len(nodes) != len(names):
            return None
        kinds = {(node.op_type, node.domain, repr(sorted(node.attributes.items())), len(node.inputs)) for node in nodes}
        return list(nodes) if len(kinds) == 1 else None

    def _of_equal_nodes(self, names: Sequence[str]) -> str:
        """Add a node that computes for all steps what equal nodes compute; return its result, or an empty name."""
        nodes = self._makers(names)
        outputs = {self.makers[name][1] for name in names if name in self.makers}
        if nodes is None or len(outputs) > 1 or len({id(node) for node in nodes}) < len(nodes):
            return ""
        first, before, whole = nodes[0], len(self.nodes), dict(self.whole)
        try:
            inputs = []
            for q, name in enumerate(first.inputs):
                each = tuple(node.inputs[q] for node in nodes)
                array = self.old.constants.get(name)
                if array is None and name:
                    inputs.append(self._stacked(each))
                elif all(other == name or self._equal(array, other) for other in each):
                    inputs.append(name)
                else:
                    raise Unfoldable
            return self._vectorized(first, inputs)[outputs.pop()]
        except Unfoldable:
            del self.nodes[before:]
            self.whole = whole
            return ""

    def _equal(self, array: np.ndarray | None, name: str) -> bool:
        other = self.old.constants.get(name)
        return array is not None and other is not None and np.array_equal(array, other)

    def _slices_of_one(self, names: Sequence[str], width: int) -> str:
        """Add the value of which the steps' values are slices; return its name, or an empty one."""
        nodes = self._makers(names)
        if nodes is None or len({node.inputs[0] for node in nodes}) != 1:
            return ""
        source = nodes[0].inputs[0]
        if source in self.old.constants or not facts_of(nodes[0]).moves:
            return ""
        shape = self._shape(source)
        try:
            moved = [self._moved(node)[self.makers[name][1]] for node, name in zip(nodes, names, strict=True)]
        except Unfoldable:
            return ""
        numbers = np.stack(moved)
        for axis, length in enumerate(shape):
            front = np.moveaxis(np.arange(prod(shape)).reshape(shape), axis, 0).reshape(length, -1)
            steps = np.unravel_index(numbers[:, 0], shape)[axis]
            if not np.array_equal(front[steps], numbers):
                continue
            order = [axis, *(k for k in range(len(shape)) if k != axis)]
            turned = source if axis == 0 else self._add("Transpose", source, perm=tuple(order))
            rows = self._add("Reshape", turned, self._lengths(length, 1, width))
            if np.array_equal(steps, np.arange(length)):
                return rows
            return self._add("Gather", rows, self._lengths(*steps.tolist()), axis=0)
        return ""

    # ---- behind the steps -------------------------------------------------------------------------------------------

    def _joined(self, node: Node) -> list[Node]:
        """Return a node, or others in its place if it joins values of all steps, perhaps with values beside them."""
        if facts_of(node).effect is not Effect.JOINS or node.domain or len(node.inputs) < self.steps:
            return [node]
        for first in dict.fromkeys((len(node.inputs) - self.steps, 0)):
            before, whole = len(self.nodes), dict(self.whole)
            try:
                return self._join(node, first)
            except Unfoldable:
                del self.nodes[before:]
                self.whole = whole
        return [node]

    def _join(self, node: Node, first: int) -> list[Node]:
        """Return nodes that join what a node joins, where its inputs from the number ``first`` on are all steps."""
        names, axis = node.inputs[first : first + self.steps], int(node.attributes["axis"])
        shape, width = list(self._shape(names[0])), self._width(names[0])
        axis %= len(shape)
        shape[axis] *= self.steps
        if shape[-1] not in (width, self.steps * width):
            raise Unfoldable
        made = self._stacked(names)
        inputs = made, self._lengths(*shape)
        if len(names) == len(node.inputs):
            return [replace(node, op_type="Reshape", version=VERSION, inputs=inputs, attributes={})]
        part = self.added.value(f"{self.prefix}/joined", Value("", "float", None))
        rest = (*node.inputs[:first], part, *node.inputs[first + self.steps :])
        return [Node("", "Reshape", "", VERSION, inputs, (part,), {}), replace(node, inputs=rest)]

    def _slices(self, read: Collection[str]) -> None:
        """Add those values of single steps that are read, under their own names."""
        places = [(n, k) for n, node in enumerate(self.found.template) for k, name in enumerate(node.outputs) if name]
        for n, output in places:
            each = self._outputs(n, output)
            made = self.whole[tuple(each)]
            for k, own in enumerate(each):
                if own in read:
                    part = self._part(made, k, k + 1, 0)
                    shape = self._lengths(*self._shape(own))
                    self.nodes.append(Node("", "Reshape", "", VERSION, (part, shape), (own,), {}))
