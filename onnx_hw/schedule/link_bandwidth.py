"""Frames per second that the link of a board carries."""

from __future__ import annotations

from onnx_hw.ir.network import Network
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.board_link import BoardLink
from onnx_hw_link.link import MOST_PAYLOAD, TRAILER

FRAMING_BYTES = 7
"""Bytes of a packet to the chip in addition to its payload: header, CRC, COBS and the zero behind it. Each packet also
says which results have come, so that nothing else has to while frames are sent.
"""

RESULT_FRAMING_BYTES = 8
"""Bytes of a packet of results in addition to its payload."""

PIECE = 254
"""Bytes of a frame that a packet to the chip has at most, on average: the buffer of 512 bytes holds two packets at a
time, with two bytes for the CRC of each.
"""


def frames_a_second(bytes_in: int, bytes_out: int, link: BoardLink) -> float:
    """Return the rate of frames with these sizes in bytes; both directions work at once."""
    results = bytes_out + TRAILER
    packets_in, packets_out = -(-bytes_in // PIECE), -(-results // MOST_PAYLOAD)
    payload = -(-results // packets_out)
    into, out = bytes_in + FRAMING_BYTES * packets_in, (payload + RESULT_FRAMING_BYTES) * packets_out
    return link.bytes_per_second / max(into, out)


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
