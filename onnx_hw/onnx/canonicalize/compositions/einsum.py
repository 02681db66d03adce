"""Einsum, as what it is made of: sums over axes, moves of elements, and a product for each pair of operands."""

from __future__ import annotations

from math import prod

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, Need, composed
from onnx_hw.onnx.graph.model import Node

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Names of the axes of an ellipsis; an equation with capital letters and an ellipsis has no composition."""


@composed("Einsum", meaning="as Transpose, ReduceSum, MatMul and Mul", need=Need.ALWAYS)
def einsum(composer: Composer, node: Node) -> str:
    """Compose an equation without diagonals and without lengths that are broadcast, operand by operand."""
    composer.require(composer.is_float(node.outputs[0]))
    shapes = [composer.shape(name) for name in node.inputs]
    terms, result = _terms(composer, str(node.attributes["equation"]).replace(" ", ""), shapes)
    lengths: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        composer.require(len(set(term)) == len(term) == len(shape))
        for letter, length in zip(term, shape, strict=True):
            composer.require(lengths.setdefault(letter, length) == length)
    name, term = node.inputs[0], terms[0]
    name, term = _summed(composer, name, term, {*result, *"".join(terms[1:])})
    for k, (other, letters) in enumerate(zip(node.inputs[1:], terms[1:], strict=True), 1):
        kept = {*result, *"".join(terms[k + 1 :])}
        other, letters = _summed(composer, other, letters, kept | set(term))
        name, term = _summed(composer, name, term, kept | set(letters))
        name, term = _product(composer, (name, term), (other, letters), kept, lengths)
    composer.require(set(term) == set(result))
    return composer.transposed(name, [term.index(letter) for letter in result])


def _terms(composer: Composer, equation: str, shapes: list[tuple[int, ...]]) -> tuple[list[str], str]:
    """Return the letters of every operand and of the result, ellipses written out."""
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    composer.require(len(terms) == len(shapes))
    free = [len(shape) - len(term.replace("...", "")) for term, shape in zip(terms, shapes, strict=True)]
    outer = LETTERS[: max(free)]
    composer.require("..." not in left or left.replace("...", "") == left.replace("...", "").lower())
    if not arrow:
        letters = left.replace(",", "").replace("...", "")
        result = "..." + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    spelled = [term.replace("...", outer[len(outer) - n :]) for term, n in zip(terms, free, strict=True)]
    return spelled, result.replace("...", outer)


def _summed(composer: Composer, name: str, term: str, kept: set[str]) -> tuple[str, str]:
    """Add up the axes that nothing else has."""
    axes = [k for k, letter in enumerate(term) if letter not in kept]
    if not axes:
        return name, term
    total = composer.add("ReduceSum", name, composer.lengths(axes), keepdims=0)
    return total, "".join(letter for letter in term if letter in kept)


def _product(
    composer: Composer, left: tuple[str, str], right: tuple[str, str], kept: set[str], lengths: dict[str, int]
) -> tuple[str, str]:
    """Multiply two operands, and add up the axes that both have and nothing keeps."""
    (a, a_term), (b, b_term) = left, right
    shared = [letter for letter in a_term if letter in b_term]
    stack, inner = ("".join(letter for letter in shared if (letter in kept) == is_kept) for is_kept in (True, False))
    rows, columns = ("".join(letter for letter in term if letter not in shared) for term in (a_term, b_term))
    term = stack + rows + columns
    size = {group: prod(lengths[letter] for letter in group) for group in (stack, inner, rows, columns)}
    if not inner:  # numbers times numbers
        shape = [*(lengths[c] for c in stack + rows), *([1] * len(columns))]
        a = _grouped(composer, a, a_term, stack + rows, lengths, shape)
        shape = [*(lengths[c] for c in stack), *([1] * len(rows)), *(lengths[c] for c in columns)]
        return composer.add("Mul", a, _grouped(composer, b, b_term, stack + columns, lengths, shape)), term
    shapes = [[size[group] for group in groups] for groups in ((stack, rows, inner), (stack, inner, columns))]
    if size[stack] == 1:
        shapes = [shape[1:] for shape in shapes]
    a = _grouped(composer, a, a_term, stack + rows + inner, lengths, shapes[0])
    b = _grouped(composer, b, b_term, stack + inner + columns, lengths, shapes[1])
    product = composer.add("MatMul", a, b)
    return composer.add("Reshape", product, composer.lengths([lengths[letter] for letter in term])), term


def _grouped(composer: Composer, name: str, term: str, order: str, lengths: dict[str, int], shape: list[int]) -> str:
    """Return an operand with its axes in another order, in groups."""
    turned = composer.transposed(name, [term.index(letter) for letter in order])
    if shape == [lengths[letter] for letter in order]:
        return turned
    return composer.add("Reshape", turned, composer.lengths(shape))
