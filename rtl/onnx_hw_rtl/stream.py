"""The one stream of the project: Amaranth's ``lib.stream`` carrying ``lanes`` integers per token.

A tensor usually travels in NHWC order, channel innermost, one pixel after the other; a core may take several pixels of
a row side by side in a token, the channels of each together. No token reaches beyond the channels of its pixels nor
beyond a row, so the last one of either is partly unused. There is no ``last`` flag: every core counts.
"""

from __future__ import annotations

from amaranth.hdl import Shape, Value
from amaranth.lib import data, stream

__all__ = ["beat", "bits_of", "signature"]


def beat(lanes: int, bits: int, signed: bool = True) -> data.ArrayLayout:
    """The payload of a stream: an array of ``lanes`` integers, lane 0 in the lowest bits."""
    return data.ArrayLayout(Shape(bits, signed), lanes)


def signature(lanes: int, bits: int, signed: bool = True) -> stream.Signature:
    """The signature of a stream of ``beat(lanes, bits, signed)``."""
    return stream.Signature(beat(lanes, bits, signed))


def bits_of(payload: data.View | Value) -> Value:
    """A payload as one flat vector."""
    return Value.cast(payload)
