"""Reader of files that hold samples of the only input, and do not name it: npy, PNG, JPEG and WAV.

An input of integers takes pixels and sounds as they are stored. For an input of floats ``samples.toml`` states the
scale; without it sounds lie in -1 .. 1, and pixels are refused, since the range that the model was trained with is
unknown.
"""

from __future__ import annotations

import lzma
import struct
import tokenize
import wave
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import short, spelled_shape
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Value
from onnx_hw.samples.check_samples import check_array
from onnx_hw.samples.description import DESCRIPTION, Description, Scaling
from onnx_hw.samples.images import read_image
from onnx_hw.samples.samples import Note

ARRAYS, IMAGES, SOUNDS = (".npy",), (".png", ".jpg", ".jpeg"), (".wav",)
WITHOUT_IMAGES: Note = ("--resize is for images, and there are none among the samples", "leave out --resize")
"""Note that an option changes nothing."""

SUFFIXES = (*ARRAYS, *IMAGES, *SOUNDS)
"""Endings of files, in lower case."""

MAX_IMAGE_BYTES = 1 << 28  # of a file

NOT_AN_ARRAY = (
    *(ValueError, TypeError, LookupError, ArithmeticError, EOFError, RuntimeError, MemoryError, SyntaxError),
    *(AttributeError, struct.error, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    tokenize.TokenError,  # of a header that opens more brackets than it closes
)
"""Exceptions of numpy, zipfile and the decompressors for bytes that are not what they should be."""


def read_single(
    path: Path, kind: str, inputs: Sequence[Value], description: Description, *, finite: bool = True
) -> tuple[np.ndarray, list[Note]]:
    """Return the samples of a file, (samples, *shape of the only input), and what was converted.

    Args:
        kind: one of ``SUFFIXES``; the content decides about a single file, whatever its name is.
        inputs: the graph's inputs; there must be one.
        description: scale and size of what the file holds.
        finite: whether NaN and infinities are refused.

    Raises:
        UserError: stage ``samples``; what is wrong with the file.
    """
    if len(inputs) != 1 or inputs[0].shape is None:
        message = f"a model must have one input of known shape for {kind} files; this one has {len(inputs)}"
        names = ", ".join(f"{value.name}=..." for value in inputs)
        hint = f'give an npz file, one array per input: np.savez("samples.npz", {names})'
        raise UserError(_problem("samples-format", message, str(path), hint))
    (value,) = inputs
    try:
        if kind in ARRAYS:
            array = _stored(path)
        elif kind in IMAGES:
            array = _arranged(_real(_pixels(path, value, description), None, value, description, path), value, path)
        else:
            array, unit, rate = _sound(path)
            array = _arranged(_real(array, unit, value, description, path), value, path, rate)
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"the file cannot be read: {reason}"
        raise UserError(_problem("samples-read", message, str(path), "check its name and its permissions")) from None
    except ValueError as error:
        hint = "write it once more, or leave it out"
        raise UserError(_problem("samples-format", f"the file must be {error}", str(path), hint)) from None
    return check_array(array, value, str(path), finite=finite)


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


def _pixels(path: Path, value: Value, description: Description) -> np.ndarray:
    """Return the pixels of an image, (height, width, channels), in the size of the input where that is asked for."""
    if path.stat().st_size > MAX_IMAGE_BYTES:
        raise ValueError(f"an image of at most {MAX_IMAGE_BYTES >> 20} MiB")
    content = path.read_bytes()
    pixels = read_image(content)
    if description.resize is None:
        return pixels
    size = _size_of_input(value, pixels.shape[-1])
    if size is None:
        message = f"an input must be an image of known size for `resize`; {short(value.name)} is"
        message = f"{message} {spelled_shape(value.shape or ())}, and the file has {pixels.shape[-1]} channels"
        raise UserError(
            _problem("samples-shape", message, str(path), f"leave out --resize, or `resize` in {description.path}")
        )
    return pixels if pixels.shape[:2] == size else read_image(content, size, description.resize)


def _size_of_input(value: Value, channels: int) -> tuple[int, int] | None:
    """Return height and width of the images that an input takes; None where they are unknown, or there are none."""
    pattern = list(value.shape or ())
    if len(pattern) == 4:
        pattern = pattern[1:]
    if len(pattern) == 3:
        pattern = pattern[1:] if pattern[0] == channels else pattern[:2] if pattern[2] == channels else []
    elif channels != 1:
        return None
    if len(pattern) != 2 or not isinstance(pattern[0], int) or not isinstance(pattern[1], int):
        return None
    return pattern[0], pattern[1]


def sound_rate(path: Path) -> int | None:
    """Return the samples of a second of a WAV file; None where it cannot be read, which ``read_single`` says."""
    try:
        with path.open("rb") as raw, wave.open(raw) as file:
            return file.getframerate()
    except (OSError, wave.Error, *NOT_AN_ARRAY):
        return None


def _sound(path: Path) -> tuple[np.ndarray, float, int]:
    """Return the stored samples, (samples, channels), their factor into -1 .. 1, and their rate in Hz."""
    try:
        with path.open("rb") as raw, wave.open(raw) as file:
            channels, width, count = file.getnchannels(), file.getsampwidth(), file.getnframes()
            rate = file.getframerate()
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
    return array.reshape(-1, channels), 2.0 ** (1 - 8 * width), rate


def _real(array: np.ndarray, unit: float | None, value: Value, description: Description, path: Path) -> np.ndarray:
    """Return the numbers that stored ones stand for, (..., channels) in the input's dtype.

    Args:
        unit: factor of sounds, used without a scaling; None for pixels.
    """
    dtype, scaling = np.dtype(BY_NAME[value.element_type].dtype), description.scaling
    if dtype.kind == "f":
        if scaling is None and unit is None:
            message = f"`{DESCRIPTION}` must state the scale of pixels, since {short(value.name)} takes floats"
            hint = f"write `scale = 0.00392156862745098` (1/255) and `offset = 0.0` into {description.path}"
            raise UserError(_problem("samples-scale", message, str(path), hint))
        used = scaling or Scaling(np.array([unit]), np.zeros(1))
        for numbers in (used.scale, used.offset):
            if len(numbers) not in (1, array.shape[-1]):
                message = (
                    f"`{DESCRIPTION}` must have one number, or {array.shape[-1]} for the channels, not {len(numbers)}"
                )
                hint = f"change {description.path}, or convert the file to {len(numbers)} channels"
                raise UserError(_problem("samples-scale", message, str(path), hint))
        return (array * used.scale + used.offset).astype(dtype)
    if scaling is not None:
        message = f"a scale is for inputs of floats; {short(value.name)} takes {value.element_type} as it is stored"
        raise UserError(_problem("samples-scale", message, str(description.path), "remove `scale` and `offset`"))
    if dtype.kind not in "iu" or array.min() < np.iinfo(dtype).min or array.max() > np.iinfo(dtype).max:
        message = f"the stored numbers must be {value.element_type}, as {short(value.name)} is"
        hint = f"convert them to {value.element_type}, and write them as npy"
        raise UserError(_problem("samples-dtype", message, str(path), hint))
    return array.astype(dtype)


def _arranged(array: np.ndarray, value: Value, path: Path, rate: int | None = None) -> np.ndarray:
    """Return a sample in the input's shape: channels first or last, axes of 1 added or removed; else ``UserError``."""
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
    hint = "resize or crop it first"
    if rate is not None:
        count, channels = array.shape
        sizes_text = f"{count:,} samples of {channels} channels, {count / rate:.2f} s at {rate:,} Hz"
        hint = f"the sound has {sizes_text}: bring it to the rate, length and channels of training, such as with sox"
    if array.ndim == 3:
        hint = f"`--resize stretch` or `--resize crop` changes height and width, as `resize` in {DESCRIPTION} does"
        if array.shape[-1] not in pattern:
            hint = f"the file has {array.shape[-1]} channels: convert it to grey or colour, as the input is"
    raise UserError(_problem("samples-shape", message, str(path), hint))


def _problem(code: str, message: str, where: str, hint: str = "") -> Problem:
    return Problem(code, message, where, hint, stage="samples")
