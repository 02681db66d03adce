"""Placement of quantizers: the values of a float model that get integers of their own.

A folded float model goes in, a set of value names comes out; ``post_training`` calls it, and ``insert_qdq`` puts a
QuantizeLinear and a DequantizeLinear behind each of them. They are:

* Every graph input that hardware reads; small integers are streamed as they are, other types as the host converts
  them. What the host must compute first (``lower/host_prefix.py``) is quantized where hardware reads it.
* Every result of a product or an average, but behind the nodes that the requantization absorbs: an addition or a
  multiplication with a constant, Relu, Clip.
* Every sum or product of two tensors, and every quotient of two and every Concat that leads to a product, but behind a
  Relu or Clip.
* What the host has prepared for comparisons: decision trees are hardware.
* Every function of such integers that leads to a product, however many nodes compute it (x · Sigmoid(x) are two): it
  becomes one table. A function that only leads to an output stays on the host, in floats.
* The data and the result of a Softmax or a normalization that leads to a product.
* Every state that a loop over time delays; the delayed state has the integers of the state.
* Nothing else: a maximum or a data movement keeps integers and scale; so does a positive factor. Nothing either of
  what follows from an operator that never becomes hardware: the host computes it in floats.

The results of a product that lead to no further product, average or sum of two tensors need no integers of few bits:
unless the user asks for int8, accumulators leave the hardware, and these lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from onnx_hw.lower.builder import INTEGER_TYPES
from onnx_hw.lower.host_prefix import divides_tensors, is_left_to_host
from onnx_hw.onnx.canonicalize.cast_to_float32 import OTHER_FLOATS
from onnx_hw.onnx.evaluate.macs import is_product
from onnx_hw.onnx.graph.dependencies import readers_of
from onnx_hw.onnx.graph.loops import delayed_values, is_delay
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.evaluate import evaluate
from onnx_hw.onnx.operators.facts import LINEAR_EFFECTS, SCALE_EFFECTS, Effect
from onnx_hw.quantization.scheme import MAX_BITS

SUMMAND_BITS = 12
"""Bits of what the data of a normalization is made of: two steps of their own still have an exact sum."""

MAX_THRESHOLDS_BITS = 26
"""Bits of the greatest number of thresholds that a value whose places have constants of their own may need."""

ABSORBED = LINEAR_EFFECTS | {Effect.BOUNDS}
"""Effects that the requantization of a sum takes over, where all other operands are constant."""


def _is_stored_constant(node: Node, constants: Mapping[str, np.ndarray]) -> bool:
    """Say whether a node is a DequantizeLinear of constant weights."""
    return _effect(node) is Effect.DEQUANTIZES and all(name in constants for name in node.inputs if name)


def _float_inputs_cast(graph: Graph) -> set[str]:
    """Return graph inputs of another float type, by the names of their float32 casts."""
    inputs = {v.name for v in graph.inputs if v.element_type in OTHER_FLOATS}
    casts = [node for node in graph.nodes if node.op_type == "Cast" and not node.domain and node.inputs[0] in inputs]
    results = (graph.values.get(node.outputs[0]) for node in casts)
    return {value.name for value in results if value is not None and value.element_type == "float"}


def _effect(node: Node) -> Effect | None:
    return facts_of(node).effect


def _changes_integers(node: Node) -> bool:
    """Say whether integers go in and other ones come out."""
    return _effect(node) not in SCALE_EFFECTS | {None, Effect.NORMALIZES, Effect.PICKS}


def _without_tail(nodes: Sequence[Node], graph: Graph) -> list[Node]:
    """Return the nodes but those that the host must compute behind the hardware: operators without a lowering that lead
    to no product, and all that depend on them.
    """
    before_products: set[str] = set()
    for node in reversed(nodes):
        if _effect(node) is Effect.SUMS or not before_products.isdisjoint(node.outputs):
            before_products.update(node.inputs)
    tail: set[str] = set()
    for node in nodes:
        data = [name for name in node.inputs if name and name not in graph.constants]
        begins = data and is_left_to_host(node) and before_products.isdisjoint(node.outputs)
        if begins or not tail.isdisjoint(data):
            tail.update(name for name in node.outputs if name)
    return [node for node in nodes if tail.isdisjoint(node.outputs)]


def _is_elementwise(node: Node) -> bool:
    return _effect(node) in ABSORBED | {Effect.BENDS}


def choose_quantized_values(model: Model, head: Collection[str] = (), *, outputs: bool = True) -> set[str]:
    """Choose the values that get integers, and return their names; the model is folded, its weights are constants.

    Args:
        head: names of values that the host computes.
        outputs: whether values that only lead to outputs are included.
    """
    choice = _Choice(model, head)
    if outputs or choice.without_products:
        return choice.points
    return {name for name in choice.points if name in choice.before_integers or name not in choice.of_sums}


def wide_values(graph: Graph, points: Collection[str]) -> dict[str, int]:
    """Return the chosen values that need more bits than others, with their bits: what a normalization reads, and what
    divides another tensor.

    A normalization makes small differences large, and gives all groups of numbers one size. So the integers of a group
    that is small among the others must be fine enough for it: those of the data of a normalization, of the operands of
    its sums, and of the data of the product in front of it.
    """
    walk = _BeforeNormalizations(graph, points)
    for node in graph.nodes:
        if divides_tensors(node, graph.constants):
            walk.give(node.inputs[1], MAX_BITS)
        elif _effect(node) is Effect.NORMALIZES and not facts_of(node).along_axis:
            walk.visit(node.inputs[0], MAX_BITS)
    return walk.bits


class _BeforeNormalizations:
    """Walk from normalizations back to what their data is a sum of.

    Attributes:
        bits: bits of the points so far.
    """

    def __init__(self, graph: Graph, points: Collection[str]) -> None:
        self.graph, self.points = graph, points
        self.producers = {name: node for node in graph.nodes for name in node.outputs}
        self.bits: dict[str, int] = {}

    def visit(self, name: str, bits: int, *, alone: bool = True) -> None:
        """Give a value bits, and go on to what it is made of.

        Args:
            alone: whether it is not an operand of a sum of two tensors.
        """
        if name in self.points:
            bits = self._limited(name, bits)
            if self.bits.get(name, 0) >= bits:
                return
            self.bits[name] = bits
            bits = min(bits, SUMMAND_BITS)
        node = self.producers.get(name)
        if node is None or is_delay(node):
            return
        effect, data = _effect(node), self._data(node)
        if effect is Effect.SUMS and alone:
            self.give(node.inputs[0], SUMMAND_BITS)
        elif effect in (Effect.ADDS, Effect.JOINS) and len(data) > 1:
            for other in data:
                self.visit(other, SUMMAND_BITS, alone=False)
        elif data and (effect is Effect.KEEPS or (effect in ABSORBED and len(data) == 1)):
            self.visit(data[0], bits, alone=alone)

    def give(self, name: str, bits: int) -> None:
        """Give at least this number of bits to the point whose numbers a value has."""
        while name not in self.points and name in self.producers and _effect(self.producers[name]) is Effect.KEEPS:
            name = self.producers[name].inputs[0]
        if name in self.points:
            self.bits[name] = max(self.bits.get(name, 0), bits)

    def _limited(self, name: str, bits: int) -> int:
        """Return fewer bits for a value in front of which a constant differs from place to place: each place has a
        threshold for each integer.
        """
        node = self.producers.get(name)
        while node is not None and _effect(node) in ABSORBED | {Effect.KEEPS}:
            for constant in (self.graph.constants[other] for other in node.inputs if other in self.graph.constants):
                if sum(length > 1 for length in constant.shape) > 1:
                    bits = min(bits, MAX_THRESHOLDS_BITS - (constant.size - 1).bit_length())
            before = next(iter(self._data(node)), "")
            node = None if before in self.points else self.producers.get(before)
        return bits

    def _data(self, node: Node) -> list[str]:
        return [name for name in node.inputs if name and name not in self.graph.constants]


def compared_values(graph: Graph) -> set[str]:
    """Return the values that comparisons of trees, and votes, depend on, except those behind which is a function."""
    before: set[str] = set()
    for node in reversed(graph.nodes):
        facts = facts_of(node)
        if facts.effect is Effect.DECIDES or (facts.jumps and facts.effect is None):
            before.add(node.inputs[0])
        elif not before.isdisjoint(node.outputs) and facts.effect is not Effect.BENDS:
            before.update(node.inputs)
    return before


class _Choice:
    """The walk over the nodes.

    Attributes:
        points: names of the chosen values.
        integers: the chosen values, values with the same integers, and parts of a Concat that get integers there.
        from_host: values that the host computes.
        decided: values that say by 0 and 1 which conditions hold.
        of_sums: chosen values that follow from the sums of one product or average.
        before_integers: values that a product, a sum or an ArgMax depends on: they need few bits.
        before_macs: values that a product depends on: hardware makes them.
        without_products: whether the model has neither products nor sums: then hardware gets all that it can compute.
        root_of: for each value that is a function of the integers of one other value, that other value.
    """

    def __init__(self, model: Model, head: Collection[str]) -> None:
        graph = model.graph
        nodes = _without_tail([node for node in graph.nodes if not any(name in head for name in node.outputs)], graph)
        stored = [node for node in graph.nodes if _is_stored_constant(node, graph.constants)]
        self.constants = {**graph.constants, **evaluate(graph, {}, [node.outputs[0] for node in stored])}
        self.outputs = {value.name for value in graph.outputs}
        self.pairs = model.states
        self.states = delayed_values(nodes)
        self.readers = readers_of(nodes)
        self.values = graph.values
        entering = self._before(nodes, lambda node: self._sums(node) or self._adds_tensors(node))
        self.before_products = self._before(nodes, self._sums)
        self.before_macs = self._before(nodes, is_product)
        picks = self._before(nodes, lambda node: _effect(node) is Effect.PICKS)
        self.before_integers = entering | picks
        self.without_products = not entering
        if self.without_products:
            entering = self.before_products = self._before(nodes, _changes_integers)
        floats = {v.name for v in graph.inputs if v.element_type == "float"} | _float_inputs_cast(graph)
        self.points = floats & entering
        small = {v.name for v in graph.inputs if v.element_type in INTEGER_TYPES and v.name in entering}
        self.integers = self.points | small
        self.from_host = {v.name for v in graph.inputs if v.name not in self.integers} | set(head)
        self.root_of: dict[str, str] = {}
        self.of_sums: set[str] = set()
        self.decided: set[str] = set()
        for node in nodes:
            self._visit(node)

    def _before(self, nodes: Sequence[Node], chosen: Callable[[Node], bool]) -> set[str]:
        """Return the values that a chosen node depends on, over steps of time and over frames, too."""
        dependencies: set[str] = set()
        while True:
            for node in reversed(nodes):
                if chosen(node) or any(name in dependencies for name in node.outputs):
                    dependencies.update(node.inputs)
            states = delayed_values(node for node in nodes if not dependencies.isdisjoint(node.outputs))
            states |= {pair.output for pair in self.pairs if pair.input in dependencies}
            if states <= dependencies:
                return dependencies
            dependencies |= states

    def _visit(self, node: Node) -> None:
        data = [name for name in node.inputs if name and name not in self.constants]
        if is_delay(node):
            self.integers.update(node.outputs)
        if not data:
            return
        (result, *_) = node.outputs
        if self._keeps_integers(node) or _effect(node) is Effect.DEQUANTIZES:
            self.integers.update(node.outputs)
        elif self._sums(node):
            if self.from_host.issuperset(data[:1]) and not self.integers.issuperset(data[:1]):
                self._add(data[0])  # what the host has prepared enters here
            if data[0] in self.decided and self._picked(result):
                self.integers.add(result)  # sums of a table's few integers are compared as they are
                return
            before = set(self.points)
            self._end_of_chain(result, ABSORBED)
            self.of_sums |= self.points - before
        elif _effect(node) is Effect.NORMALIZES and result in self.before_macs and not self.from_host.issuperset(data):
            if data[0] not in self.integers:
                self._add(data[0])
            if facts_of(node).along_axis:
                self._add(result)
            else:
                self._end_of_chain(result, ABSORBED)
        elif _effect(node) is Effect.DECIDES:
            if self.from_host.issuperset(data):
                self._add(data[0])
            self.integers.update(node.outputs)
            self.decided.update(node.outputs)
        elif root := self._root(node, data):
            self.root_of[result] = root
            needed = result in self.before_products or (self.without_products and result in self.outputs)
            if needed and not self._goes_on(result, root) and not self._is_quantized(result):
                self._add(result)
        elif self._makes_integers(node, data):
            self.integers.update(node.outputs)
        elif self.from_host.issuperset(data):
            self.from_host.update(node.outputs)
        elif len(data) > 1 and self._joins(node) and self._known(result).issuperset(data):
            for name in set(data) - self.integers:
                self._add(name)  # what the host has prepared enters here, too, or a function of other integers
            self._end_of_chain(result, frozenset((Effect.BOUNDS,)))

    def _root(self, node: Node, data: Sequence[str]) -> str | None:
        """Return the one value of whose integers the node computes a function; None if there is no such value."""
        if not _is_elementwise(node):
            return None
        roots = {name if name in self.integers else self.root_of.get(name) for name in data}
        return roots.pop() if len(roots) == 1 else None

    def _known(self, result: str) -> set[str]:
        """Return the values that a sum or product of tensors may read: before a product functions of integers, too."""
        known = self.integers | self.from_host
        return known | self.root_of.keys() if result in self.before_products else known

    def _picked(self, name: str) -> bool:
        """Say whether the position of the greatest or the least number is all that hardware makes of a value."""
        return all(
            _effect(reader) is Effect.PICKS or (_effect(reader) is Effect.KEEPS and self._picked(reader.outputs[0]))
            for reader in self.readers.get(name, [])
        )

    def _goes_on(self, name: str, root: str) -> bool:
        """Say whether all readers of a function compute functions of the same integers."""
        readers = self.readers.get(name, [])
        return name not in self.outputs | self.states and all(
            _is_elementwise(reader)
            and all(
                not other or other in self.constants or other in (name, root) or self.root_of.get(other) == root
                for other in reader.inputs
            )
            for reader in readers
        )

    def _is_quantized(self, name: str) -> bool:
        """Say whether the model itself quantizes a value, and nothing else reads it."""
        following = self.readers.get(name, [])
        return bool(following) and all(_effect(node) is Effect.QUANTIZES for node in following)

    def _end_of_chain(self, name: str, absorbed: frozenset[Effect]) -> None:
        """Choose a value, or one that is made of it by nodes that are absorbed."""
        bounded = False
        while name not in self.outputs | self.states:
            following = self.readers.get(name, [])
            if len(following) != 1:
                break
            (node,) = following
            joins = _effect(node) is Effect.JOINS and len(self._parts(node)) > 1
            if joins and absorbed is ABSORBED and node.outputs[0] in self.before_products:
                self.integers.add(name)  # it is requantized for the Concat
                return
            constant = all(other == name or not other or other in self.constants for other in node.inputs)
            if _effect(node) not in absorbed or not constant or self._turns(node, name):
                break
            if bounded and _effect(node) in LINEAR_EFFECTS and not self._is_scalar(node):
                break  # each channel would have bounds of its own
            bounded = bounded or _effect(node) is Effect.BOUNDS
            name = node.outputs[0]
        self._add(name)

    def _add(self, name: str) -> None:
        self.points.add(name)
        self.integers.add(name)

    def _parts(self, node: Node) -> list[str]:
        """Return what a Concat joins: its inputs except constants without elements."""
        return [name for name in node.inputs if name not in self.constants or self.constants[name].size]

    def _keeps_integers(self, node: Node) -> bool:
        if _effect(node) is Effect.JOINS:
            parts = self._parts(node)
            return len(parts) == 1 and parts[0] in self.integers
        if node.inputs[0] not in self.integers:
            return False
        if _effect(node) is Effect.SCALES:
            factor = self.constants.get(node.inputs[1])
            return factor is not None and factor.size == 1 and bool(factor > 0)
        return _effect(node) is Effect.KEEPS

    def _makes_integers(self, node: Node, data: Sequence[str]) -> bool:
        """Say whether a node picks or compares integers, so that its results, which a product needs, are integers."""
        if self.without_products or self.before_products.isdisjoint(node.outputs):
            return False
        picks = _effect(node) is Effect.PICKS
        return (picks or facts_of(node).compares) and self.integers.issuperset(data)

    def _is_scalar(self, node: Node) -> bool:
        """Say whether all channels have one constant."""
        return all(self.constants[name].size == 1 for name in node.inputs if name in self.constants)

    def _turns(self, node: Node, data: str) -> bool:
        """Say whether an absorbed node has a negative slope, or is a division by the data."""
        if facts_of(node).inverts and node.inputs[1] == data:
            return True
        others = [self.constants[name] for name in node.inputs if name in self.constants]
        return _effect(node) is Effect.SCALES and any(bool((array <= 0).any()) for array in others)

    def _sums(self, node: Node) -> bool:
        """Say whether a node is a product or an average of real numbers; sums of indices, or of a shape that depends on
        data, stay on the host.
        """
        result = self.values.get(node.outputs[0])
        return _effect(node) is Effect.SUMS and result is not None and result.element_type == "float"

    def _joins(self, node: Node) -> bool:
        """Say whether hardware makes one tensor of several; quotients only where a product needs them."""
        result = node.outputs[0]
        if divides_tensors(node, self.constants):
            return result in self.before_macs or self.without_products
        return self._adds_tensors(node) or (_effect(node) is Effect.JOINS and result in self.before_products)

    def _adds_tensors(self, node: Node) -> bool:
        """Say whether a node adds or multiplies two tensors."""
        of_two = _effect(node) is Effect.ADDS or (_effect(node) is Effect.SCALES and not facts_of(node).inverts)
        return of_two and not any(name in self.constants for name in node.inputs)
