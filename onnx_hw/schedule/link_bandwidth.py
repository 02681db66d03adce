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
        -(-sum(frame_bits(types[tensor]) for tensor in {boundary.tensor for boundary in side}) // 8)
        for side in (network.inputs, network.outputs)
    )
    return frames_a_second(bytes_in, bytes_out, link)


def frame_bits(tensor: Tensor) -> int:
    """Return the bits of a frame: each integer takes its own."""
    return tensor.size * tensor.dtype.bits
