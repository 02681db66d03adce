"""Samples in npz files: one array per graph input or output, named as in the model.

A folder may hold several files, and files of other formats (``sample_folder.py``).

An array has the input's own shape (one sample), or samples are stacked on a new first axis, or on the input's own one
where that is a batch of 1 or of no fixed size: an input [1,1,8,8] takes [1,1,8,8], [n,1,1,8,8] or [n,1,8,8]. All inputs
of a file hold the same number of samples. The key ``labels`` may hold one integer per sample, the right class; it is
used to state accuracies.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import did_you_mean, printable
from onnx_hw.onnx.check.supported import MAX_AXES
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Value
from onnx_hw.samples.npz import read_npz
from onnx_hw.samples.sample_folder import NOT_AN_ARRAY, read_folder

LABELS = "labels"
GIT_LFS = b"version https://git-lfs"


@dataclass(frozen=True)
class Samples:
    """Samples of one file.

    Attributes:
        arrays: samples by graph input, (count, *shape of the input), in the input's dtype.
        count: number of samples, at least 1.
        labels: right classes, (count,) integers, or None.
    """

    arrays: Mapping[str, np.ndarray]
    count: int
    labels: np.ndarray | None = None

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        """Iterate over the samples, each by graph input in the input's own shape."""
        return (one_frame(self.arrays, k) for k in range(self.count))

    def __repr__(self) -> str:
        named = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self.arrays.items())
        return f"Samples({self.count}: {printable(named)}{', with labels' if self.labels is not None else ''})"


def frame_count(arrays: Mapping[str, np.ndarray]) -> int:
    """Return the number of samples in arrays by graph input; 1 for a graph without inputs, which runs once."""
    return len(next(iter(arrays.values()))) if arrays else 1


def one_frame(arrays: Mapping[str, np.ndarray], k: int) -> dict[str, np.ndarray]:
    """Return sample ``k`` by graph input, in the input's own shape."""
    return {name: np.asarray(array[k]) for name, array in arrays.items()}


