"""Samples in a folder: every file of it holds some, in the order of their names.

    *.npz         as ``samples.py`` says, with or without labels (all files, or none)
    *.npy         samples of the only graph input, one or several
    *.png         an image for it: [height, width, channels], or the channels first, as the input has them
    *.wav         a sound for it: its samples, of all channels; PCM
    samples.toml  what their numbers stand for: real = scale * stored + offset, one of each or one per channel

Pixels and sounds go into an input of integers as they are stored. For one of floats ``samples.toml`` says how; without
it sounds lie in -1 .. 1, and pixels are refused, since nobody knows what range the model was trained with.
"""

from __future__ import annotations

import lzma
import struct
import wave
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnx_hw.messages.errors import Problem, UserError, user_error
from onnx_hw.messages.text import short
from onnx_hw.messages.toml import read_toml
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Value
from onnx_hw.samples.concatenate import SamplesTogether
from onnx_hw.samples.png import read_png

DESCRIPTION = "samples.toml"
LARGEST_DESCRIPTION = 1 << 16  # bytes
LARGEST_IMAGE = 1 << 28  # bytes of a PNG file
TOLD = 10
"""Files whose faults are told; others may have the same one."""

ReadFile = Callable[[Path], tuple[Mapping[str, np.ndarray], np.ndarray | None]]
"""Reads an npz file: its samples by graph input, and labels."""

CheckArray = Callable[[np.ndarray, Value, str], np.ndarray | Problem]
"""An array for a graph input with its samples on the first axis, or what is wrong with it; told where it is."""

