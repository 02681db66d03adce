"""A model whose author has left some values in floats gets integers for them, where hardware needs them.

onnxruntime's quantizer, for one, puts nothing between a HardSwish and an average: a sum of such numbers is a sum of
integers only once they have a scale.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx_hw.broken import refuse
from onnx_hw.errors import UserError
from onnx_hw.network import Network
from onnx_hw.onnx.model import Graph, Model, Node
from onnx_hw.onnx.products import is_product
from onnx_hw.onnx.verify_model import faults_of_folded
from onnx_hw.quantize.builder import Obstacle
from onnx_hw.quantize.calibrate import Ranges
from onnx_hw.quantize.import_model import Walk, import_prepared
from onnx_hw.quantize.in_float32 import in_float32
from onnx_hw.quantize.insert_quantization import insert_quantization
from onnx_hw.quantize.rehearsal import stand_in
from onnx_hw.quantize.scheme import DEFAULT, Scheme


def import_completed(
    model: Model, ranges: Ranges | None, scheme: Scheme = DEFAULT
) -> tuple[Network, Model, tuple[str, ...]]:
    """The network of a quantized model; values that lack integers get them.

    Args:
        model: as ``prepared``.
        ranges: of such values; None if nothing is known of them.
        scheme: of their integers.

    Returns:
        the network, the model that it is the network of, the names of the values that got integers.

    Raises:
        UserError: every obstacle, with the nodes' own names; a value is not finite during calibration.
    """
    try:
        return import_prepared(model), model, ()
    except UserError:
        if ranges is None:
            raise
        plain = in_float32(model)
        points = missing_quantizers(plain)
        if not points:
            raise
    completed = insert_quantization(plain, points, ranges(plain, points), scheme=scheme)
    refuse("model", faults_of_folded(completed), "insert_quantization")
    return import_prepared(completed), completed, points


def missing_quantizers(model: Model) -> tuple[str, ...]:
    """The values before a product that hardware needs as integers and the model leaves in floats.

    Args:
        model: as ``prepared``.
    """
    assumed: tuple[str, ...] = ()
    while True:
        walk = _Assuming(model.graph, assumed)
        for node in model.graph.nodes:
            walk.visit(node)
        if len(walk.behind) == len(assumed):
            return tuple(walk.assumed)
        assumed = tuple(walk.behind)


class _Assuming(Walk):
    """A walk that takes each value for quantized that would have to be.

    Attributes:
        assumed: their names.
        behind: those that are known from the walk before, or for the next one: other values were made of them.
        before_products: values that some product depends on.
    """

    def __init__(self, graph: Graph, known: Sequence[str]) -> None:
        super().__init__(graph)
        self.assumed: list[str] = []
        self.behind = list(known)
        self.before_products: set[str] = set()
        for node in reversed(graph.nodes):
            if is_product(node) or self.before_products.intersection(node.outputs):
                self.before_products.update(node.inputs)

    def visit(self, node: Node) -> None:
        super().visit(node)
        for name in node.outputs:
            if name in self.behind:
                self._assume(name)

    def _to_tail(self, node: Node, obstacle: Obstacle | None) -> None:
        name = "" if obstacle is None else obstacle.needs
        if name in node.inputs and self._assume(name):
            self._lower(node)
            return
        if name in self.before_products and name not in (*node.inputs, *self.behind):
            self.behind.append(name)
        super()._to_tail(node, obstacle)

    def _assume(self, name: str) -> bool:
        """Whether this is a value to be quantized; from now on it is one that is."""
        if name not in self.before_products or name in self.assumed:
            return False
        if name not in self.builder.values and name not in self.builder.pending:
            return False
        self.assumed.append(name)
        self.builder.pending.pop(name, None)
        stand_in(self.builder, name)
        return True
