"""A model's outputs on the terminal."""

from __future__ import annotations

import numpy as np
from rich.text import Text

from onnx_hw.messages.text import abridged
from onnx_hw.samples.outputs import Outputs, share_right

SHOWN = 40  # numbers of an output; more are left out in its middle


def described(outputs: Outputs) -> Text:
    """Name, dtype, shape and the numbers of every output, samples first; and the accuracy where there are labels."""
    lines = []
    for name, array in outputs.items():
        numbers = np.array2string(array, threshold=SHOWN, precision=5, suppress_small=True, max_line_width=100)
        lines.append(f"{abridged(name)}: {array.dtype}{list(array.shape)}\n{numbers}")
    if outputs.labels is not None and outputs:
        lines.append(f"accuracy: {share_right(outputs, outputs.labels):.2%} of {len(outputs.labels):,} samples")
    return Text("\n".join(lines))
