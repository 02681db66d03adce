"""Folders that are filled once for all processes of a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from onnx_hw_tools.user_cache import exclusively


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that ``make`` has filled, be it in another process of pytest-xdist.

    A fixture of a module is set up again in each process that takes some of its tests.
    """
    place = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    folder = place / name
    with exclusively(place / f"{name}.lock"):
        if not (folder / "complete").exists():
            folder.mkdir(exist_ok=True)
            make(folder)
            (folder / "complete").touch()
    return folder
