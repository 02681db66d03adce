"""Where declared shapes may count a window that does not exist.

With ``ceil_mode`` a window that would begin in the padding behind the tensor is left out, as the specification says and
as runtimes compute. Shape inference before opset 22 counts it, and writes what follows from it all the way behind.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators.pooling import pool_window
from onnx_hw.onnx.operators.tensor_type import TensorType


def behind_left_out_windows(graph: Graph, types: Mapping[str, TensorType]) -> set[str]:
    """The results of poolings that leave out a window, and of all nodes that depend on them."""
    found: set[str] = set()
    for node in graph.nodes:
        if any(name in found for name in node.inputs) or _leaves_out(node, types):
            found.update(node.outputs)
    return found


def _leaves_out(node: Node, types: Mapping[str, TensorType]) -> bool:
    given = node.attributes
    if not given.get("ceil_mode") or "kernel_shape" not in given or node.inputs[0] not in types:
        return False
    auto_pad, ceil_mode = given.get("auto_pad", "NOTSET"), given["ceil_mode"]
    others = (given.get(name) for name in ("dilations", "pads", "strides"))
    try:
        return pool_window(types[node.inputs[0]].shape, given["kernel_shape"], auto_pad, ceil_mode, *others).left_out
    except ValueError:
        return False
