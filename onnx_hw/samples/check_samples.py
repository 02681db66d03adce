"""Check of samples, from Python or from a file, against the inputs of a graph.

An array has the input's own shape (one sample), or samples are stacked on a new first axis. Where the first axis of the
input is a batch of 1 or of no fixed size, it may be left out: an input [1,1,8,8] takes [1,1,8,8] and [1,8,8], and for n
samples [n,1,1,8,8] and [n,1,8,8]. All inputs have the same number of samples.

Numbers that another dtype holds as well are converted; where float64 is rounded, or a list says nothing of its dtype, a
note says so. Integers for an input of floats are refused: the scale that the model was trained with is unknown.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import did_you_mean, nearest, short, spelled_shape
from onnx_hw.onnx.graph.element_types import BY_NAME, ElementType
from onnx_hw.onnx.graph.model import MAX_AXES, Value
from onnx_hw.samples.samples import Note, Samples, frame_count
from onnx_hw.samples.spooled_array import MAX_BYTES_IN_MEMORY, SpooledArray

LABELS = "labels"
"""Name under which the right classes may stand among the arrays."""


OF_NUMBERS = (np.dtype(float), np.dtype(int), np.dtype(bool))
"""Dtypes that numpy gives to Python's numbers, which have none of their own."""


def check_samples(
    arrays: Mapping[str, ArrayLike] | ArrayLike,
    inputs: Sequence[Value],
    *,
    labels: ArrayLike | None = None,
    finite: bool = True,
    frames_of_a_sample: int = 1,
    classes: int | None = None,
    source: str = "samples",
) -> Samples:
    """Return samples in the dtypes and shapes of a graph's inputs, (count, *shape of the input).

    The Python interface calls it with what its user gave, the reader of files with the arrays of a file::

        samples = check_samples({"image": x_test}, model.graph.inputs, labels=y_test, source="inputs")
        samples = check_samples(x_test, model.graph.inputs)      # the only input needs no name

    ``samples.arrays`` go into ``flow`` and into a build; ``samples.notes`` are pairs (message, hint) for a warning.
    ``input_data`` in ``frames.py`` does this for files too, and for a model of any batch.

    Args:
        arrays: arrays by graph input, or the array of the only input; an array is what ``numpy.asarray`` takes. The key
            ``labels`` may hold the labels, unless an input has that name.
        inputs: the graph's inputs; unknown dimensions (None, or a name) fit any number.
        labels: right class of each sample, (count,) integers.
        finite: whether NaN and infinities are refused: no integer stands for them, and they would spoil every range.
        frames_of_a_sample: number of labels for each sample.
        classes: number of classes, which labels count from 0; None where that is unknown.
        source: name of the arrays in errors, such as the path of the file or the argument's name.

    Raises:
        UserError: stage ``samples``; everything that does not fit.
    """
    problems: list[Problem] = []
    notes: list[Note] = []
    named = _by_name(arrays, inputs, source)
    names = [value.name for value in inputs]
    stacked: dict[str, np.ndarray] = {}
    for value in inputs:
        where = f'{source}["{value.name}"]'
        if value.name not in named:
            problems.append(_missing(value, named, names, where))
            continue
        try:
            stacked[value.name], notes_of_array = check_array(named[value.name], value, where, finite=finite)
            notes += notes_of_array
        except UserError as error:
            problems.extend(error.problems)
    for key in named:
        if key not in names and key != LABELS and all(name in named for name in names):
            known = ", ".join(short(name) for name in names[:8])
            hint = f"leave it out: the graph has {known}; right classes are `{LABELS}`"
            if nearest(str(key), [LABELS]):
                hint = did_you_mean(str(key), [LABELS])
            problems.append(_problem("samples-unknown", f"the graph has no input {short(str(key))}", source, hint))
    counts = {name: len(array) for name, array in stacked.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{short(name)} has {count}" for name, count in counts.items())
        message = f"every input must have the same number of samples; {listed}"
        problems.append(_problem("samples-count", message, source, "leave out the samples that lack a partner"))
    count = frame_count(stacked)
    if LABELS in named and LABELS not in names:
        if labels is not None:
            message = "the labels must be given once, not as an argument and among the arrays"
            problems.append(_problem("samples-labels", message, f'{source}["{LABELS}"]', "leave one of them out"))
        labels = named[LABELS]
    classes_of_samples = None
    if labels is not None and (counts or not inputs):
        try:
            classes_of_samples = check_labels(labels, count * frames_of_a_sample, classes, f'{source}["{LABELS}"]')
        except UserError as error:
            problems.extend(error.problems)
    if problems:
        raise UserError(*problems)
    return Samples(stacked, count, classes_of_samples, tuple(notes))


def check_array(given: ArrayLike, value: Value, where: str, *, finite: bool = True) -> tuple[np.ndarray, list[Note]]:
    """Return the array for one graph input, (samples, *shape of the input), in the input's dtype; and what was changed.

    Args:
        given: array, list or tensor.
        value: the graph input.
        where: place of the array, for errors.
        finite: whether NaN and infinities are refused.

    Raises:
        UserError: type and shape that do not fit, both at once; or a number that is not finite.
    """
    array = _array_of(given, where)
    element = BY_NAME.get(value.element_type)
    if element is None:
        message = f"an input must be a tensor to be given as samples; {short(value.name)} is {value.element_type}"
        raise UserError(_problem("samples-dtype", message, where, "`onnx-hw run --engine reference` needs tensors too"))
    of_list = not hasattr(given, "dtype") and array.dtype in OF_NUMBERS
    converted = _in_dtype(array, value, element, where, of_list=of_list)
    stacked = _stacked(array, value, where)
    problems = [part for part in (converted, stacked) if isinstance(part, Problem)]
    if isinstance(converted, Problem) or isinstance(stacked, Problem):
        raise UserError(*problems)
    numbers, notes = converted
    result = numbers.reshape(stacked.shape)
    if finite and (index := _first_not_finite(result)):
        spelled = ", ".join(map(str, index))
        message = f"every value must be a finite {result.dtype}, not {stacked[index]} as at [{spelled}]"
        hint = "leave the sample out, or replace the value: np.nan_to_num(array)"
        raise UserError(_problem("samples-finite", message, where, hint))
    return result, notes


def check_labels(given: ArrayLike, count: int, classes: int | None, where: str) -> np.ndarray:
    """Return the right classes, (count,) integers.

    Args:
        given: integers, one per sample.
        classes: number of classes; None where it is unknown.
        where: place of the labels, for the error.

    Raises:
        UserError: they are not integers, not one per sample, or not within the classes.
    """
    labels = _array_of(given, where)
    hint = ""
    if classes is not None and labels.size == count * classes and count:
        hint = "one-hot rows become class numbers by labels.argmax(axis=1)"
    if labels.dtype.kind not in "iu":
        message = f"labels must be integers (class numbers), not {labels.dtype}"
        raise UserError(_problem("samples-labels", message, where, hint or "count the classes from 0: 0, 1, 2 ..."))
    if labels.size != count:
        message = f"there must be one label per sample, {count}, not {labels.size}"
        raise UserError(_problem("samples-labels", message, where, hint or "give labels and samples in the same order"))
    if count and (labels.min() < 0 or (classes is not None and labels.max() >= classes)):
        wrong = labels.min() if labels.min() < 0 else labels.max()
        numbers = "0 or more" if classes is None else f"within 0 .. {classes - 1}, the elements of the first output"
        hint = "if your classes begin with 1: labels - 1" if labels.min() == 1 else "count the classes from 0"
        raise UserError(_problem("samples-labels", f"a label must be {numbers}, not {wrong}", where, hint))
    return labels.reshape(-1)


def _by_name(
    arrays: Mapping[str, ArrayLike] | ArrayLike, inputs: Sequence[Value], source: str
) -> Mapping[str, ArrayLike]:
    if isinstance(arrays, Mapping):
        return arrays
    if len(inputs) == 1:
        return {inputs[0].name: arrays}
    listed = ", ".join(f"{short(value.name)} {spelled_input(value)}" for value in inputs)
    message = (
        f"a single array is for a model with one input; this one has {len(inputs)}{': ' if inputs else ''}{listed}"
    )
    example = "{" + ", ".join(f'"{value.name}": ...' for value in inputs) + "}"
    raise UserError(_problem("samples-format", message, source, f"give a dict by input name: {example}"))


def spelled_input(value: Value) -> str:
    """Return type and shape of a graph input, such as ``float [1,1,8,8]``."""
    return f"{value.element_type} {spelled_shape(value.shape)}" if value.shape is not None else value.element_type


def _missing(value: Value, named: Mapping[str, ArrayLike], names: Sequence[str], where: str) -> Problem:
    message = f"there must be an array for the graph input {short(value.name)}, {spelled_input(value)}"
    unknown = [str(key) for key in named if key not in names and key != LABELS]
    hint = "give an array of that name"
    if unknown:
        hint = f"{listed_names('there is the key', unknown)}; name it as the input"
        if len(unknown) > 1 and LABELS not in named:
            hint = f"{hint}, and right classes `{LABELS}`"
    return _problem("samples-missing", message, where, hint)


def listed_names(what: str, names: Sequence[str]) -> str:
    """Return names behind a singular noun that gets its plural: ``there are the keys `a`, `b```."""
    many = len(names) > 1
    what = what.replace("there is", "there are") if many else what
    return f"{what}{'s' if many else ''} {', '.join(map(short, names[:8]))}{' ...' if len(names) > 8 else ''}"


def _array_of(given: ArrayLike, where: str) -> np.ndarray:
    if given is None or isinstance(given, str | bytes | os.PathLike):
        message = f"there must be an array of numbers, not {given!r:.80}"
        raise UserError(_problem("samples-format", message, where, 'np.load("x.npy") reads an array from a file'))
    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        message = f"there must be an array of numbers, not {type(given).__name__}; numpy says: {error}"
        hint = "rows of a list must be equally long; a torch tensor becomes an array by .detach().cpu().numpy()"
        raise UserError(_problem("samples-format", message, where, hint)) from None


def _in_dtype(
    array: np.ndarray, value: Value, element: ElementType, where: str, *, of_list: bool
) -> tuple[np.ndarray, list[Note]] | Problem:
    """Return the numbers in the input's dtype and what is to be said about it, or why they cannot be converted."""
    if element.narrow is not None and array.dtype == element.narrow:
        array = array.astype(element.dtype)
    kind, name, dtype = array.dtype.kind, short(value.name), np.dtype(element.dtype)
    if kind in "iu" and dtype.kind in "iu":
        return _in_integers(array, element, name, where)
    if array.dtype == dtype:
        return array, []
    if dtype.kind == "f" and kind in "iub" and not of_list:
        low, high = (array.min(), array.max()) if array.size else (0, 0)
        message = f"{name} takes real numbers; {array.dtype} leaves open which ones its {low} .. {high} stand for"
        hint = f"scale them as in training, such as array.astype(np.{dtype}) / 255; if they stand for themselves, "
        return _problem("samples-dtype", message, where, f"{hint}array.astype(np.{dtype})")
    if dtype.kind == "O" and kind in "USTO":
        return array.astype(object), []
    exact = {"f": "fiub", "c": "fiubc", "b": "b", "i": "b", "u": "b"}.get(dtype.kind, "")
    if kind not in exact:
        message = f"the dtype must be {dtype} ({value.element_type} in the model), not {array.dtype}"
        hint = f"array.astype(np.{dtype})"
        if dtype.kind in "iu" and kind == "f":
            hint = f"{hint} for integers; real numbers are divided by their scale and rounded first"
        return _problem("samples-dtype", message, where, hint)
    notes = []
    if of_list:
        notes = [(f"{name} came as a list, and was taken as {dtype}", f"np.array(list, np.{dtype}) says so")]
    elif array.dtype.itemsize > dtype.itemsize:
        notes = [
            (f"{name} came as {array.dtype}, and was rounded to {dtype}", f"array.astype(np.{dtype}) does the same")
        ]
    return _converted(array, dtype), notes


def _in_integers(
    array: np.ndarray, element: ElementType, name: str, where: str
) -> tuple[np.ndarray, list[Note]] | Problem:
    """Return integers in the input's dtype; what fits changes no value, and needs no note."""
    signed = element.dtype.kind == "i"
    least, greatest = (
        (-(1 << element.bits - 1), (1 << element.bits - 1) - 1) if signed else (0, (1 << element.bits) - 1)
    )
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    if low < least or high > greatest:
        message = f"{name} takes {element.name}, {least} .. {greatest}, not {low if low < least else high}"
        return _problem("samples-dtype", message, where, f"np.clip(array, {least}, {greatest}), or another scale")
    return (array if array.dtype == element.dtype else _converted(array, np.dtype(element.dtype))), []


def _converted(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the array in another dtype; what is large is converted sample by sample, and stays on disk."""
    with np.errstate(over="ignore"):
        if not array.ndim or array.size * dtype.itemsize <= MAX_BYTES_IN_MEMORY:
            return array.astype(dtype)
        with SpooledArray() as numbers:
            for sample in array:
                numbers.add(sample.astype(dtype).tobytes())
            return numbers.of(dtype, array.shape)


def _stacked(array: np.ndarray, value: Value, where: str) -> np.ndarray | Problem:
    """Return the array with samples on its first axis, or what is wrong with its shape."""
    if value.shape is None:
        message = f"the model must state the shape of {short(value.name)}; without it the number of samples is unknown"
        return _problem("samples-shape", message, where, "give the graph input a shape")
    if len(value.shape) > MAX_AXES:
        message = f"an input must have at most {MAX_AXES} axes, so that samples can be stacked, not {len(value.shape)}"
        return _problem("samples-shape", message, where, "reshape inside the model")
    if array.shape[:1] == (0,):
        message = "there must be at least one sample, but the array is empty"
        return _problem("samples-count", message, where, f"give an array {spelled_shape(('n', *value.shape))}")
    batched = _takes_samples(value.shape)
    if batched and _fits(array.shape, (None, *value.shape[1:])):
        stacked = array[:, np.newaxis]
    elif _fits(array.shape, value.shape):
        stacked = array[np.newaxis]
    elif array.ndim == len(value.shape) + 1 and _fits(array.shape[1:], value.shape):
        stacked = array
    elif batched and _fits(array.shape, value.shape[1:]):
        stacked = array[np.newaxis, np.newaxis]
    else:
        return _wrong_shape(array.shape, value.shape, where)
    return stacked


def _first_not_finite(stacked: np.ndarray) -> tuple[int, ...]:
    """Return the index of the first value that is not finite; empty where all are finite."""
    if stacked.dtype.kind in "fc":
        for k, sample in enumerate(stacked):  # sample by sample: a mask of the whole array might not fit in memory
            if not (finite := np.isfinite(sample)).all():
                return k, *map(int, np.argwhere(~finite)[0])
    return ()


def _takes_samples(pattern: Sequence[int | str | None]) -> bool:
    """Return whether the first axis is a batch that holds a single sample."""
    return bool(pattern) and (pattern[0] == 1 or not isinstance(pattern[0], int))


def _fits(shape: Sequence[int], pattern: Sequence[int | str | None]) -> bool:
    return len(shape) == len(pattern) and all(
        not isinstance(length, int) or size == length for size, length in zip(shape, pattern, strict=True)
    )


def _wrong_shape(shape: tuple[int, ...], pattern: tuple[int | str | None, ...], where: str) -> Problem:
    one_sample = spelled_shape(pattern)
    stacked = f"{spelled_shape(('n', *pattern[1:]))} or " if _takes_samples(pattern) else ""
    stacked += spelled_shape(("n", *pattern))
    message = f"the shape must be {one_sample}, or {stacked} for n samples, not {spelled_shape(shape)}"
    return _problem("samples-shape", message, where, _way_to_shape(shape, pattern))


def _way_to_shape(shape: tuple[int, ...], pattern: tuple[int | str | None, ...]) -> str:
    """Return the call of numpy that may bring an array into the shape of an input, or the advice to resize."""
    frame = [length for length in (pattern[1:] if _takes_samples(pattern) else pattern) if isinstance(length, int)]
    if len(frame) < len(pattern) - 1:
        return "bring it into this shape first, by np.reshape or np.transpose"
    axes = shape[-len(frame) :] if frame else ()
    if len(axes) > 1 and sorted(axes) == sorted(frame) and list(axes) != frame:
        front = len(shape) - len(axes)
        order = [axis + front for axis in _order_of(axes, frame)]
        return f"the axes are in another order: array.transpose({', '.join(map(str, [*range(front), *order]))})"
    size = int(np.prod(shape))
    if size and size % max(int(np.prod(frame)), 1) == 0:
        return f"if the elements are in the input's order: array.reshape({', '.join(map(str, (-1, *frame)))})"
    return "resize or crop the samples first"


def _order_of(axes: Sequence[int], frame: Sequence[int]) -> list[int]:
    """Return the axis to take for each length of ``frame``; equal lengths keep their order."""
    free = list(range(len(axes)))
    order = []
    for length in frame:
        axis = next(axis for axis in free if axes[axis] == length)
        free.remove(axis)
        order.append(axis)
    return order


def _problem(code: str, message: str, where: str, hint: str = "") -> Problem:
    return Problem(code, message, where, hint, stage="samples")
