"""Two products, so small that all that is left to wait for is the programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from support.qdq_models import Sketch


def small_model(path: Path) -> Path:
    """Write it: 8 numbers in, 12 between, 4 out."""
    sketch, values = Sketch(), np.random.default_rng(5)
    value = sketch.through_integers("x", 0.1, 0)
    for inputs, outputs in ((8, 12), (12, 4)):
        weights = sketch.dequantized(values.integers(-99, 99, (inputs, outputs), dtype=np.int8), np.float32(0.01))
        value = sketch.through_integers(sketch.node("MatMul", value, weights), 0.2, 0)
    return sketch.write(path, (1, 8), value, rank=2)
