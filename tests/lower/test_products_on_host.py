"""Whatever multiplies and accumulates is in hardware, or the model is refused: of every operator, in every domain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_hw import flow
from onnx_hw.ir.mac_counts import macs_in_hardware
from onnx_hw.ir.network import Network
from onnx_hw.ir.verify_network import faults_of_network
from onnx_hw.lower.lower_model import import_model
from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.canonicalize.is_quantized import is_quantized
from onnx_hw.onnx.evaluate.infer_shapes import infer
from onnx_hw.onnx.evaluate.unroll_control_flow import NODE_LIMIT
from onnx_hw.onnx.graph.model import Model as OnnxModel
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.load.read import read
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.quantization.post_training import quantize_without_data
from onnx_hw.runtime.options import ReadOptions
from support.fixture_paths import EXAMPLES
from support.random_mac_nodes import CHANNELS_LAST, MICROSOFT, NEWEST, PRODUCTS, Draw, Product

UINT8, FLOAT = TensorProto.UINT8, TensorProto.FLOAT
NAME = "the product"


class Sketched:
    """A model around a product."""

    def __init__(self, product: Product, *, constant: bool) -> None:
        """``constant``: all inputs but the data are constants; else all are inputs of the graph."""
        self.product, self.constants = product, []
        names = [f"x{k}" for k in range(len(product.inputs))]
        self.inputs = {name: of for name, of in zip(names, product.inputs, strict=True) if name == "x0" or not constant}
        for name, array in zip(names, product.inputs, strict=True):
            if name not in self.inputs:
                self.constants.append(numpy_helper.from_array(array, name))
        results = [f"y{k}" for k in range(product.results)]
        self.node = helper.make_node(product.op_type, names, results, NAME, domain=product.domain, **product.attributes)
        self.nodes = [self.node]
        self.output = "y0"
        for name, array in (("scale", np.float32(0.05)), ("zero", np.uint8(7))):  # type: ignore[assignment]
            self.constants.append(numpy_helper.from_array(np.asarray(array), name))

    def relu(self, source: str, result: str) -> list[onnx.NodeProto]:
        """Quantized by both sides: it is in hardware."""
        steps = ("QuantizeLinear", "DequantizeLinear", "Relu", "QuantizeLinear", "DequantizeLinear")
        nodes = []
        for k, step in enumerate(steps):
            following = result if k == len(steps) - 1 else f"{result}/{k}"
            scaling = ["scale", "zero"] if step != "Relu" else []
            nodes.append(helper.make_node(step, [source, *scaling], [following]))
            source = following
        return nodes

    def with_hardware_behind(self) -> Sketched:
        self.nodes += [helper.make_node("Cast", ["y0"], ["real"], to=FLOAT), *self.relu("real", "end")]
        self.output = "end"
        return self

    def with_hardware_before(self) -> Sketched:
        element = helper.np_dtype_to_tensor_dtype(self.inputs["x0"].dtype)
        self.node.input[0] = "given"
        before = [helper.make_node("Cast", ["x0"], ["begin"], to=FLOAT), *self.relu("begin", "bounded")]
        self.nodes = [*before, helper.make_node("Cast", ["bounded"], ["given"], to=element), *self.nodes]
        return self

    def network(self, folder: Path, result: np.ndarray | None = None) -> Network:
        model = infer(read(self.write(folder, result), newer=True))
        if not is_quantized(model):
            model = quantize_without_data(model)
        return import_model(model)

    def write(self, folder: Path, result: np.ndarray | None = None) -> Path:
        def value(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

        result = compute(self.product.node, self.product.inputs)[0] if result is None else result
        output = value(self.output, result if self.output == "y0" else result.astype(np.float32))
        inputs = [value(name, array) for name, array in self.inputs.items()]
        graph = helper.make_graph(self.nodes, "g", inputs, [output], self.constants)
        domains = [helper.make_opsetid(domain, 1) for domain in (MICROSOFT, CHANNELS_LAST)]
        opsets = [helper.make_opsetid("", NEWEST), *domains]
        path = folder / "model.onnx"
        path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
        return path


TWO_TENSORS = {
    *(("", name) for name in ("MatMul", "MatMulInteger", "Gemm", "Einsum", "Attention")),
    *(("", name) for name in ("Conv", "ConvInteger", "ConvTranspose")),
    *((MICROSOFT, name) for name in ("FusedMatMul", "FusedGemm", "FusedConv")),
    (CHANNELS_LAST, "Conv"),
}
"""What is built where neither operand is constant."""


@pytest.mark.parametrize("key", PRODUCTS, ids=".".join)
def test_no_product_of_what_is_not_constant_is_left_to_the_host(key, tmp_path):
    """No matter where the hardware is, weights that are inputs of the graph: most keep a product out of it."""
    built = 0
    for seed, around in enumerate((lambda m: m, Sketched.with_hardware_behind, Sketched.with_hardware_before)):
        built += in_hardware(around(Sketched(PRODUCTS[key](Draw(seed)), constant=False)), tmp_path)
    assert bool(built) == (key in TWO_TENSORS)


@pytest.mark.parametrize("key", PRODUCTS, ids=".".join)
def test_a_product_of_constants_is_in_hardware_or_refused(key, tmp_path):
    for seed, around in enumerate((lambda m: m, Sketched.with_hardware_behind, Sketched.with_hardware_before)):
        in_hardware(around(Sketched(PRODUCTS[key](Draw(seed)), constant=True)), tmp_path)


def in_hardware(model, folder):
    """Whether the product is; else it is refused and named."""
    network = None
    problems: tuple[Problem, ...] = ()
    try:
        network = model.network(folder)
    except UserError as error:
        problems = error.problems
    named = any(NAME in problem.where or NAME in problem.hint for problem in problems)
    assert named if network is None else macs_in_hardware(network) == 1
    return network is not None


def test_a_product_in_a_subgraph_is_refused(tmp_path):
    """A Scan, too long to be unrolled, over rows that a matrix multiplies."""
    weights = numpy_helper.from_array(np.ones((3, 3), np.float32), "w")
    body = helper.make_graph(
        [helper.make_node("MatMul", ["row", "w"], ["made"])],
        "body",
        [helper.make_tensor_value_info("row", FLOAT, [3])],
        [helper.make_tensor_value_info("made", FLOAT, [3])],
        [weights],
    )
    rows = np.ones((NODE_LIMIT + 1, 3), np.float32)
    for around in (Sketched.with_hardware_behind, Sketched.with_hardware_before):
        model = Sketched(Product("Scan", "", [rows], {"body": body, "num_scan_inputs": 1}), constant=True)
        with pytest.raises(UserError) as caught:
            around(model).network(tmp_path, rows)
        (problem,) = caught.value.problems
        assert problem.code == "unsupported" and NAME in problem.where


@pytest.mark.parametrize("op_type", ["MatMulBnb4", "MultiHeadAttention", "Attention", "QAttention", "MoE"])
def test_an_operator_that_nobody_knows_is_refused(op_type, tmp_path):
    """It may multiply, too."""
    model = Sketched(Product("Relu", "", [np.ones((1, 2, 3), np.float32)]), constant=True).with_hardware_before()
    model.node.op_type, model.node.domain = op_type, MICROSOFT
    with pytest.raises(UserError) as caught:
        flow.quantize(flow.read(model.write(tmp_path), ReadOptions(newer=True)))
    assert [problem.code for problem in caught.value.problems] == ["operator-unsupported"]


MACS = {"conv1": 8 * 8 * 9 * 8, "conv2": 4 * 4 * 9 * 8 * 16, "fc": 64 * 10}
"""Of the bundled example."""


def test_the_share_is_counted_on_both_sides_of_the_border():
    model = flow.read(EXAMPLES / "digits" / "digits.onnx")
    network = flow.quantize(model)
    assert sorted(network.macs.values()) == sorted(MACS.values()) and macs_in_hardware(network) == 1.0
    products = [node for node in model.graph.nodes if node.label in network.macs]
    for count in range(1, len(products) + 1):
        moved = products[-count:]
        share = 1 - sum(network.macs[node.label] for node in moved) / sum(MACS.values())
        cut = on_host(network, model, moved)
        assert macs_in_hardware(cut) == pytest.approx(share)
        refused = [
            fault.node for fault in faults_of_network(replace(cut, nodes=network.nodes)) if "multiply" in fault.what
        ]
        assert refused == [node.label for node in moved]


def on_host(network: Network, model: OnnxModel, moved: list[Node]) -> Network:
    """The network without the hardware of some nodes, which stand in its tail instead."""
    labels = {node.label for node in moved}
    nodes = tuple(node for node in network.nodes if not labels.intersection(node.origin))
    assert network.tail is not None
    graph = network.tail.graph
    tail = replace(graph, nodes=(*moved, *graph.nodes), values={**model.graph.values, **graph.values})
    return replace(network, nodes=nodes, tail=replace(network.tail, graph=tail))


def test_a_model_without_products_has_no_share(tmp_path):
    network = Sketched(Product("Relu", "", [np.ones((1, 2, 3), np.float32)]), constant=True).network(tmp_path)
    assert macs_in_hardware(network) is None and not network.macs
