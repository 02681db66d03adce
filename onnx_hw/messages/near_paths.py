"""Hints for a path that is not there: the file or the build's folder that may have been meant."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from onnx_hw.messages.text import nearest

MIN_LIKENESS = 0.85
"""Likeness of two names of files, 0 to 1 as ``difflib`` counts, below which one is no typing error of the other."""

MAX_ENTRIES = 10_000
"""Greatest number of entries of a folder that are looked at."""


def hint_for_missing_file(path: Path, otherwise: str = "") -> str:
    """Return the file that may have been meant by one that does not exist, as a question.

    Another name is near if it is a typing error away, or holds the whole missing name: ``digits_calibration.npz`` for
    ``calibration.npz``.

    Args:
        otherwise: hint where no name is near, or where the path exists.
    """
    if os.path.lexists(path):
        return otherwise
    if not os.path.isdir(path.parent):
        folder = _nearest(path.parent.name, path.parent.parent, os.path.isdir)
        if folder is not None and os.path.exists(folder / path.name):
            return f"did you mean `{folder / path.name}`?"
        return f"there is no folder `{path.parent}`" + (f"; did you mean `{folder}`?" if folder is not None else "")
    near = _nearest(path.name, path.parent, os.path.isfile)
    return f"did you mean `{near}`?" if near is not None else otherwise


def hint_for_build_folder(path: Path, file: str, otherwise: str) -> str:
    """Return the build's folder that may have been meant by a path without a build, as a question.

    Folders beside the path and in the current one are looked at. A folder is near if its name is a typing error away,
    or begins with the name of the path: ``digits-icebreaker`` for ``digits/digits.onnx``.

    Args:
        file: name of the file that each build's folder has.
        otherwise: hint where no folder is near.
    """
    places = dict.fromkeys(place for place in (path.parent, Path()) if os.path.isdir(place))
    builds = [folder for place in places for folder in _entries(place) if os.path.isfile(folder / file)]
    near = [folder for folder in builds if folder.name.startswith(f"{path.stem}-") or _is_like(folder.name, path.name)]
    if near:
        return f"did you mean {' or '.join(f'`{folder}`' for folder in near[:4])}?"
    return otherwise


def _nearest(name: str, folder: Path, fits: Callable[[Path], bool]) -> Path | None:
    """Return the entry of a folder whose name is most like another one, or holds it; None where none is."""
    entries = [entry for entry in _entries(folder) if fits(entry)]
    like = nearest(name, [entry.name for entry in entries], MIN_LIKENESS)
    if like:
        return folder / like
    stem, suffix = Path(name).stem.lower(), Path(name).suffix.lower()
    holding = [entry for entry in entries if stem in entry.stem.lower() and entry.suffix.lower() == suffix]
    return min(holding, key=lambda entry: len(entry.name)) if len(stem) >= 3 and holding else None


def _is_like(name: str, other: str) -> bool:
    return bool(nearest(name, [other], MIN_LIKENESS))


def _entries(folder: Path) -> list[Path]:
    """Return the entries of a folder, sorted; none of a folder that cannot be read or has too many."""
    entries = []
    try:
        for entry in folder.iterdir():
            entries.append(entry)
            if len(entries) > MAX_ENTRIES:
                return []
    except (OSError, ValueError):
        return []
    return sorted(entries)
