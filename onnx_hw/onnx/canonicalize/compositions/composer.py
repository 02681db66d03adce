"""Rewriter of operators into compositions of others, and the table of compositions.

A node is composed only where hardware needs it: whatever the host can compute before the first product or behind the
last one stays as it is, on the host, in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from enum import Enum, auto
from math import prod
from typing import Any, TypeVar

import numpy as np

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate.macs import is_product
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.element_types import BY_CODE, BY_NAME
from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.loops import loops_together
from onnx_hw.onnx.graph.model import Graph, Model, Node, Value
from onnx_hw.onnx.operators.dtypes import dtype_of_name, to_model_dtype
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import SCALE_EFFECTS, Effect
from onnx_hw.onnx.operators.registry import facts_of, facts_of_operator

VERSION = 13
"""Opset of the inserted nodes."""

MAX_PASSES = 8
"""Greatest number of passes: the nodes of a composition may have a composition, too."""


class NoComposition(Exception):
    """Form of an operator without a composition: the node stays."""


class Need(Enum):
    """Position of a node at which its composition is made.

    Members:
        ALWAYS: everywhere, since no host computes products.
        LEADING: before a product or a sum, since no hardware reads its result otherwise.
        BETWEEN: before a product or a sum, and behind a product or a quantizer of data; in a model without products and
            sums, everywhere.
    """

    ALWAYS = auto()
    LEADING = auto()
    BETWEEN = auto()


class Composer:
    """Rewriter that visits node after node.

    Attributes:
        added: values and constants of the graph and the new ones.
        nodes: nodes so far.
        graph: the rewritten graph.
        is_changed: whether some node was composed.
    """

    def __init__(self, graph: Graph, only: Collection[Composition] | None = None) -> None:
        self.added, self.nodes = Additions(graph), list[Node]()
        self._stored: dict[str, Node] = {}
        for node in graph.nodes:
            if self._is_stored(node):
                self._stored[node.outputs[0]] = node
        self._made, self._indexed = dict[str, Node](), 0
        self.is_changed = False
        behind, leading = _surroundings(graph)
        without = not any(is_product(node) or facts_of(node).effect is Effect.SUMS for node in graph.nodes)
        for node in graph.nodes:
            rows = [
                row
                for row in (COMPOSITIONS.get(node.op_type, ()) if not node.domain else ())
                if only is None or row[0] in only
            ]
            if not rows or (len([name for name in node.outputs if name]) != 1 and node.op_type not in OF_SEVERAL):
                self.nodes.append(node)
                continue
            leads = not leading.isdisjoint(node.outputs)
            between = without or (leads and not behind.isdisjoint(names_read(node)))
            needed = {Need.ALWAYS: True, Need.LEADING: leads, Need.BETWEEN: between}
            if not any(needed[need] and self._compose(node, composition) for composition, need in rows):
                self.nodes.append(node)
        self.graph = self.added.graph(loops_together(self.nodes))

    def _compose(self, node: Node, composition: Composition) -> bool:
        """Add the nodes of a composition; return whether there is one for the form of the node."""
        before, self.node = len(self.nodes), node
        try:
            made = composition(self, node)
        except NoComposition:
            del self.nodes[before:]
            self._indexed = min(self._indexed, before)
            return False
        self.is_changed = True
        last = self.nodes[-1] if len(self.nodes) > before else None
        if last is not None and last.outputs == (made,):
            self.nodes[-1] = replace(last, outputs=node.outputs)
        else:
            results = (made,) if isinstance(made, str) else made
            for result, name in zip(results, node.outputs, strict=False):
                if name:
                    self.nodes.append(Node("", "Identity", "", VERSION, (result,), (name,)))
        self._indexed = min(self._indexed, before)
        for k in range(before, len(self.nodes)):  # messages name the node of the file
            self.nodes[k] = replace(self.nodes[k], where=node.where)
        same = [k for k in range(before, len(self.nodes)) if self.nodes[k].op_type == node.op_type]
        products = [k for k in range(before, len(self.nodes)) if is_product(self.nodes[k])]
        for k in (same if len(same) == 1 else products)[:1]:
            self.nodes[k] = replace(self.nodes[k], name=node.label)
        for number, k in enumerate(products[1:], 2):
            if not self.nodes[k].name:
                self.nodes[k] = replace(self.nodes[k], name=f"{node.label}/product{number}")
        return True

    @property
    def result(self) -> str:
        """Name of the first result of the node."""
        return next(name for name in self.node.outputs if name)

    # ---- facts about values ---------------------------------------------------------------------------------------

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value of the graph.

        Raises:
            NoComposition: the shape is not known.
        """
        value = self.added.values.get(name)
        if value is None or value.shape is None or not all(isinstance(length, int) for length in value.shape):
            raise NoComposition
        return tuple(value.shape)  # type: ignore[arg-type]

    def is_float(self, name: str) -> bool:
        """Return whether a value holds real numbers."""
        value = self.added.values.get(name)
        return value is not None and value.element_type in BY_NAME and BY_NAME[value.element_type].is_float

    def is_constant(self, name: str) -> bool:
        """Return whether a value is a constant, or made of integers of a constant that a DequantizeLinear scales."""
        return name in self.added.constants or name in self._stored

    def depends_on_data(self, name: str) -> bool:
        """Return whether a value is computed from an input of the graph, and not of constants alone."""
        seen, left = {name}, [name]
        while left:
            value = left.pop()
            node = self.producer(value)
            if node is None and value not in self.added.constants:
                return True
            new = {source for source in (node.inputs if node is not None else ()) if source} - seen
            seen |= new
            left += new
        return False

    def _is_stored(self, node: Node) -> bool:
        """Return whether a node scales integers of a constant, or moves those that another node scales."""
        facts, (first, *others) = facts_of(node), node.inputs or ("",)
        data = (
            first in self.added.constants
            if facts.effect is Effect.DEQUANTIZES
            else facts.moves and first in self._stored
        )
        return data and len(node.outputs) == 1 and all(name in self.added.constants for name in others if name)

    def numbers(self, name: str) -> np.ndarray | None:
        """Return the numbers of a constant in its own type; None for other values."""
        if name in self.added.constants:
            return self.added.constants[name]
        node = self._stored.get(name)
        if node is None:
            return None
        try:
            return np.asarray(compute(node, [self.numbers(n) if n else None for n in node.inputs])[0])
        except UserError:
            raise NoComposition from None

    def real(self, node: Node) -> str:
        """Return the first input of a node, which must be real numbers.

        Raises:
            NoComposition: they are integers or constant.
        """
        self.require(self.is_float(node.inputs[0]) and not self.is_constant(node.inputs[0]))
        return node.inputs[0]

    def constant_input(self, k: int) -> np.ndarray:
        """Return input ``k`` of the node, which must be constant.

        Raises:
            NoComposition: it is left out, or not constant.
        """
        name = self.node.inputs[k] if len(self.node.inputs) > k else ""
        array = self.numbers(name) if name else None
        if array is None:
            raise NoComposition
        return array

    def type_of(self, name: str) -> str:
        """Return the element type of a value, or an empty string."""
        value = self.added.values.get(name)
        return "" if value is None else value.element_type

    def producer(self, name: str) -> Node | None:
        """Return the node that makes a value, in the rewritten graph; None for inputs and constants."""
        for node in self.nodes[self._indexed :]:
            self._made.update(dict.fromkeys(node.outputs, node))
        self._indexed = len(self.nodes)
        return self._made.get(name)

    def require(self, condition: bool) -> None:
        """Raise NoComposition unless a condition of the composition holds."""
        if not condition:
            raise NoComposition

    # ---- new nodes and constants ----------------------------------------------------------------------------------

    def add(self, op_type: str, *inputs: str, domain: str = "", version: int = VERSION, **attributes: Any) -> str:
        """Add a node with one result, of the element type of its numbers; return the name of the result."""
        effect = facts_of_operator(domain, op_type).effect
        element_type = self.type_of(inputs[1 if effect is Effect.DEQUANTIZES or op_type == "Where" else 0])
        if op_type == "Cast":
            element_type = BY_CODE[attributes["to"]].name
        elif effect is Effect.PICKS:
            element_type = "int64"
        result = self.added.value(f"{self.result}/{op_type.lower()}", Value("", element_type, None))
        self.nodes.append(Node("", op_type, domain, version, inputs, (result,), attributes))
        return result

    def constant(self, array: Any, like: str = "") -> str:
        """Add a constant of the type of another value, by default the node's result; return its name."""
        of = self.added.values.get(like or self.result)
        self.require(of is not None and bool(of.element_type))
        assert of is not None
        stored = to_model_dtype(np.asarray(array).astype(dtype_of_name(of.element_type)))
        return self.added.constant(f"{self.result}/constant", stored, of.element_type)

    def lengths(self, numbers: Sequence[int]) -> str:
        """Add a constant of int64, such as a shape or axes; return its name."""
        return self.added.constant(f"{self.result}/lengths", np.array(numbers, dtype=np.int64), "int64")

    def reshaped(self, name: str, shape: Sequence[int]) -> str:
        """Add a Reshape, unless the value of the graph has that shape."""
        of = self.added.values.get(name)
        return name if of is not None and of.shape == tuple(shape) else self.add("Reshape", name, self.lengths(shape))

    def transposed(self, name: str, axes: Sequence[int]) -> str:
        """Add a Transpose, unless the axes keep their order."""
        return name if list(axes) == sorted(axes) else self.add("Transpose", name, perm=tuple(axes))

    def gathered(self, parts: Sequence[str], origin: np.ndarray) -> str:
        """Add nodes that place elements of several values; return the name of the result.

        Args:
            origin: number of each element among all elements of the parts, one part behind the other, or -1 for 0; it
                has the shape of the result.
        """
        sizes = [prod(self.shape(part)) for part in parts]
        flat = [self.reshaped(part, (1, size)) for part, size in zip(parts, sizes, strict=True)]
        whole = flat[0] if len(flat) == 1 else self.add("Concat", *flat, axis=1)
        index = origin.reshape(-1).astype(np.int64)
        if (index < 0).any():
            whole = self.add("Pad", whole, self.lengths((0, 0, 0, 1)))
            index = np.where(index < 0, sum(sizes), index)
        return self.reshaped(self.add("Gather", whole, self.lengths(index.tolist()), axis=1), origin.shape)


