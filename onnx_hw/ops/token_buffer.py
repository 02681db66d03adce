"""Buffers of cores that read all elements of a pixel before they make the first result of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_hw.ops.schedule import SharedBuffer


def pixel_buffer(
    writer: str, reader: str, *, pixels: int, beats: int, steps: int = 1, name: str = "the buffer"
) -> SharedBuffer:
    """Return the schedule of a buffer whose reader waits for the last beat of a pixel before it reads the first one.

    A beat is given back once it is read. The buffer holds a pixel and a beat more, so that the next pixel may follow
    without a pause.

    Args:
        writer, reader: names of the engines.
        beats: beats of a pixel.
        steps: operations of the reader for each beat; the last of them gives the beat back.
    """
    operations = np.arange(beats * steps)
    buffer = SharedBuffer.of_turns(beats + 1, pixels, np.full(beats * steps, beats - 1), (operations + 1) // steps)
    return replace(buffer, writer=writer, reader=reader, name=name)
