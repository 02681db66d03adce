"""Samples in a file, or in a folder of files (``sample_folder.py``); the outputs of a run, in a file.

    npz            one array per graph input, by name; a single one may have any name, such as arr_0
    npy            samples of the only input
    PNG, JPEG      an image for that input; ``samples.toml`` next to it may state its scale and resize it
    WAV            a sound for that input

``check_samples.py`` has the shapes and dtypes. The key ``labels`` may hold one integer per sample, the right class; it
is used to state accuracies. The content of a file decides what it is, not its name.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.near_paths import hint_for_missing_file
from onnx_hw.messages.regular_file import is_regular_file
from onnx_hw.onnx.graph.model import Value
from onnx_hw.runtime.options import Resize
from onnx_hw.samples.check_samples import LABELS, check_samples, listed_names
from onnx_hw.samples.description import read_description
from onnx_hw.samples.npz import TooLarge, read_npz
from onnx_hw.samples.outputs import storable
from onnx_hw.samples.sample_folder import read_folder
from onnx_hw.samples.samples import Samples
from onnx_hw.samples.single_input_files import IMAGES, NOT_AN_ARRAY, WITHOUT_IMAGES, read_single

NPZ = ".npz"
GIT_LFS = b"version https://git-lfs"
MARKS = {b"PK": NPZ, npy.MAGIC_PREFIX: ".npy", b"\x89PNG": ".png", b"\xff\xd8\xff": ".jpg", b"RIFF": ".wav"}
"""First bytes of files, and the endings that stand for their kinds."""

HOW_TO_WRITE = 'write it with np.savez("samples.npz", name=array)'


def read_samples(
    path: Path,
    inputs: Sequence[Value],
    *,
    finite: bool = True,
    frames_of_a_sample: int = 1,
    classes: int | None = None,
    resize: Resize | None = None,
) -> Samples:
    """Read and check a file against the inputs of a graph.

    Args:
        path: the file, or a folder.
        inputs: the graph's inputs; unknown dimensions (None, or a name) fit any number.
        finite: whether NaN and infinities are refused: no integer stands for them, and they would spoil every range.
        frames_of_a_sample: number of labels for each sample.
        classes: number of classes, which labels count from 0; None where that is unknown.
        resize: how images get the input's size; None for what ``samples.toml`` says.

    Raises:
        UserError: stage ``samples``; all faults of the file.
    """
    read_file = partial(
        read_samples, inputs=inputs, finite=finite, frames_of_a_sample=frames_of_a_sample, classes=classes
    )
    if os.path.isdir(path):  # false also where the path is too long
        return read_folder(
            path,
            inputs,
            read_file,
            finite=finite,
            frames_of_a_sample=frames_of_a_sample,
            classes=classes,
            resize=resize,
        )
    if os.path.exists(path) and not is_regular_file(path):  # a pipe would be waited for, perhaps for ever
        message = "samples must be in a file or a folder, not in a pipe or a device"
        raise UserError(_problem("samples-read", message, str(path), "write them into a file, and give its name"))
    kind = _kind_of(path)
    if kind != NPZ:
        description = read_description(path.parent, resize)
        array, notes = read_single(path, kind, inputs, description, finite=finite)
        if resize is not None and kind not in IMAGES:
            notes.append(WITHOUT_IMAGES)
        return Samples({inputs[0].name: array}, len(array), None, tuple(notes))
    stored = _load(path)
    if inputs and not stored:
        message, hint = "the npz archive must hold at least one array, but it is empty", HOW_TO_WRITE
        raise UserError(_problem("samples-format", message, str(path), hint))
    names = [value.name for value in inputs]
    keys = [key for key in stored if key != LABELS]
    if len(names) == len(keys) == 1 and LABELS not in names:
        stored = {names[0] if key != LABELS else key: array for key, array in stored.items()}
    samples = check_samples(
        stored, inputs, finite=finite, frames_of_a_sample=frames_of_a_sample, classes=classes, source=str(path)
    )
    return samples if resize is None else replace(samples, notes=(*samples.notes, WITHOUT_IMAGES))


def write_samples(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name, each with its samples on the first axis. The file appears whole or not at all.

    Raises:
        UserError: the file cannot be written.
    """
    if not path.name or path.is_dir():
        raise UserError(
            _problem("samples-write", "the outputs must go into a file, not a folder", str(path), "--out outputs.npz")
        )
    aside = not os.path.exists(path) or os.path.isfile(path)  # a device is written, not replaced
    unfinished = path.with_name(f".{os.getpid()}.npz") if aside else path
    try:
        # np.savez takes the names as keywords, and `file` is a name an output may have.
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in arrays.items():
                member_name = name.replace("\0", "\\x00") + ".npy"  # zipfile would cut the name there
                with archive.open(member_name, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, storable(array), allow_pickle=False)
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


def _kind_of(path: Path) -> str:
    """Return the ending of a file's kind, by its first bytes: ``.npz`` or one of ``single_input_files.SUFFIXES``.

    Raises:
        UserError: it cannot be read, or is something else; the message says what.
    """
    try:
        with path.open("rb") as file:
            start = file.read(len(GIT_LFS))
    except FileNotFoundError:
        hint = hint_for_missing_file(path, HOW_TO_WRITE)
        raise UserError(_problem("samples-missing-file", "there is no such file", str(path), hint)) from None
    except OSError as error:
        message, hint = f"the file cannot be read: {error.strerror or error}", "check its name and its permissions"
        raise UserError(_problem("samples-read", message, str(path), hint)) from None
    for mark, kind in MARKS.items():
        if start.startswith(mark):
            return kind
    what, hint = f"it begins with {start[:8]!r}", HOW_TO_WRITE
    if not start:
        what = "it is empty"
    elif start == GIT_LFS:
        what, hint = "it is a Git LFS pointer", "run `git lfs pull` in the repository it comes from"
    elif start.startswith(b"\x80"):
        what = "it begins like a pickle, which may hold any program"
    message = f"the file must be an npz archive of numpy arrays, or npy, PNG, JPEG or WAV; {what}"
    raise UserError(_problem("samples-format", message, str(path), hint))


def _load(path: Path) -> dict[str, np.ndarray]:
    where = str(path)
    try:
        with path.open("rb") as file:
            stored, others = read_npz(file)
    except TooLarge as error:
        raise UserError(
            _problem("samples-large", str(error), where, "leave out samples, or give several files")
        ) from None
    except OSError as error:
        message, hint = f"the file cannot be read: {error.strerror or error}", "check its permissions"
        raise UserError(_problem("samples-read", message, where, hint)) from None
    except NOT_AN_ARRAY as error:
        hint = f"{HOW_TO_WRITE}; arrays of Python objects cannot be read"
        message = f"the file must be an npz archive of numpy arrays; numpy says: {error or type(error).__name__}"
        raise UserError(_problem("samples-format", message, where, hint)) from None
    if others:
        message = f"the npz archive must hold only numpy arrays; {listed_names('it has the other file', others)}"
        raise UserError(_problem("samples-format", message, where, HOW_TO_WRITE))
    return stored


def _problem(code: str, message: str, where: str, hint: str = "") -> Problem:
    return Problem(code, message, where, hint, stage="samples")