Composition = Callable[[Composer, Node], str | tuple[str, ...]]
"""Function that adds the nodes of a composition and returns the name of the result, or one for each result."""

COMPOSITIONS: dict[str, list[tuple[Composition, Need]]] = {}
"""Compositions by name of the operator, and where they are made; the first one that has its form is taken."""

OF_SEVERAL: set[str] = set()
"""Names of the operators whose composition gives all of several results."""

MEANINGS: dict[tuple[str, str], str] = {}
"""Description of the composition for the table of operators, by domain and name."""


C = TypeVar("C", bound=Composition)


def composed(*operators: str, meaning: str, need: Need = Need.BETWEEN, several: bool = False) -> Callable[[C], C]:
    """Register the composition of operators.

    Args:
        meaning: description of its result for the table of operators.
        several: whether it gives all results of an operator that may have several.
    """

    def register(composition: C) -> C:
        for op_type in operators:
            COMPOSITIONS.setdefault(op_type, []).append((composition, need))
            OF_SEVERAL.update((op_type,) if several else ())
            MEANINGS["", op_type] = MEANINGS.get(("", op_type)) or meaning
        return composition

    return register


def compose(model: Model, fold: Callable[[Model], Model], only: Collection[Composition] | None = None) -> Model:
    """Return the same folded model with compositions in place of operators that have one.

    Args:
        fold: function that infers types and folds constants.
        only: the compositions that are made; None for all.
    """
    for _ in range(MAX_PASSES):
        composer = Composer(model.graph, only)
        if not composer.is_changed:
            break
        newest = max(node.version for node in composer.nodes if not node.domain)
        opsets = {**model.opsets, "": max(newest, model.opsets.get("", VERSION))}
        model = fold(replace(model, graph=composer.graph, opsets=opsets))
    return model


def _surroundings(graph: Graph) -> tuple[set[str], set[str]]:
    """Return the values behind some product or some quantizer of data, and those before some product or sum.

    Hardware begins with the first quantizer of data, if a model has some.
    """
    behind: set[str] = set()
    for node in graph.nodes:
        quantizes = facts_of(node).effect in SCALE_EFFECTS and node.inputs[0] not in graph.constants
        if quantizes or is_product(node) or not behind.isdisjoint(names_read(node)):
            behind.update(name for name in node.outputs if name)
    leading: set[str] = set()
    for node in reversed(graph.nodes):
        sums = facts_of(node).effect is Effect.SUMS or is_product(node)
        if sums or not leading.isdisjoint(node.outputs):
            leading.update(names_read(node))
    return behind, leading
