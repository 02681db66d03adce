"""Frames per second that the link of a board carries."""

from __future__ import annotations

from onnx_hw.ir.network import Network
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.board_link import BoardLink
from onnx_hw_link.link import MOST_PAYLOAD, TRAILER

FRAMING_BYTES = 12
"""Bytes of a frame to the chip in addition to its own: headers, CRCs and the like of its packets."""

RESULT_FRAMING_BYTES = 8
"""Bytes of a packet of results in addition to its payload: header, CRC, COBS and the zero behind it."""


def frames_a_second(bytes_in: int, bytes_out: int, link: BoardLink) -> float:
    """Return the rate of frames with these sizes in bytes; both directions work at once."""
    results = bytes_out + TRAILER
    packets = -(-results // MOST_PAYLOAD)
    return link.bytes_per_second / max(bytes_in + FRAMING_BYTES, results + RESULT_FRAMING_BYTES * packets)


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
