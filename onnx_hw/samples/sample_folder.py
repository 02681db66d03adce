"""Samples in a folder of files, taken in the order of the files' names.

    *.npz         as ``read_samples.py`` describes, with or without labels (all files, or none)
    *.npy         samples of the only graph input, one or several
    *.png         an image for that input: [height, width, channels], or the channels first, as the input has them
    *.wav         a sound for that input: PCM samples of all channels
    samples.toml  the real numbers that stored ones stand for: real = scale * stored + offset, one of each or one per
                  channel

An input of integers takes pixels and sounds as they are stored. For an input of floats ``samples.toml`` states the
scale; without it sounds lie in -1 .. 1, and pixels are refused, since the range that the model was trained with is
unknown.
"""

from __future__ import annotations

import lzma
import struct
import wave
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnx_hw.messages.errors import Problem, UserError, user_error
from onnx_hw.messages.text import short
from onnx_hw.messages.toml import read_toml
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Value
from onnx_hw.samples.concatenate import SampleConcatenation
from onnx_hw.samples.png import read_png
from onnx_hw.samples.samples import Note, Samples

DESCRIPTION = "samples.toml"
MAX_DESCRIPTION_BYTES = 1 << 16
MAX_IMAGE_BYTES = 1 << 28  # of a PNG file
MAX_FAULTS = 10
"""Number of faults in an error; further files may well have the same ones."""

ReadFile = Callable[[Path], Samples]
"""Function that reads an npz file."""

CheckArray = Callable[[np.ndarray, Value, str], tuple[np.ndarray, list[Note]]]
"""Function that returns an array for a graph input with samples on the first axis, and what was converted.

Its third argument says where the array is, for its errors.
"""

