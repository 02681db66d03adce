"""Cost of integers of each width in hardware, in look-up tables, before there is any design.

* Weights lie in a memory, data in the rows that a window or a matrix product waits for: a small memory is made of
  look-up tables, a large one of block RAMs.
* The node that reads them has lanes by its share of all products: each carries both operands through registers and
  selectors.
* A function of data that becomes a table has an entry for every integer.

The cost serves to compare widths; the area of a design is estimated later, when it is known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

from onnx_hw.exact.requantization import LUTS_PER_BLOCK_RAM
from onnx_hw.onnx.evaluate.macs import macs_of
from onnx_hw.onnx.graph.dependencies import readers_of
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import LINEAR_EFFECTS, Effect
from onnx_hw.quantization.mixed_precision.sensitivity import TensorKey, weighted_products

BLOCK_RAM, TABLE = 18 * 1024, 16
"""Capacity of a block RAM, and of a look-up table, in bits."""

LANES = 156
"""Lanes of all products together: those of a middling chip."""

EXACT = 40
"""Bits that stand for an exact value, whose width follows from its integers; 40 bits are the widest."""

TABLE_ENTRY_BITS = 8
"""Width of an entry of a table, in bits."""


MAX_OPERAND_BITS = 14
"""Greatest width of the argument of a function, whose table has an entry for every integer, and of the factors of a
product of two values.
"""

MAX_EXPONENT_BITS = 10
"""Greatest width of the data of a Softmax, whose table has two entries for every integer where a mask hides places."""


def memory_luts(bits: float) -> float:
    """Return the cost of a memory, without steps, because it is not known yet which memories share a block RAM."""
    share = LUTS_PER_BLOCK_RAM / BLOCK_RAM
    begun = LUTS_PER_BLOCK_RAM * (1 - share * TABLE)
    return min(bits / TABLE, bits * share + begun)


def estimate_costs(graph: Graph, points: Collection[str], widths: Collection[int]) -> dict[TensorKey, dict[int, float]]:
    """Return the cost of every point and of all weights of a float32 graph with shapes, by ``widths``, in bits."""
    products = weighted_products(graph)
    macs = {node.label: macs_of(node, graph) or 0 for node, _ in products}
    total = max(1, sum(macs.values()))
    lanes = {label: max(1.0, LANES * count / total) for label, count in macs.items()}
    costs = {}
    for node, name in products:
        size, beside = graph.constants[name].size, lanes[node.label]
        costs[TensorKey("weights", node.label)] = {bits: memory_luts(size * bits) + beside * bits for bits in widths}
    behind = _readers_of_points(graph, points)
    for name in points:
        beside = sum(lanes.get(node.label, 1.0) for node in behind[name])
        kept = max((_held_numbers(graph, node, name) for node in behind[name]), default=1)
        tables = sum(facts_of(node).effect is Effect.BENDS for node in behind[name])
        costs[TensorKey("data", name)] = {
            bits: memory_luts(kept * bits) + beside * bits + tables * memory_luts(TABLE_ENTRY_BITS << bits)
            for bits in widths
        }
        in_logic = sum(lanes.get(node.label, 0.0) for node in behind[name])
        costs[TensorKey("data", name)][EXACT] = (
            memory_luts(kept * EXACT)
            + (beside + in_logic * TABLE_ENTRY_BITS) * EXACT  # a product of look-up tables
            + tables * memory_luts(EXACT << TABLE_ENTRY_BITS)  # a threshold for each result
        )
    return costs


def widest_operands(graph: Graph, points: Collection[str]) -> dict[str, int]:
    """Return the greatest width, in bits, of the points that a function reads, a product of two values, or a Softmax.

    A table has an entry for every integer of such a value.
    """
    behind, widest = _readers_of_points(graph, points), dict[str, int]()
    for name in points:
        if any(_is_function(node, graph) for node in behind[name]):
            widest[name] = MAX_OPERAND_BITS
        if any(facts_of(node).effect is Effect.NORMALIZES and facts_of(node).along_axis for node in behind[name]):
            widest[name] = MAX_EXPONENT_BITS
    return widest


def multiplies_values(graph: Graph, points: Collection[str]) -> bool:
    """Return whether a node multiplies two different values that have integers, such as a gate by what it gates.

    Also where a value is weighted by a Softmax, or divided by a norm.
    """
    point_of = {name: name for name in points}
    for node in graph.nodes:
        if facts_of(node).effect is Effect.KEEPS and node.inputs[0] in point_of:
            point_of |= dict.fromkeys(node.outputs, point_of[node.inputs[0]])
        factors = {point_of.get(name, "") for name in node.inputs}
        if facts_of(node).effect is Effect.SCALES and len(factors) > 1 and "" not in factors:
            return True
        if facts_of(node).effect is Effect.NORMALIZES and point_of.get(node.inputs[0]):
            return True
    return False


def _is_function(node: Node, graph: Graph) -> bool:
    effect, values = facts_of(node).effect, [name for name in node.inputs if name and name not in graph.constants]
    return effect is Effect.BENDS or (effect in LINEAR_EFFECTS - {Effect.ADDS} and len(values) > 1)


def _readers_of_points(graph: Graph, points: Collection[str]) -> Mapping[str, list[Node]]:
    """Return the nodes that read the integers of each point, behind data movement."""
    readers, costs = readers_of(graph.nodes), {}
    for point in points:
        names, nodes = [point], dict[int, Node]()
        for name in names:
            for node in readers.get(name, ()):
                if facts_of(node).effect is Effect.KEEPS:
                    names += [result for result in node.outputs if result not in names]
                else:
                    nodes[id(node)] = node
        costs[point] = list(nodes.values())
    return costs


def _held_numbers(graph: Graph, node: Node, point: str) -> int:
    """Return how many numbers of a point a reader holds: the rows below a window, or one place."""
    values = {**{value.name: value for value in graph.inputs}, **graph.values}
    shape = [size for size in values[point].shape or () if isinstance(size, int)] if point in values else []
    place = facts_of(node).weights
    kernel = graph.constants[node.inputs[place.at]].shape[2:] if _has_weights(node, graph) and place else ()
    channels = shape[1] if len(shape) > 2 else prod(shape[1:])
    along = shape[-1] if len(shape) > 3 and len(kernel) > 1 else 1
    rows = kernel[0] - 1 if len(kernel) > 1 else 0
    return max(1, channels * (rows * along + (kernel[-1] if kernel else 1)))


def _has_weights(node: Node, graph: Graph) -> bool:
    place = facts_of(node).weights
    return place is not None and node.inputs[place.at] in graph.constants
