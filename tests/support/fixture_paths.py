"""The shared test material: real models and a corpus of ONNX files, which are not part of the repository.

Each lies in a folder beside the checkout, or where an environment variable says; tests that need it are skipped, with
the reason, where there is none.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
EXAMPLES = CHECKOUT / "examples"


def folder(variable: str, beside: str) -> Path:
    """What the environment variable names, or ``beside`` relative to the checkout. It need not exist."""
    return Path(os.environ.get(variable) or CHECKOUT / beside)


MODELS = folder("ONNX_HW_MODELS", "../shared/models")
IRCORPUS = folder("ONNX_HW_IRCORPUS", "../shared/ircorpus")

needs_models = pytest.mark.skipif(
    not MODELS.is_dir(), reason=f"no folder of real models: {MODELS} (or set ONNX_HW_MODELS)"
)
needs_ircorpus = pytest.mark.skipif(
    not IRCORPUS.is_dir(), reason=f"no corpus of ONNX files: {IRCORPUS} (or set ONNX_HW_IRCORPUS)"
)


def model(name: str) -> Path:
    """The folder of one real model (``model.onnx``, ``inputs.npz``, ``outputs.npz``); skips where it is absent."""
    path = MODELS / name
    if not path.is_dir():
        pytest.skip(f"no model {name} in {MODELS} (or set ONNX_HW_MODELS)")
    return path


def model_names() -> list[str]:
    """All real models, sorted; empty where there is no material."""
    if not MODELS.is_dir():
        return []
    return sorted(path.name for path in MODELS.iterdir() if (path / "model.onnx").is_file())
