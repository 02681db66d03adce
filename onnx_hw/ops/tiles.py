"""Tiles of a product: pixels that are held and done group by group of results, so that a weight comes once for all.

A tile is a number of pixels of one row that divides it, or of whole rows that divide the image: all tiles are alike.
With several pixels side by side in a beat it is a number of beats.
"""

from __future__ import annotations

from typing import Any

from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor


def tiles_of(tensor: Tensor) -> tuple[int, ...]:
    """Return the pixels that a tile may have, ascending.

    >>> from onnx_hw.exact.integers import Int
    >>> tiles_of(Tensor((4, 6, 1), Int(8)))
    (1, 2, 3, 6, 12, 24)
    """
    rows, columns, _ = tensor.shape
    within = [pixels for pixels in range(1, columns) if columns % pixels == 0]
    return (*within, *(columns * some for some in range(1, rows + 1) if rows % some == 0))


def beats_of(tile: int, pixels: int, tensor: Tensor) -> int | None:
    """Return the beats of a tile of several pixels, with some side by side; None where it is not whole beats.

    Where a weight comes for each beat anew, a tile of one pixel, a beat may hold more.
    """
    if tile == 1:
        return 1
    if tile < tensor.shape[1] and tile % pixels:
        return None
    return Order(tensor, 1, pixels, tile).tile_groups


def pixels_of(tile: int, pixels: int, tensor: Tensor) -> int:
    """Return the pixels of a tile of some beats, for an order.

    Raises:
        ValueError: no tile has that many beats.
    """
    in_row = -(-tensor.shape[1] // pixels)
    if tile == 1:
        return pixels
    if tile < in_row:
        return tile * pixels
    if tile % in_row:
        raise ValueError(f"a tile must be beats of one row or whole rows of {in_row} beats, not {tile} beats")
    return tile // in_row * tensor.shape[1]


def group_counts(channels: int, *, few: bool) -> tuple[int, ...]:
    """Return the numbers of groups into which results may be cut, descending.

    Args:
        few: only those of a power of two of lanes, or of no more than that makes as many: each way to put the results
            of tiles back in the order of pixels takes a while to price.

    >>> group_counts(10, few=False), group_counts(10, few=True)
    ((10, 5, 4, 3, 2, 1), (10, 5, 3, 2, 1))
    """
    lanes = (1 << k for k in range(channels.bit_length() + 1)) if few else range(1, channels + 1)
    return tuple(dict.fromkeys(-(-channels // some) for some in lanes))


def wrong_tile(tile: int, wanted: int, pixels: int, tensor: Tensor) -> str:
    """Return why the beats of a tile cannot be those of the wanted pixels, or an empty text."""
    beats = beats_of(wanted, pixels, tensor)
    if beats is None:
        return f"pixels must divide {wanted} here, those of a tile"
    return "" if tile == beats else f"tile must be {beats} here"


def check_taped(product: Any) -> None:
    """Check what a product says about its tape.

    Raises:
        ValueError: its weights are loaded, too; or its pixels are not whole tiles.
    """
    if product.taped and product.loaded is not None:
        raise ValueError("weights must be on a tape or loaded, not both")
    if product.tile not in tiles_of(product.operand) or (product.tile > 1 and not product.taped):
        possible = tiles_of(product.operand) if product.taped else (1,)
        raise ValueError(f"a tile must have as many pixels as one of {possible} here, not {product.tile}")