SENSELESS = (
    *(ValueError, TypeError, LookupError, ArithmeticError, EOFError, RuntimeError, MemoryError, SyntaxError),
    *(AttributeError, struct.error, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)
"""How numpy, zipfile and the decompressors say that bytes make no sense."""


@dataclass(frozen=True)
class Scaling:
    """real = scale * stored + offset.

    Attributes:
        scale, offset: one number, or one per channel.
    """

    scale: np.ndarray
    offset: np.ndarray


def read_folder(
    folder: Path, inputs: Sequence[Value], read_file: ReadFile, check: CheckArray
) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """All samples of a folder, by graph input, stacked on the first axis; and their labels. A file is read at a time.

    Args:
        inputs: the graph's inputs.
        read_file: for npz files.
        check: for arrays of other files.

    Raises:
        UserError: stage ``samples``; what is wrong with up to ``TOLD`` of the files, or with the folder.
    """
    paths = _paths(folder)
    scaling = _scaling(folder / DESCRIPTION)
    problems: list[Problem] = []
    labels: list[np.ndarray | None] = []
    with SamplesTogether([value.name for value in inputs]) as together:
        for path in paths:
            try:
                if path.suffix.lower() == ".npz":
                    found, known = read_file(path)
                else:
                    found, known = {inputs[0].name: _single(path, inputs, scaling, check)}, None
                together.add(path, found)
            except UserError as error:
                problems.extend(error.problems)
                if len(problems) >= TOLD:
                    break
            else:
                labels.append(known)
        if problems:
            raise UserError(*problems[:TOLD])
        arrays = together.arrays()
    given = [known for known in labels if known is not None]
    if 0 < len(given) < len(labels):
        lacking = next(path for path, known in zip(paths, labels, strict=True) if known is None)
        message = "either all files of a folder must have labels or none"
        raise UserError(
            _problem("samples-labels", message, str(lacking), "add `labels`, or leave them out of the others")
        )
    return arrays, np.concatenate(given) if given else None


def _paths(folder: Path) -> list[Path]:
    try:
        entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(_problem("samples-read", f"the folder cannot be read: {reason}", str(folder))) from None
    known = (".npz", ".npy", ".png", ".wav")
    others = [e for e in entries if e.name != DESCRIPTION and (e.suffix.lower() not in known or not e.is_file())]
    if others:
        message = f"a folder of samples must hold files of {', '.join(known)} and {DESCRIPTION} alone"
        problems = [_problem("samples-folder", message, str(entry)) for entry in others[:TOLD]]
        raise UserError(*problems)
    paths = [entry for entry in entries if entry.name != DESCRIPTION]
    if not paths:
        raise UserError(_problem("samples-folder", f"there must be a file of {', '.join(known)}", str(folder)))
    return paths


def _scaling(path: Path) -> Scaling | None:
    """What the description says; None where there is none.

    Raises:
        UserError: what is wrong with it.
    """

    def refused(must_be: str) -> UserError:
        return user_error("samples-scale", f"`{DESCRIPTION}` must be {must_be}", where=str(path), stage="samples")

    if not path.exists():
        return None
    stored = read_toml(path, LARGEST_DESCRIPTION, refused)
    numbers = {}
    for name, usual in (("scale", 1.0), ("offset", 0.0)):
        given: Any = stored.pop(name, usual)
        each = given if isinstance(given, list) and given else [given]
        if not all(isinstance(n, (int, float)) and not isinstance(n, bool) and abs(n) < 1e30 for n in each):
            raise refused(f"of finite numbers; `{name}` is one, or a list of one per channel")
        numbers[name] = np.array(each, dtype=np.float64)
    if stored:
        raise refused(f"of `scale` and `offset` alone, not {', '.join(map(short, stored))}")
    return Scaling(numbers["scale"], numbers["offset"])


def _single(path: Path, inputs: Sequence[Value], scaling: Scaling | None, check: CheckArray) -> np.ndarray:
    """The samples of a file that names no input, (samples, *shape of the only input).

    Raises:
        UserError: what is wrong with it.
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
            if path.stat().st_size > LARGEST_IMAGE:
                raise ValueError(f"a PNG of at most {LARGEST_IMAGE >> 20} MiB")
            array = _arranged(_real(read_png(path.read_bytes()), unit, value, scaling, path), value, path)
        else:
            array, unit = _sound(path)
            array = _arranged(_real(array, unit, value, scaling, path), value, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(_problem("samples-read", f"the file cannot be read: {reason}", str(path))) from None
    except ValueError as error:
        raise UserError(_problem("samples-format", f"the file must be {error}", str(path))) from None
    found = check(array, value, str(path))
    if isinstance(found, Problem):
        raise UserError(found)
    return found


def _stored(path: Path) -> np.ndarray:
    """An array; what its header claims is there."""
    try:
        with path.open("rb") as file:
            if file.read(6) != b"\x93NUMPY":
                raise ValueError("it begins otherwise")
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except SENSELESS as error:
        raise ValueError(f"a npy file with an array of numbers; numpy says: {error or type(error).__name__}") from None
    return np.array(found)


def _sound(path: Path) -> tuple[np.ndarray, float]:
    """(samples, channels) as stored, and by what they are multiplied to lie in -1 .. 1."""
    try:
        with path.open("rb") as raw, wave.open(raw) as file:
            channels, width, count = file.getnchannels(), file.getsampwidth(), file.getnframes()
            content = file.readframes(min(count, path.stat().st_size))
    except (wave.Error, *SENSELESS) as error:
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
    """The numbers that stored ones stand for, (..., channels) in the input's dtype."""
    dtype = np.dtype(BY_NAME[value.element_type].dtype)
    if dtype.kind == "f":
        if scaling is None and unit is None:
            message = f"`{DESCRIPTION}` must say what pixels stand for, since `{value.name}` takes floats"
            hint = f"write `scale = 0.00392156862745098` (1/255) and `offset = 0.0` into {path.parent / DESCRIPTION}"
            raise UserError(_problem("samples-scale", message, str(path), hint))
        known = scaling or Scaling(np.array([unit]), np.zeros(1))
        for numbers in (known.scale, known.offset):
            if len(numbers) not in (1, array.shape[-1]):
                message = (
                    f"`{DESCRIPTION}` must have one number, or {array.shape[-1]} for the channels, not {len(numbers)}"
                )
                raise UserError(_problem("samples-scale", message, str(path)))
        return (array * known.scale + known.offset).astype(dtype)
    if scaling is not None:
        message = f"`{DESCRIPTION}` is for inputs of floats; `{value.name}` takes {value.element_type} as it is stored"
        raise UserError(_problem("samples-scale", message, str(path.parent / DESCRIPTION), "leave it out"))
    if dtype.kind not in "iu" or array.min() < np.iinfo(dtype).min or array.max() > np.iinfo(dtype).max:
        message = f"what is stored must be {value.element_type}, as `{value.name}` is"
        raise UserError(_problem("samples-dtype", message, str(path)))
    return array.astype(dtype)


def _arranged(array: np.ndarray, value: Value, path: Path) -> np.ndarray:
    """One sample in the input's shape: its channels first or last, axes of one element added or left out.

    Raises:
        UserError: it has no such shape.
    """
    assert value.shape is not None
    pattern = [size if isinstance(size, int) else None for size in value.shape]
    if len(pattern) > 1 and pattern[0] is None:
        pattern[0] = 1  # a batch
    known = [size for size in pattern if size != 1]
    for candidate in (np.moveaxis(array, -1, 0), array):
        sizes = [size for size in candidate.shape if size != 1]
        if len(sizes) == len(known) and all(a in (None, b) for a, b in zip(known, sizes, strict=True)):
            rest = iter(sizes)
            return candidate.reshape([1 if size == 1 else next(rest) for size in pattern])
    spelled = ", ".join("?" if size is None else str(size) for size in pattern)
    message = f"the shape must be [{spelled}] but for axes of one element, not {list(array.shape)}"
    raise UserError(_problem("samples-shape", message, str(path), "scale or cut it before"))


def _problem(code: str, message: str, where: str, hint: str = "") -> Problem:
    return Problem(code, message, where, hint, stage="samples")
