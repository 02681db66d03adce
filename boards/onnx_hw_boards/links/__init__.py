"""Links between a host and a board, one file per kind, found by its name."""

from __future__ import annotations

from importlib import import_module

from onnx_hw_boards.board_link import BoardLink

__all__ = ["link_of_kind"]


def link_of_kind(kind: str, bits_per_second: int) -> BoardLink:
    """Return the link of a kind, which is the name of its file, at a bit rate."""
    link: BoardLink = import_module(f"{__name__}.{kind}").LINK(bits_per_second)
    return link
