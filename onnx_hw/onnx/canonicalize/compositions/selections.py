"""Comparisons, boolean operators and Where: steps of one tensor, or exact choices between tensors.

A condition is a tensor of the real numbers 0 and 1; a Cast makes the boolean values of those that nothing composes.
"""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, composed
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.facts import LINEAR_EFFECTS, Effect
from onnx_hw.onnx.operators.registry import INTERNAL, facts_of

ELEMENTWISE = LINEAR_EFFECTS | {Effect.BOUNDS, Effect.BENDS}
"""Effects of operators that compute a function of each number, where their other operands are constant."""


@composed(
    "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal", meaning="as steps of a function, or of a difference"
)
def compare(composer: Composer, node: Node) -> str:
    """Compose a comparison of real numbers."""
    composer.require(
        len(node.inputs) == 2 and all(map(composer.is_float, node.inputs)) and "axis" not in node.attributes
    )
    a, b = node.inputs
    match node.op_type:
        case "Greater":
            number = _exceeds(composer, a, b)
        case "Less":
            number = _exceeds(composer, b, a)
        case "GreaterOrEqual":
            number = _opposite(composer, _exceeds(composer, b, a))
        case "LessOrEqual":
            number = _opposite(composer, _exceeds(composer, a, b))
        case _:
            number = _opposite(composer, composer.add("Add", _exceeds(composer, a, b), _exceeds(composer, b, a)))
    return _boolean(composer, number)


@composed("And", "Or", "Xor", "Not", meaning="as products and differences of comparisons")
def boolean(composer: Composer, node: Node) -> str:
    """Compose a boolean operator: x·y, 1 − (1 − x)·(1 − y), |x − y| or 1 − x."""
    composer.require("axis" not in node.attributes)
    numbers = [_number(composer, name, "") for name in node.inputs]
    match node.op_type:
        case "And":
            number = composer.add("Mul", *numbers)
        case "Or":
            number = _opposite(composer, composer.add("Mul", *(_opposite(composer, number) for number in numbers)))
        case "Xor":
            number = composer.add("Abs", composer.add("Sub", *numbers))
        case _:
            number = _opposite(composer, numbers[0])
    return _boolean(composer, number)


@composed("Cast", meaning="")
def cast(composer: Composer, node: Node) -> str:
    """Compose a Cast of a comparison to real numbers."""
    source = composer.added.values.get(node.inputs[0])
    composer.require(source is not None and source.element_type == "bool" and composer.is_float(node.outputs[0]))
    return composer.add("Identity", _number(composer, node.inputs[0], node.outputs[0]))


@composed("Where", meaning="as a move of elements for a constant condition, else as a function or an exact choice")
def where(composer: Composer, node: Node) -> str:
    """Compose a choice between two tensors, constants or not."""
    composer.require(composer.is_float(node.outputs[0]))
    condition, *operands = node.inputs
    made = composer.producer(condition)
    if made is not None and made.op_type == "Identity":
        condition = made.inputs[0]  # a constant that a composition made just before
    mask, shape = composer.numbers(condition), composer.shape(node.outputs[0])
    if mask is not None:
        return _masked(composer, mask.astype(bool), operands, shape)
    number = _number(composer, condition, node.outputs[0])
    data = [name for name in (number, *operands) if not composer.is_constant(name)]
    constants = [composer.numbers(name) for name in operands]
    composer.require(all(array is None or np.isfinite(array).all() for array in constants))
    if len({_root(composer, name) for name in data}) == 1:
        x, y = (
            composer.add("Mul", share, name)
            for share, name in zip((number, _opposite(composer, number)), operands, strict=True)
        )
        return composer.add("Add", x, y)
    x, y = operands
    if constants[0] is not None:  # of the condition's own integers, where it is 1
        x = composer.add("Mul", number, x)
    if constants[1] is not None:
        y = composer.add("Mul", _opposite(composer, number), y)
    return composer.add("Select", number, x, y, domain=INTERNAL, version=1)


@composed("IsNaN", "IsInf", meaning="as False: integers always stand for numbers")
def is_nan(composer: Composer, node: Node) -> str:
    """Compose the tests for NaN and infinity, as exporters put behind a Softmax whose mask may hide a whole row."""
    shape = composer.shape(composer.real(node))
    return composer.added.constant(f"{node.outputs[0]}/false", np.zeros(shape, dtype=bool), "bool")


def _masked(composer: Composer, mask: np.ndarray, operands: list[str], shape: tuple[int, ...]) -> str:
    """Return the elements that a constant condition chooses; constants are added to zeros in their places."""
    if mask.all() or not mask.any():
        chosen = operands[0 if mask.all() else 1]
        composer.require(not composer.is_constant(chosen))
        of = composer.shape(chosen)
        return chosen if of == shape else composer.add("Expand", chosen, composer.lengths(shape))
    count, parts, origins, terms = 0, [], [], []
    for name in operands:
        array = composer.numbers(name)
        if array is None:
            of = composer.shape(name)
            parts.append(name)
            origins.append(np.broadcast_to(count + np.arange(prod(of)).reshape(of), shape))
            terms.append(np.zeros(shape))
            count += prod(of)
        else:
            origins.append(np.full(shape, -1))
            terms.append(np.broadcast_to(array, shape))
    composer.require(bool(parts))
    term, origin = np.where(mask, *terms), np.where(mask, *origins)
    composer.require(bool(np.isfinite(term).all()) and bool((origin >= 0).any()))
    moved = composer.gathered(parts, origin)
    return composer.add("Add", moved, composer.constant(term)) if term.any() else moved


def _exceeds(composer: Composer, a: str, b: str, *, or_equal: int = 0) -> str:
    return composer.add("Exceeds", a, b, domain=INTERNAL, version=1, or_equal=or_equal)


def _opposite(composer: Composer, number: str) -> str:
    """Return 1 minus a number; for a comparison that is the comparison of exchanged operands."""
    made = composer.producer(number)
    if made is not None and made.op_type == "Exceeds":
        return _exceeds(composer, *made.inputs[::-1], or_equal=1 - made.attributes["or_equal"])
    return composer.add("Sub", composer.constant(1.0, number), number)


def _boolean(composer: Composer, number: str) -> str:
    """Return the boolean value of a number, for readers without a composition."""
    return composer.add("Cast", number, to=BY_NAME["bool"].code)


def _number(composer: Composer, name: str, like: str) -> str:
    """Return the numbers 0 and 1 of a condition.

    Args:
        like: value of the numbers' element type; by default float32.
    """
    array = composer.numbers(name)
    of = composer.added.values.get(like)
    element_type = "float" if of is None else of.element_type
    if array is not None:
        return composer.added.constant(f"{name}/number", array.astype(np.float32), "float")
    made = composer.producer(name)
    if made is not None and made.op_type == "Cast" and composer.type_of(made.inputs[0]) == element_type:
        return made.inputs[0]
    return composer.add("Cast", name, to=BY_NAME[element_type].code)


def _root(composer: Composer, name: str) -> str:
    """Return the value of whose elements another one is a function, element by element: itself, if of no other."""
    node = composer.producer(name)
    if node is None or facts_of(node).effect not in ELEMENTWISE:
        return name
    roots = {_root(composer, source) for source in node.inputs if source and not composer.is_constant(source)}
    return roots.pop() if len(roots) == 1 else name