def stack_outputs(results: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Return the outputs of all samples by name, stacked on a new first axis.

    Raises:
        UserError: stage ``samples``; an output is not a tensor, has no axis to spare for numpy's limit, or has
            different shapes for different samples.
    """
    problems: list[Problem] = []
    arrays = {}
    for name in results[0]:
        parts = [result[name] for result in results]
        where = f'output "{name}"'
        if not all(isinstance(part, np.ndarray) for part in parts):
            message = f"every output must be a tensor; `{name}` is {type(parts[0]).__name__}"
            problems.append(_problem("samples-output", message, where))
        elif parts[0].ndim > MAX_AXES:
            message = f"an output must have at most {MAX_AXES} axes, not {parts[0].ndim}"
            problems.append(_problem("samples-output", message, where))
        elif differing := [part.shape for part in parts if part.shape != parts[0].shape]:
            message = f"an output must have one shape for all samples, not {_spelled(parts[0].shape)} and"
            message = f"{message} {_spelled(differing[0])}"
            problems.append(_problem("samples-output", message, where, "give one sample at a time"))
        else:
            arrays[name] = np.stack(parts)
    if problems:
        raise UserError(*problems)
    return arrays


def read_samples(
    path: Path,
    inputs: Sequence[Value],
    *,
    finite: bool = True,
    frames_of_a_sample: int = 1,
    classes: int | None = None,
) -> Samples:
    """Read and check a file against the inputs of a graph.

    Args:
        path: the npz file, or a folder.
        inputs: the graph's inputs; unknown dimensions (None, or a name) fit any number.
        finite: whether NaN and infinities are refused: no integer stands for them, and they would spoil every range.
        frames_of_a_sample: number of labels for each sample.
        classes: number of classes, which labels count from 0; None where that is unknown.

    Raises:
        UserError: stage ``samples``; all faults of the file.
    """
    if os.path.isdir(path):  # false also where the path is too long

        def read_file(file: Path) -> tuple[Mapping[str, np.ndarray], np.ndarray | None]:
            single = read_samples(file, inputs, finite=finite, frames_of_a_sample=frames_of_a_sample, classes=classes)
            return single.arrays, single.labels

        stacked, labels = read_folder(
            path, inputs, read_file, lambda array, value, where: _stacked(array, value, where, finite)
        )
        return Samples(stacked, frame_count(stacked), labels)
    stored = _load(path)
    if inputs and not stored:
        message = "the npz archive must hold at least one array, but it is empty"
        raise UserError(_problem("samples-format", message, str(path)))
    problems: list[Problem] = []
    arrays: dict[str, np.ndarray] = {}
    names = [value.name for value in inputs]
    for value in inputs:
        where = f'{path}["{value.name}"]'
        if value.name not in stored:
            unknown = [key for key in stored if key not in names]
            hint = f"{_listed('the file has the key', unknown)}; name it as the input" if unknown else ""
            problems.append(
                _problem("samples-missing", f"there must be an array for the graph input `{value.name}`", where, hint)
            )
            continue
        checked = _stacked(stored[value.name], value, where, finite)
        if isinstance(checked, Problem):
            problems.append(checked)
        else:
            arrays[value.name] = checked
    for key in stored:
        if key not in names and key != LABELS and all(name in stored for name in names):
            hint = did_you_mean(key, [*names, LABELS])
            problems.append(_problem("samples-unknown", f"the graph has no input `{key}`", f'{path}["{key}"]', hint))
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"`{name}` has {count}" for name, count in counts.items())
        problems.append(
            _problem("samples-count", f"every input must have the same number of samples; {listed}", str(path))
        )
    count = frame_count(arrays)
    labels = stored.get(LABELS) if LABELS not in names else None
    if labels is not None and (counts or not inputs):
        problems.extend(_wrong_labels(labels, count * frames_of_a_sample, classes, path))
    if problems:
        raise UserError(*problems)
    return Samples(arrays, count, None if labels is None else labels.reshape(-1))


def write_samples(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name, each with its samples on the first axis. The file appears whole or not at all.

    Raises:
        UserError: the file cannot be written.
    """
    if not path.name or path.is_dir():
        raise UserError(_problem("samples-write", "the outputs must go into a file, not a folder", str(path)))
    aside = not os.path.exists(path) or os.path.isfile(path)  # a device is written, not replaced
    unfinished = path.with_name(f".{os.getpid()}.npz") if aside else path
    try:
        # np.savez takes the names as keywords, and `file` is a name an output may have.
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in arrays.items():
                plain = array.astype(str) if array.dtype == object else array  # strings
                member_name = name.replace("\0", "\\x00") + ".npy"  # zipfile would cut the name there
                with archive.open(member_name, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, plain, allow_pickle=False)
        if aside:
            unfinished.replace(path)
    except struct.error:
        message = "the outputs cannot be written: a name is too long for a zip archive"
        raise UserError(_problem("samples-write", message, str(path))) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(_problem("samples-write", f"the outputs cannot be written: {reason}", str(path))) from None
    finally:
        if aside:
            with suppress(OSError):
                unfinished.unlink()


def _load(path: Path) -> dict[str, np.ndarray]:
    where = str(path)
    try:
        with path.open("rb") as file:
            _require_archive(file.read(len(GIT_LFS)), path)
            file.seek(0)
            stored, others = read_npz(file)
    except UserError:
        raise
    except FileNotFoundError:
        neighbours = [entry.name for entry in path.parent.glob("*.npz")] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, neighbours)
        raise UserError(_problem("samples-missing-file", "there is no such file", where, hint)) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(_problem("samples-read", f"the file cannot be read: {reason}", where)) from None
    except NOT_AN_ARRAY as error:
        hint = 'write it with np.savez("samples.npz", name=array); arrays of Python objects cannot be read'
        message = f"the file must be an npz archive of numpy arrays; numpy says: {error or type(error).__name__}"
        raise UserError(_problem("samples-format", message, where, hint)) from None
    if others:
        hint = 'write it with np.savez("samples.npz", name=array)'
        message = f"the npz archive must hold only numpy arrays; {_listed('it has the other file', others)}"
        raise UserError(_problem("samples-format", message, where, hint))
    return stored


