"""Checks of the arrays that a caller gives for a graph's inputs, which are tagged with the types the model states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import did_you_mean
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Graph, Value
from onnx_hw.onnx.operators.dtypes import dtype_of_name, name_of_dtype, to_compute_dtype, to_model_dtype


def check_feeds(graph: Graph, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Check the feeds; return them in the dtypes that operators compute with.

    A tensor is given in its own dtype or, when numpy lacks that, in the one in which the model holds such tensors; a
    sequence as a list, an optional value as itself or None.

    Raises:
        UserError: every misfit at once: a name that is not an input, an input without array, an element type, a shape,
            two lengths for one dimension name.
    """
    problems: list[Problem] = []
    lengths: dict[str, int] = {}
    result: dict[str, Any] = {}
    inputs = {value.name: value for value in graph.inputs}
    for name in graph.defaults:
        if name in feeds and name in graph.values:
            inputs[name] = graph.values[name]
    for name in feeds:
        if name not in inputs:
            problems.append(_problem("feed-unknown", f"the model has no input `{name}`", did_you_mean(name, inputs)))
    for name, value in inputs.items():
        if name not in feeds:
            problems.append(_problem("feed-missing", f"input `{name}` must be given: {value!r}"))
        elif "(" in value.element_type:
            result[name] = _check_structure(value, feeds[name], problems)
        else:
            result[name] = _check_array(value, feeds[name], lengths, problems)
    if problems:
        raise UserError(*problems)
    return result


def _check_array(value: Value, array: Any, lengths: dict[str, int], problems: list[Problem]) -> Any:
    array = np.asarray(array) if isinstance(array, np.generic) else array
    if not isinstance(array, np.ndarray):
        problems.append(_problem("feed-type", f"input `{value.name}` must be an array, not {type(array).__name__}"))
        return array
    if array.dtype.kind in "UST":
        array = array.astype(object)
    dtype = dtype_of_name(value.element_type)
    if array.dtype == dtype:
        result = array
    elif array.dtype == BY_NAME[value.element_type].dtype:
        result = to_compute_dtype(array, value.element_type)
        if not np.array_equal(to_model_dtype(result), array, equal_nan=array.dtype.kind == "f"):
            message = f"input `{value.name}` must hold numbers of type {value.element_type} only"
            problems.append(_problem("feed-value", message, f"round it with .astype({dtype})"))
    else:
        try:
            actual = name_of_dtype(array.dtype)
        except KeyError:
            actual = str(array.dtype)
        message = f"input `{value.name}` must be of type {value.element_type}, not {actual}"
        problems.append(_problem("feed-type", message, f"convert it with .astype({dtype})"))
        result = array
    if value.shape is not None:
        problems.extend(_shape_problems(value.name, value.shape, array.shape, lengths))
    return result


def _shape_problems(
    name: str, declared: tuple[int | str | None, ...], actual: tuple[int, ...], lengths: dict[str, int]
) -> list[Problem]:
    """Report what is wrong with the shape of an array; ``lengths`` remembers the length of each dimension name."""
    fits = len(declared) == len(actual)
    for dimension, length in zip(declared, actual, strict=False):
        expected = lengths.setdefault(dimension, length) if isinstance(dimension, str) else dimension
        fits &= expected is None or expected == length
    if fits:
        return []
    known = [lengths.get(d, d) if isinstance(d, str) else "?" if d is None else d for d in declared]
    stacked = len(actual) == len(declared) + 1
    return [
        _problem(
            "feed-shape",
            f"input `{name}` must have shape [{', '.join(map(str, known))}], not {list(actual)}",
            "it seems to be a stack of samples; one call takes one sample" if stacked else "",
        )
    ]


def _check_structure(value: Value, actual: Any, problems: list[Problem]) -> Any:
    """Check the outer form of a sequence or optional, and nothing else of it."""
    optional = value.element_type.startswith("optional(")
    sequence = "sequence(" in value.element_type
    fits = (actual is None and optional) or isinstance(actual, list if sequence else np.ndarray)
    if not fits:
        form = "a list of arrays" if sequence else "an array"
        form += " or None" if optional else ""
        problems.append(_problem("feed-type", f"input `{value.name}` must be {form}, not {type(actual).__name__}"))
    return actual


def _problem(code: str, message: str, hint: str = "") -> Problem:
    return Problem(code, message, hint=hint, stage="arguments")
