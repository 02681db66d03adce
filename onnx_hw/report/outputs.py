"""A model's outputs on the terminal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rich.text import Text

from onnx_hw.spelling import abridged

SHOWN = 40  # numbers of an output; more are left out in its middle


def described(outputs: Mapping[str, np.ndarray]) -> Text:
    """Name, dtype, shape and the numbers of every output; samples are on the first axis."""
    lines = []
    for name, array in outputs.items():
        numbers = np.array2string(array, threshold=SHOWN, precision=5, suppress_small=True, max_line_width=100)
        lines.append(f"{abridged(name)}: {array.dtype}{list(array.shape)}\n{numbers}")
    return Text("\n".join(lines))
