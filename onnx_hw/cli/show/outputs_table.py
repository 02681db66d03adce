"""Outputs of a model on the terminal."""

from __future__ import annotations

import numpy as np
from rich.text import Text

from onnx_hw.messages.text import abridged
from onnx_hw.samples.outputs import Outputs, share_right

MAX_NUMBERS = 40  # of an output; the middle of a longer one is left out


def outputs_text(outputs: Outputs) -> Text:
    """Return name, dtype, shape and numbers of every output, samples first; and the accuracy where there are labels."""
    lines = []
    for name, array in outputs.items():
        numbers = np.array2string(array, threshold=MAX_NUMBERS, precision=5, suppress_small=True, max_line_width=100)
        lines.append(f"{abridged(name)}: {array.dtype}{list(array.shape)}\n{numbers}")
    if outputs.labels is not None and outputs:
        lines.append(f"accuracy: {share_right(outputs, outputs.labels):.2%} of {len(outputs.labels):,} samples")
    return Text("\n".join(lines))
