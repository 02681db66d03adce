"""Samples in a folder of files, taken in the order of the files' names.

*.npz                as ``read_samples.py`` describes, with or without labels (all files, or none)
*.npy                samples of the only graph input, one or several
*.png, *.jpg         an image for that input: [height, width, channels], or the channels first
*.wav                a sound for that input: PCM samples of all channels
folders of these     one per class; their names are the labels
labels.csv           a label for each file, instead
samples.toml         the real numbers that stored ones stand for, the size of images, names of classes
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.graph.model import Value
from onnx_hw.runtime.options import Resize
from onnx_hw.samples.class_labels import LABELS_FILE, labels_of_folders, read_labels_file
from onnx_hw.samples.concatenate import SampleConcatenation
from onnx_hw.samples.description import DESCRIPTION, read_description
from onnx_hw.samples.images import require_pillow
from onnx_hw.samples.samples import Note, Samples, frame_count
from onnx_hw.samples.single_input_files import IMAGES, SOUNDS, SUFFIXES, WITHOUT_IMAGES, read_single, sound_rate

MAX_FAULTS = 10
"""Number of faults in an error; further files may well have the same ones."""

ENDINGS = (".npz", *SUFFIXES)

ReadFile = Callable[[Path], Samples]
"""Function that reads an npz file."""


def read_folder(
    folder: Path,
    inputs: Sequence[Value],
    read_file: ReadFile,
    *,
    finite: bool = True,
    frames_of_a_sample: int = 1,
    classes: int | None = None,
    resize: Resize | None = None,
) -> Samples:
    """Read all samples of a folder, one file at a time.

    Args:
        inputs: the graph's inputs.
        read_file: reads npz files.
        finite, frames_of_a_sample, classes: as for ``check_samples``.
        resize: how images get the input's size; None for what ``samples.toml`` says.

    Raises:
        UserError: stage ``samples``; up to ``MAX_FAULTS`` faults of the files, or the fault of the folder.
    """
    description = read_description(folder, resize)
    groups = _groups(folder)
    paths = [path for files in groups.values() for path in files]
    has_images = any(path.suffix.lower() in IMAGES for path in paths)
    if has_images:
        require_pillow(str(folder))
    _refuse_other_rates([path for path in paths if path.suffix.lower() in SOUNDS])
    named: dict[Path, int] = {}  # classes by file
    notes: dict[Note, None] = {} if has_images or resize is None else {WITHOUT_IMAGES: None}
    if list(groups) != [folder]:
        of_folders, counted = labels_of_folders(list(groups), description)
        named = {path: of_folders[group] for group, files in groups.items() for path in files}
        notes |= dict.fromkeys(counted)
    elif (folder / LABELS_FILE).exists():
        named, counted = read_labels_file(folder / LABELS_FILE, paths, description)
        notes |= dict.fromkeys(counted)
    problems: list[Problem] = []
    labels: list[np.ndarray | None] = []
    with SampleConcatenation([value.name for value in inputs]) as samples:
        for path in paths:
            try:
                kind = path.suffix.lower()
                if kind == ".npz":
                    part = read_file(path)
                else:
                    array, converted = read_single(path, kind, inputs, description, finite=finite)
                    part = Samples({inputs[0].name: array}, len(array), None, tuple(converted))
                labels.append(_labels(part, named.get(path), path, frames_of_a_sample, classes))
                samples.add(path, part.arrays)
            except UserError as error:
                problems.extend(error.problems)
                if len(problems) >= MAX_FAULTS:
                    break
            else:
                notes |= dict.fromkeys(part.notes)
        if problems:
            raise UserError(*problems[:MAX_FAULTS])
        stacked = samples.arrays()
    known = [of_file for of_file in labels if of_file is not None]
    if 0 < len(known) < len(labels):
        lacking = next(path for path, of_file in zip(paths, labels, strict=True) if of_file is None)
        message = "either all files of a folder must have labels, or none of them"
        raise UserError(
            _problem("samples-labels", message, str(lacking), "add `labels` here, or remove them from the others")
        )
    return Samples(stacked, frame_count(stacked), np.concatenate(known) if known else None, tuple(notes))


def _refuse_other_rates(sounds: list[Path]) -> None:
    """Refuse sounds of two rates: a model hears them at different speeds, although their shapes agree."""
    rates = {path: rate for path in sounds if (rate := sound_rate(path)) is not None}
    if len(set(rates.values())) > 1:
        first, *_ = rates
        other = next(path for path in rates if rates[path] != rates[first])
        message = f"all sounds must have the rate of `{first.name}`, {rates[first]:,} Hz, not {rates[other]:,} Hz"
        hint = f"resample it, such as with sox {other.name} -r {rates[first]} out.wav"
        raise UserError(_problem("samples-rate", message, str(other), hint))


def _labels(part: Samples, number: int | None, path: Path, frames: int, classes: int | None) -> np.ndarray | None:
    """Return the labels of a file: those that it holds, or that of the whole file for each of its samples."""
    if number is None:
        return part.labels
    if part.labels is not None:
        message = "labels must come from the file, from its folder or from labels.csv, not from two of them"
        raise UserError(_problem("samples-labels", message, str(path), "remove `labels` from the file"))
    if classes is not None and number >= classes:
        message = f"a label must be within 0 .. {classes - 1}, the elements of the first output, not {number}"
        hint = f"name the classes in {DESCRIPTION}, in the model's order: `classes = [...]`"
        raise UserError(_problem("samples-labels", message, str(path), hint))
    return np.full(part.count * frames, number, np.int64)


def _groups(folder: Path) -> dict[Path, list[Path]]:
    """Return the files of samples, in the order of their names, by the folder that holds them."""
    entries = _entries(folder)
    folders = [entry for entry in entries if entry.is_dir()]
    files = [entry for entry in entries if not entry.is_dir() and entry.name not in (DESCRIPTION, LABELS_FILE)]
    if folders and files:
        message = "a folder must hold files of samples, or a folder of them for each class, not both"
        hint = "move the files into the folder of their class"
        raise UserError(_problem("samples-folder", message, str(files[0]), hint))
    if folders and (folder / LABELS_FILE).exists():
        message = f"labels must come from the names of folders or from {LABELS_FILE}, not from both"
        raise UserError(_problem("samples-labels", message, str(folder / LABELS_FILE), "remove this file"))
    groups = {group: _entries(group) for group in folders} if folders else {folder: files}
    others = [e for each in groups.values() for e in each if e.suffix.lower() not in ENDINGS or not e.is_file()]
    if others:
        message = f"a folder of samples must hold only files of {', '.join(ENDINGS)}, {LABELS_FILE} and {DESCRIPTION}"
        hint = "move other files elsewhere; hidden ones are passed over"
        raise UserError(*(_problem("samples-folder", message, str(entry), hint) for entry in others[:MAX_FAULTS]))
    empty = [group for group, each in groups.items() if not each]
    if empty:
        message = f"there must be a file of {', '.join(ENDINGS)}"
        raise UserError(_problem("samples-folder", message, str(empty[0]), "put samples there, or remove the folder"))
    return groups


def _entries(folder: Path) -> list[Path]:
    """Return everything in a folder that is not hidden, in the order of the names."""
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        message, hint = f"the folder cannot be read: {error.strerror or error}", "check its permissions"
        raise UserError(_problem("samples-read", message, str(folder), hint)) from None


def _problem(code: str, message: str, where: str, hint: str) -> Problem:
    return Problem(code, message, where, hint, stage="samples")
