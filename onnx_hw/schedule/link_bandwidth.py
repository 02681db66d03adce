"""Frames per second that the link of a board carries."""

from __future__ import annotations

from onnx_hw.ir.network import Network
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.board_link import BoardLink

FRAMING_BYTES = 12
"""Bytes of a frame in addition to its own: headers, CRCs and the like of its packets, in each direction."""


def frames_a_second(bytes_in: int, bytes_out: int, link: BoardLink) -> float:
    """Return the rate of frames with these sizes in bytes; both directions work at once."""
    return link.bytes_per_second / (max(bytes_in, bytes_out) + FRAMING_BYTES)


def most_frames_a_second(network: Network, link: BoardLink) -> float:
    """Return the largest rate of a network's frames, which beats without unused places reach."""
    types = network.tensors
    bytes_in, bytes_out = (
        sum(frame_bytes(types[tensor]) for tensor in {boundary.tensor for boundary in side})
        for side in (network.inputs, network.outputs)
    )
    return frames_a_second(bytes_in, bytes_out, link)


def frame_bytes(tensor: Tensor) -> int:
    """Return the bytes of a frame: an integer takes the fewest whole bytes; eight single bits take one byte."""
    size, bits = tensor.size, tensor.dtype.bits
    return -(-size // 8) if bits == 1 else size * -(-bits // 8)
