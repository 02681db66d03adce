"""Description of samples in files that have neither names nor real numbers: ``samples.toml``, next to the files.

scale = 0.00392156862745098         # real = scale * stored + offset: one number, or a list of one per channel
offset = 0.0
resize = "stretch"                  # of images, to the input's size; or "crop", for the middle part
classes = ["cat", "dog"]            # names of the classes 0, 1 ... in sub-folders and labels.csv
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.messages.text import short
from onnx_hw.messages.toml import read_toml
from onnx_hw.runtime.options import Resize

DESCRIPTION = "samples.toml"
MAX_DESCRIPTION_BYTES = 1 << 16


@dataclass(frozen=True)
class Scaling:
    """Scaling of stored numbers, real = scale * stored + offset, by one number each, or one per channel."""

    scale: np.ndarray
    offset: np.ndarray


@dataclass(frozen=True)
class Description:
    """Content of ``samples.toml``.

    Attributes:
        path: the file, which need not exist.
        scaling: real numbers that pixels and sounds stand for; None where nothing is said of them.
        resize: how images get the input's size; None for images that have it.
        classes: names of the classes, from 0; None for the order of the names.
    """

    path: Path
    scaling: Scaling | None = None
    resize: Resize | None = None
    classes: tuple[str, ...] | None = None


def read_description(folder: Path, resize: Resize | None = None) -> Description:
    """Return the content of ``samples.toml`` in a folder; an empty one where there is no such file.

    Args:
        resize: how images get another size, whatever the file says; None for what it says.

    Raises:
        UserError: stage ``samples``; what is wrong with the file.
    """
    path = folder / DESCRIPTION

    def refused(must_be: str) -> UserError:
        return user_error(
            "samples-scale",
            f"`{DESCRIPTION}` must be {must_be}",
            where=str(path),
            hint='such as `scale = 0.00392156862745098`, `offset = 0.0`, `resize = "stretch"`, `classes = ["a", "b"]`',
            stage="samples",
        )

    if not path.exists():
        return Description(path, resize=resize)
    stored = read_toml(path, MAX_DESCRIPTION_BYTES, refused)
    scaling = None
    if "scale" in stored or "offset" in stored:
        scaling = Scaling(*(_numbers(stored.pop(name, usual), name, refused) for name, usual in USUAL.items()))
    stated = stored.pop("resize", None)
    if stated is not None and stated not in tuple(Resize):
        raise refused(f"of `resize` as {' or '.join(repr(str(way)) for way in Resize)}, not {stated!r}")
    if resize is None and stated is not None:
        resize = Resize(stated)
    classes = stored.pop("classes", None)
    if classes is not None and not (
        isinstance(classes, list) and classes and all(isinstance(name, str) for name in classes)
    ):
        raise refused("of `classes` as a list of names")
    if stored:
        raise refused(f"of `scale`, `offset`, `resize` and `classes` only, not {', '.join(map(short, stored))}")
    return Description(path, scaling, resize, None if classes is None else tuple(classes))


USUAL = {"scale": 1.0, "offset": 0.0}
"""Numbers of a scaling that states only one of them."""


def _numbers(entry: Any, name: str, refused: Any) -> np.ndarray:
    each = entry if isinstance(entry, list) and entry else [entry]
    if not all(isinstance(n, (int, float)) and not isinstance(n, bool) and abs(n) < 1e30 for n in each):
        raise refused(f"of finite numbers; `{name}` is one, or a list of one per channel")
    return np.array(each, dtype=np.float64)