NOT_AN_ARRAY = (
    *(ValueError, TypeError, LookupError, ArithmeticError, EOFError, RuntimeError, MemoryError, SyntaxError),
    *(AttributeError, struct.error, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)
"""Exceptions of numpy, zipfile and the decompressors for bytes that are not what they should be."""


@dataclass(frozen=True)
class Scaling:
    """Scaling of stored numbers: real = scale * stored + offset.

    Attributes:
        scale, offset: one number, or one per channel.
    """

    scale: np.ndarray
    offset: np.ndarray


def read_folder(
    folder: Path, inputs: Sequence[Value], read_file: ReadFile, check: CheckArray
) -> tuple[dict[str, np.ndarray], np.ndarray | None, tuple[Note, ...]]:
    """Read all samples of a folder, one file at a time.

    Args:
        folder: the folder.
        inputs: the graph's inputs.
        read_file: reads npz files.
        check: checks arrays of other files.

    Returns:
        Samples by graph input, stacked on the first axis; their labels, or None; and what was converted, each once.

    Raises:
        UserError: stage ``samples``; up to ``MAX_FAULTS`` faults of the files, or the fault of the folder.
    """
    paths = _paths(folder)
    scaling = _scaling(folder / DESCRIPTION)
    problems: list[Problem] = []
    labels: list[np.ndarray | None] = []
    notes: dict[Note, None] = {}
    with SampleConcatenation([value.name for value in inputs]) as samples:
        for path in paths:
            try:
                if path.suffix.lower() == ".npz":
                    part = read_file(path)
                else:
                    array, notes_of_file = _single(path, inputs, scaling, check)
                    part = Samples({inputs[0].name: array}, len(array), None, tuple(notes_of_file))
                samples.add(path, part.arrays)
            except UserError as error:
                problems.extend(error.problems)
                if len(problems) >= MAX_FAULTS:
                    break
            else:
                labels.append(part.labels)
                notes |= dict.fromkeys(part.notes)
        if problems:
            raise UserError(*problems[:MAX_FAULTS])
        stacked = samples.arrays()
    known = [file_labels for file_labels in labels if file_labels is not None]
    if 0 < len(known) < len(labels):
        lacking = next(path for path, file_labels in zip(paths, labels, strict=True) if file_labels is None)
        message = "either all files of a folder must have labels, or none of them"
        raise UserError(
            _problem("samples-labels", message, str(lacking), "add `labels` here, or remove them from the others")
        )
    return stacked, np.concatenate(known) if known else None, tuple(notes)


def _paths(folder: Path) -> list[Path]:
    try:
        entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(_problem("samples-read", f"the folder cannot be read: {reason}", str(folder))) from None
    endings = (".npz", ".npy", ".png", ".wav")
    others = [e for e in entries if e.name != DESCRIPTION and (e.suffix.lower() not in endings or not e.is_file())]
    if others:
        message = f"a folder of samples must hold only files of {', '.join(endings)} and {DESCRIPTION}"
        problems = [_problem("samples-folder", message, str(entry)) for entry in others[:MAX_FAULTS]]
        raise UserError(*problems)
    paths = [entry for entry in entries if entry.name != DESCRIPTION]
    if not paths:
        raise UserError(_problem("samples-folder", f"there must be a file of {', '.join(endings)}", str(folder)))
    return paths


def _scaling(path: Path) -> Scaling | None:
    """Return the scaling in ``samples.toml``; None where there is no such file.

    Raises:
        UserError: what is wrong with the file.
    """

    def refused(must_be: str) -> UserError:
        return user_error("samples-scale", f"`{DESCRIPTION}` must be {must_be}", where=str(path), stage="samples")

    if not path.exists():
        return None
    stored = read_toml(path, MAX_DESCRIPTION_BYTES, refused)
    numbers = {}
    for name, usual in (("scale", 1.0), ("offset", 0.0)):
        entry: Any = stored.pop(name, usual)
        each = entry if isinstance(entry, list) and entry else [entry]
        if not all(isinstance(n, (int, float)) and not isinstance(n, bool) and abs(n) < 1e30 for n in each):
            raise refused(f"of finite numbers; `{name}` is one, or a list of one per channel")
        numbers[name] = np.array(each, dtype=np.float64)
    if stored:
        raise refused(f"of `scale` and `offset` only, not {', '.join(map(short, stored))}")
    return Scaling(numbers["scale"], numbers["offset"])


def _single(
    path: Path, inputs: Sequence[Value], scaling: Scaling | None, check: CheckArray
) -> tuple[np.ndarray, list[Note]]:
    """Return the samples of a file that does not name the input, (samples, *shape of the only input), with notes.

    Raises:
        UserError: what is wrong with the file.
    """
    if len(inputs) != 1 or inputs[0].shape is None:
        message = f"a model must have one input of known shape for {path.suffix} files; this one has {len(inputs)}"
        raise UserError(_problem("samples-format", message, str(path), "give npz files, one array per input"))
    (value,) = inputs
    unit: float | None = None
    try:
        if path.suffix.lower() == ".npy":
            array = _stored(path)
        elif path.suffix.lower() == ".png":
            if path.stat().st_size > MAX_IMAGE_BYTES:
                raise ValueError(f"a PNG of at most {MAX_IMAGE_BYTES >> 20} MiB")
            array = _arranged(_real(read_png(path.read_bytes()), unit, value, scaling, path), value, path)
        else:
            array, unit = _sound(path)
            array = _arranged(_real(array, unit, value, scaling, path), value, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(_problem("samples-read", f"the file cannot be read: {reason}", str(path))) from None
    except ValueError as error:
        raise UserError(_problem("samples-format", f"the file must be {error}", str(path))) from None
    return check(array, value, str(path))


def _stored(path: Path) -> np.ndarray:
    """Return the array of a npy file; all bytes that its header claims must be there."""
    try:
        with path.open("rb") as file:
            if file.read(6) != b"\x93NUMPY":
                raise ValueError("it begins otherwise")
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except NOT_AN_ARRAY as error:
        raise ValueError(f"a npy file with an array of numbers; numpy says: {error or type(error).__name__}") from None
    return np.array(array)


def _sound(path: Path) -> tuple[np.ndarray, float]:
    """Return the stored samples, (samples, channels), and the factor that brings them into -1 .. 1."""
    try:
        with path.open("rb") as raw, wave.open(raw) as file:
            channels, width, count = file.getnchannels(), file.getsampwidth(), file.getnframes()
            content = file.readframes(min(count, path.stat().st_size))
    except (wave.Error, *NOT_AN_ARRAY) as error:
        raise ValueError(f"a WAV file of PCM samples; {error or 'it ends too early'}") from None
    if len(content) != count * channels * width:
        raise ValueError(f"a whole WAV file: its header says {count:,} samples, more than there are")
    if not content or len(content) % (channels * width):
        raise ValueError("a WAV file of whole samples, one at least")
    if width == 3:
        padded = np.zeros((len(content) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(content, np.uint8).reshape(-1, 3)
        array = padded.reshape(-1).view("<i4") >> 8
    elif width == 1:
        array = np.frombuffer(content, np.uint8).astype(np.int16) - 128
    else:
        array = np.frombuffer(content, f"<i{width}")
    return array.reshape(-1, channels), 2.0 ** (1 - 8 * width)


def _real(array: np.ndarray, unit: float | None, value: Value, scaling: Scaling | None, path: Path) -> np.ndarray:
    """Return the numbers that stored ones stand for, (..., channels) in the input's dtype.

    Args:
        unit: factor of sounds, used without a ``scaling``; None for pixels.
    """
    dtype = np.dtype(BY_NAME[value.element_type].dtype)
    if dtype.kind == "f":
        if scaling is None and unit is None:
            message = f"`{DESCRIPTION}` must state the scale of pixels, since `{value.name}` takes floats"
            hint = f"write `scale = 0.00392156862745098` (1/255) and `offset = 0.0` into {path.parent / DESCRIPTION}"
            raise UserError(_problem("samples-scale", message, str(path), hint))
        used = scaling or Scaling(np.array([unit]), np.zeros(1))
        for numbers in (used.scale, used.offset):
            if len(numbers) not in (1, array.shape[-1]):
                message = (
                    f"`{DESCRIPTION}` must have one number, or {array.shape[-1]} for the channels, not {len(numbers)}"
                )
                raise UserError(_problem("samples-scale", message, str(path)))
        return (array * used.scale + used.offset).astype(dtype)
    if scaling is not None:
        message = f"`{DESCRIPTION}` is for inputs of floats; `{value.name}` takes {value.element_type} as it is stored"
        raise UserError(_problem("samples-scale", message, str(path.parent / DESCRIPTION), "remove the file"))
    if dtype.kind not in "iu" or array.min() < np.iinfo(dtype).min or array.max() > np.iinfo(dtype).max:
        message = f"the stored numbers must be {value.element_type}, as `{value.name}` is"
        raise UserError(_problem("samples-dtype", message, str(path)))
    return array.astype(dtype)


def _arranged(array: np.ndarray, value: Value, path: Path) -> np.ndarray:
    """Return a sample in the input's shape: channels first or last, axes of one element added or removed.

    Raises:
        UserError: the sample does not have such a shape.
    """
    assert value.shape is not None
    pattern = [size if isinstance(size, int) else None for size in value.shape]
    if len(pattern) > 1 and pattern[0] is None:
        pattern[0] = 1  # a batch
    lengths = [size for size in pattern if size != 1]
    for candidate in (np.moveaxis(array, -1, 0), array):
        sizes = [size for size in candidate.shape if size != 1]
        if len(sizes) == len(lengths) and all(a in (None, b) for a, b in zip(lengths, sizes, strict=True)):
            rest = iter(sizes)
            return candidate.reshape([1 if size == 1 else next(rest) for size in pattern])
    spelled = ", ".join("?" if size is None else str(size) for size in pattern)
    message = f"the shape must be [{spelled}], apart from axes of one element, not {list(array.shape)}"
    raise UserError(_problem("samples-shape", message, str(path), "resize or crop it first"))


def _problem(code: str, message: str, where: str, hint: str = "") -> Problem:
    return Problem(code, message, where, hint, stage="samples")
