"""Samples in npz files: one array per graph input or output, named as in the model.

A folder may hold several files, and files of other formats (``sample_folder.py``).

``check_samples.py`` has the shapes and dtypes. The key ``labels`` may hold one integer per sample, the right class; it
is used to state accuracies.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import did_you_mean
from onnx_hw.onnx.graph.model import Value
from onnx_hw.samples.check_samples import check_array, check_samples, listed_names
from onnx_hw.samples.npz import read_npz
from onnx_hw.samples.sample_folder import NOT_AN_ARRAY, read_folder
from onnx_hw.samples.samples import Samples, frame_count

GIT_LFS = b"version https://git-lfs"


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

        def read_file(file: Path) -> Samples:
            return read_samples(file, inputs, finite=finite, frames_of_a_sample=frames_of_a_sample, classes=classes)

        stacked, labels, notes = read_folder(
            path, inputs, read_file, lambda array, value, where: check_array(array, value, where, finite=finite)
        )
        return Samples(stacked, frame_count(stacked), labels, notes)
    stored = _load(path)
    if inputs and not stored:
        message = "the npz archive must hold at least one array, but it is empty"
        raise UserError(_problem("samples-format", message, str(path)))
    return check_samples(
        stored, inputs, finite=finite, frames_of_a_sample=frames_of_a_sample, classes=classes, source=str(path)
    )


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
        message = f"the npz archive must hold only numpy arrays; {listed_names('it has the other file', others)}"
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


def _problem(code: str, message: str, where: str, hint: str = "") -> Problem:
    return Problem(code, message, where, hint, stage="samples")
