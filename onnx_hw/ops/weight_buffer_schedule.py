"""Timing of the buffer between the writer of a product's weights and its multipliers."""

from __future__ import annotations

import numpy as np

from onnx_hw.ops.affine_ranges import AffineSequence, LoopTurns
from onnx_hw.ops.schedule import Engine, Schedule, SharedBuffer


def with_weight_buffer(engine: Engine, *, words: int, beats: int, stack: int, capacity: int) -> Schedule:
    """Return the schedule of a product's engine whose weights come through a buffer.

    Args:
        words: words of weights per frame.
        beats: words of a group of results.
        stack: matrices per frame.
        capacity: words that the buffer holds.
    """
    waits = every = AffineSequence.every(words)
    last_tile = engine.operations - words
    if stack == 1 or not last_tile:
        turn = LoopTurns(last_tile + beats - 1, words // beats, beats, np.zeros(beats, dtype=np.int64))
        given_back = AffineSequence((turn,))
    else:
        matrices = np.arange(stack) * (engine.operations // stack)
        index = np.arange(words // stack)
        waits = AffineSequence.rows(matrices, index)
        given_back = AffineSequence.rows(matrices, (last_tile // stack + index) // beats * beats + beats - 1)
    writer = Engine("weights", words, 0, pops={"w": every})
    buffer = SharedBuffer("weights", "matmul", capacity, waits, every, given_back, "the weights")
    return Schedule((writer, engine), (buffer,))
