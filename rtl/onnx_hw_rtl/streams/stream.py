"""Stream format of the project: Amaranth's ``lib.stream`` with ``lanes`` integers per token.

A tensor usually travels in NHWC order, channel innermost, one pixel after the other; a core may take several pixels of
a row side by side in one token, the channels of each together. No token reaches beyond the channels of its pixels nor
beyond a row, so the last token of either may be partly unused. There is no ``last`` flag: every core counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Shape, Value
from amaranth.lib import data, stream


@dataclass(frozen=True)
class StreamShape:
    """Contents of a token of a stream: some pixels side by side, with some channels of each.

    Attributes:
        lanes: channels of each pixel.
        bits, signed: shape of an element.
        pixels: number of pixels in a token.
    """

    lanes: int
    bits: int
    signed: bool = True
    pixels: int = 1

    @property
    def width(self) -> int:
        """Number of elements of a token."""
        return self.pixels * self.lanes

    @property
    def element(self) -> Shape:
        return Shape(self.bits, self.signed)

    @property
    def payload(self) -> data.ArrayLayout:
        """Layout of a token: channel c of pixel p at index p · ``lanes`` + c."""
        return beat(self.width, self.bits, self.signed)


def beat(lanes: int, bits: int, signed: bool = True) -> data.ArrayLayout:
    """Return the payload of a stream: an array of ``lanes`` integers, lane 0 in the lowest bits."""
    return data.ArrayLayout(Shape(bits, signed), lanes)


def signature(lanes: int, bits: int, signed: bool = True) -> stream.Signature:
    """Return the signature of a stream of ``beat(lanes, bits, signed)``."""
    return stream.Signature(beat(lanes, bits, signed))


def groups_of(count: int, size: int) -> int:
    """Return the number of groups of ``size`` neighbours, channels or pixels; the last group may be smaller."""
    return -(-count // size)


def bits_of(payload: data.View | Value) -> Value:
    """Return a payload as one flat vector."""
    return Value.cast(payload)
