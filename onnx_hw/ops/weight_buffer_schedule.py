"""Timing of a product, and of the buffer between the writer of its weights and its multipliers."""

from __future__ import annotations

import numpy as np

from onnx_hw.ops.affine_ranges import AffineSequence, LoopTurns
from onnx_hw.ops.schedule import Engine, Schedule, SharedBuffer


def product_engine(latency: int, *, tiles: int, groups: int, tile: int, beats: int) -> Engine:
    """Return the engine of the multipliers: for each tile, group of results and beat of pixels, each beat of a vector.

    Vectors come for the first group.

    Args:
        tiles: of a frame.
        groups: of the results of a vector.
        tile: beats of pixels of a tile.
        beats: of a vector.
    """
    held = tile * beats
    first_group = LoopTurns(0, tiles, groups * held, np.arange(held, dtype=np.int64))
    one_by_one = AffineSequence.every(tiles * held)
    return Engine(
        "matmul",
        tiles * groups * held,
        latency,
        pops={"i": AffineSequence((first_group,)) if groups > 1 and tiles > 1 else one_by_one},
        pushes={"o": AffineSequence.every(tiles * groups * tile, beats, beats - 1)},
    )


def with_tile_buffer(engine: Engine, *, words: int, beats: int, tile: int, capacity: int) -> Schedule:
    """Return the schedule of a product's engine that reads the words of a group for each beat of pixels of a tile.

    Args:
        words: words of weights per frame.
        beats: words of a group of results.
        tile: beats of pixels of a tile.
        capacity: words that the buffer holds.
    """
    held, groups, every = tile * beats, words // beats, AffineSequence.every(words)
    waits = AffineSequence((LoopTurns(0, groups, held, np.arange(beats, dtype=np.int64)),))
    given_back = AffineSequence((LoopTurns(held - 1, groups, held, np.zeros(beats, dtype=np.int64)),))
    writer = Engine("weights", words, 0, pops={"w": every})
    return Schedule(
        (writer, engine), (SharedBuffer("weights", "matmul", capacity, waits, every, given_back, "the weights"),)
    )


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