def _require_archive(start: bytes, path: Path) -> None:
    """Raise an error for a file that does not begin like an archive; say what it is instead.

    Args:
        start: first bytes of the file.
        path: the file, for the error.
    """
    if start.startswith(b"PK"):
        return
    if start.startswith(npy.MAGIC_PREFIX):
        hint = 'one array per graph input, by name: np.savez("samples.npz", image=images)'
        message = "the file must be an npz archive, not a single npy array"
        raise UserError(_problem("samples-format", message, str(path), hint))
    what, hint = f"it begins with {start[:8]!r}", 'write it with np.savez("samples.npz", name=array)'
    if not start:
        what = "it is empty"
    if start == GIT_LFS:
        what, hint = "it is a Git LFS pointer", "run `git lfs pull` in the repository it comes from"
    message = f"the file must be an npz archive of numpy arrays; {what}"
    raise UserError(_problem("samples-format", message, str(path), hint))


def _stacked(array: np.ndarray, value: Value, where: str, finite: bool) -> np.ndarray | Problem:
    """Return the array with samples on its first axis, or what is wrong with it."""
    dtype = BY_NAME[value.element_type].dtype
    if array.dtype != dtype:
        message = f"the dtype must be {dtype} ({value.element_type} in the model), not {array.dtype}"
        return _problem("samples-dtype", message, where, f"array.astype(np.{dtype})")
    if value.shape is None:
        message = f"the model must state the shape of `{value.name}`; without it the number of samples is unknown"
        return _problem("samples-shape", message, where, "give the graph input a shape")
    if len(value.shape) > MAX_AXES:
        message = f"an input must have at most {MAX_AXES} axes, so that samples can be stacked, not {len(value.shape)}"
        return _problem("samples-shape", message, where)
    if _takes_samples(value.shape) and _fits(array.shape, (None, *value.shape[1:])):
        stacked = array[:, np.newaxis]
    elif _fits(array.shape, value.shape):
        stacked = array[np.newaxis]
    elif array.ndim == len(value.shape) + 1 and _fits(array.shape[1:], value.shape):
        stacked = array
    else:
        return _wrong_shape(array.shape, value.shape, where)
    if not len(stacked):
        return _problem("samples-count", "there must be at least one sample, but the array is empty", where)
    if finite and (index := _first_not_finite(stacked)):
        spelled = ", ".join(map(str, index))
        message = f"every value must be finite, not {stacked[index]} as at [{spelled}]"
        return _problem("samples-finite", message, where)
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
    one_sample = _spelled(pattern)
    stacked = f"{_spelled(('n', *pattern[1:]))} or " if _takes_samples(pattern) else ""
    stacked += _spelled(("n", *pattern))
    message = f"the shape must be {one_sample}, or {stacked} for n samples, not {_spelled(shape)}"
    hint = ""
    if sorted(shape[-len(pattern) :]) == sorted(d for d in pattern if isinstance(d, int)):
        hint = "the axes are in another order: np.transpose"
    return _problem("samples-shape", message, where, hint)


def _wrong_labels(labels: np.ndarray, count: int, classes: int | None, path: Path) -> Iterator[Problem]:
    where = f'{path}["{LABELS}"]'
    if labels.dtype.kind not in "iu":
        yield _problem("samples-labels", f"labels must be integers (class numbers), not {labels.dtype}", where)
    elif labels.size != count:
        yield _problem("samples-labels", f"there must be one label per sample, {count}, not {labels.size}", where)
    elif labels.min() < 0 or (classes is not None and labels.max() >= classes):
        wrong = labels.min() if labels.min() < 0 else labels.max()
        numbers = "0 or more" if classes is None else f"within 0 .. {classes - 1}, the elements of the first output"
        yield _problem("samples-labels", f"a label must be {numbers}, not {wrong}", where)


def _spelled(shape: Sequence[int | str | None]) -> str:
    return f"[{','.join('?' if size is None else str(size) for size in shape)}]"


def _listed(what: str, names: list[str]) -> str:
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(f'`{name}`' for name in names)}"


def _problem(code: str, message: str, where: str, hint: str = "") -> Problem:
    return Problem(code, message, where, hint, stage="samples")
