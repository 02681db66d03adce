"""Labels of the files of a folder: from the names of its sub-folders, or from the file ``labels.csv``.

file,label          a heading is optional; the separator is a comma, a semicolon or a tab
cat1.png,0          a class number, or a name
dog1.png,dog

Names that are whole numbers are class numbers. Other names are counted in alphabetical order, from 0, unless
``samples.toml`` lists them as ``classes``.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.regular_file import require_regular_file
from onnx_hw.messages.text import did_you_mean, short
from onnx_hw.samples.description import Description
from onnx_hw.samples.samples import Note

LABELS_FILE = "labels.csv"
MAX_LABELS_BYTES = 1 << 26
MAX_NAMED = 8  # classes in a note


def labels_of_folders(folders: Sequence[Path], description: Description) -> tuple[dict[Path, int], tuple[Note, ...]]:
    """Return the class of each sub-folder, and how they were counted; raise ``UserError`` for unknown ``classes``."""
    numbers, notes = _class_numbers([folder.name for folder in folders], description)
    return {folder: numbers[folder.name] for folder in folders}, notes


def read_labels_file(
    path: Path, files: Sequence[Path], description: Description
) -> tuple[dict[Path, int], tuple[Note, ...]]:
    """Return the class of each file of a folder, from ``labels.csv``, and a note that says how names were counted.

    Args:
        path: the file with the labels.
        files: files of samples; each must have a label.
        description: may list the names of the classes.

    Raises:
        UserError: stage ``samples``; what is wrong with the file.
    """
    rows = _rows(path)
    known = {str(file.relative_to(path.parent).as_posix()): file for file in files}
    first = rows[0] if rows else None
    if first is not None and first[1] not in known and not _is_number(first[2]):
        rows = rows[1:]  # a heading
    problems, labels = [], dict[Path, str]()
    for line, name, label in rows:
        where = f"{path}:{line}"
        if name not in known:
            hint = did_you_mean(name, known) if len(known) <= MAX_NAMED else "names are relative to the folder"
            problems.append(
                _problem(f"each line must name a file of the folder; {short(name)} is not there", where, hint)
            )
        elif known[name] in labels:
            problems.append(_problem(f"each file must have one label; {short(name)} has two", where, "remove a line"))
        else:
            labels[known[name]] = label
    lacking = [name for name, file in known.items() if file not in labels]
    if lacking and not problems:
        message = f"each file must have a label; {len(lacking):,} have none, {short(lacking[0])} first"
        problems.append(_problem(message, str(path), f"add a line such as `{lacking[0]},0`, or remove {LABELS_FILE}"))
    if problems:
        raise UserError(*problems[:MAX_NAMED])
    numbers, notes = _class_numbers(list(labels.values()), description)
    return {file: numbers[label] for file, label in labels.items()}, notes


def _rows(path: Path) -> list[tuple[int, str, str]]:
    """Return number, file and label of each line that is not empty."""
    try:
        with require_regular_file(path).open("rb") as file:
            content = file.read(MAX_LABELS_BYTES + 1)
        if len(content) > MAX_LABELS_BYTES:
            raise ValueError(f"it has more than {MAX_LABELS_BYTES:,} bytes")
        text = content.decode("utf-8-sig")
        separator = next((mark for mark in ",;\t" if mark in text.partition("\n")[0]), ",")
        lines = list(csv.reader(text.splitlines(), delimiter=separator))
    except OSError as error:
        hint = "check its permissions"
        raise UserError(_problem(f"the file cannot be read: {error.strerror or error}", str(path), hint)) from None
    except (ValueError, csv.Error) as error:
        message = f"the file must be text with a file and a label in each line; {error}"
        raise UserError(_problem(message, str(path), "write it as UTF-8 with lines such as `image1.png,0`")) from None
    rows = []
    for number, fields in enumerate(lines, 1):
        cells = [cell.strip() for cell in fields]
        if not any(cells):
            continue
        if len(cells) != 2 or not all(cells):
            message = f"each line must hold a file and a label, not {len(fields)} fields"
            raise UserError(_problem(message, f"{path}:{number}", "such as `image1.png,0`"))
        rows.append((number, cells[0], cells[1]))
    return rows


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9


def _class_numbers(names: Sequence[str], description: Description) -> tuple[Mapping[str, int], tuple[Note, ...]]:
    """Return the class of each name, and a note where it follows from the alphabet."""
    different = sorted(set(names))
    if description.classes is not None:
        numbers = {name: number for number, name in enumerate(description.classes)}
        unknown = [name for name in different if name not in numbers]
        if unknown:
            message = f"each class must be one of `classes`; {short(unknown[0])} is not"
            hint = did_you_mean(unknown[0], description.classes)
            raise UserError(_problem(message, str(description.path), hint))
        return numbers, ()
    if all(map(_is_number, different)):
        return {name: int(name) for name in different}, ()
    listed = ", ".join(f"{number} {short(name)}" for number, name in enumerate(different[:MAX_NAMED]))
    listed += " ..." if len(different) > MAX_NAMED else ""
    hint = f"another order is stated by `classes = [...]` in {description.path}"
    return {name: number for number, name in enumerate(different)}, ((f"the classes are {listed}", hint),)


def _problem(message: str, where: str, hint: str) -> Problem:
    return Problem("samples-labels", message, where, hint, stage="samples")
