"""Notes and warnings of the pipeline as warnings of Python."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

from onnx_hw.api.keywords import in_keywords

BETWEEN = (str(Path(__file__).parent.parent), contextlib.__file__)
"""Beginnings of the paths of code between a caller and its warning: this package, and decorators."""


def warn_of(notes: Iterable[tuple[str, str]]) -> None:
    """Issue a ``UserWarning`` for each note, a message and a hint, at the line of the caller of onnx-hw."""
    for message, hint in notes:
        text = in_keywords(f"{message} ({hint})" if hint else message)
        warnings.warn(text, UserWarning, stacklevel=_frames_of_ours())


def _frames_of_ours() -> int:
    """Return the stack level of the first frame outside of this package, as seen from the caller."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(BETWEEN):
        level, frame = level + 1, frame.f_back
    return level
