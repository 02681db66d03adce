"""The one stream of the project: Amaranth's ``lib.stream`` carrying ``lanes`` integers per token.

A tensor usually travels in NHWC order, channel innermost, one pixel after the other; a core may take several pixels of
a row side by side in a token, the channels of each together. No token reaches beyond the channels of its pixels nor
beyond a row, so the last one of either is partly unused. There is no ``last`` flag: every core counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Shape, Value
from amaranth.lib import data, stream

__all__ = ["StreamShape", "beat", "bits_of", "groups_of", "signature"]


@dataclass(frozen=True)
class StreamShape:
    """What a token of a stream holds: some pixels side by side, of each of them some channels.

    Attributes:
        lanes: channels of a pixel.
        bits, signed: of an element.
        pixels: of a token.
    """

    lanes: int
    bits: int
    signed: bool = True
    pixels: int = 1

    @property
    def width(self) -> int:
        """Elements of a token."""
        return self.pixels * self.lanes

    @property
    def element(self) -> Shape:
        return Shape(self.bits, self.signed)

    @property
    def payload(self) -> data.ArrayLayout:
        """Channel c of pixel p at place p · ``lanes`` + c."""
        return beat(self.width, self.bits, self.signed)


def beat(lanes: int, bits: int, signed: bool = True) -> data.ArrayLayout:
    """The payload of a stream: an array of ``lanes`` integers, lane 0 in the lowest bits."""
    return data.ArrayLayout(Shape(bits, signed), lanes)


def signature(lanes: int, bits: int, signed: bool = True) -> stream.Signature:
    """The signature of a stream of ``beat(lanes, bits, signed)``."""
    return stream.Signature(beat(lanes, bits, signed))


def groups_of(count: int, size: int) -> int:
    """Groups of ``size`` neighbours, of the channels of a pixel or of the pixels of a row; the last may be smaller."""
    return -(-count // size)


def bits_of(payload: data.View | Value) -> Value:
    """A payload as one flat vector."""
    return Value.cast(payload)
