"""Small ONNX files for the tests, written with the ``onnx`` package."""

from __future__ import annotations

from pathlib import Path

from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor, make_tensor_value_info

from onnx import ModelProto, TensorProto, helper
from onnx_hw.onnx.load.check_file import CheckReport, check

FLOAT = TensorProto.FLOAT


def value(name: str, shape=(2,), element: int = FLOAT):
    """A graph input or output."""
    return make_tensor_value_info(name, element, shape)


def model(nodes, *, inputs=None, outputs=None, constants=(), values=(), opset=13, ir=8, **more) -> ModelProto:
    """A model from ``x`` float[2] to ``y`` float[2], unless said otherwise; ``opset`` may be a dict by domain."""
    graph = make_graph(
        nodes,
        "g",
        [value("x")] if inputs is None else inputs,
        [value("y")] if outputs is None else outputs,
        list(constants),
        value_info=list(values),
    )
    opsets = opset if isinstance(opset, dict) else {"": opset}
    imports = [make_opsetid(domain, version) for domain, version in opsets.items()]
    return make_model(graph, ir_version=ir, opset_imports=imports, domain="org.example", **more)


def relu(**more) -> ModelProto:
    """The smallest model: one Relu from x to y."""
    return model([make_node("Relu", ["x"], ["y"])], **more)


def tensor(name: str, element: int, shape, values):
    return make_tensor(name, element, shape, values)


def write(folder: Path, content: ModelProto | bytes, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    return path


def checked(folder: Path, content: ModelProto | bytes, **options) -> CheckReport:
    """The report on a model that is written to a file first."""
    return check(write(folder, content), **options)


def codes(report: CheckReport) -> list[str]:
    """Every problem as ``stage:code``."""
    return [f"{problem.stage}:{problem.code}" for problem in report.problems]


def warned(report: CheckReport) -> list[str]:
    return [problem.code for problem in report.warnings]


def branch(name: str, nodes, outputs, constants=()):
    """A subgraph without inputs."""
    return make_graph(nodes, name, [], outputs, list(constants))


def conditional(then_nodes, else_nodes, **more) -> ModelProto:
    """An If from c (bool) and x to y; both branches give ``r``."""
    names = [value("r")], [value("q")]
    node = make_node(
        "If",
        ["c"],
        ["y"],
        "choose",
        then_branch=branch("then", then_nodes, names[0]),
        else_branch=branch("else", else_nodes, names[1]),
    )
    before = more.pop("before", [])
    after = more.pop("after", [])
    inputs = [value("c", (), TensorProto.BOOL), value("x")]
    return model([*before, node, *after], inputs=inputs, **more)


__all__ = [
    "FLOAT", "TensorProto", "branch", "checked", "codes", "conditional", "helper", "make_graph", "make_node",
    "make_opsetid", "model", "relu", "tensor", "value", "warned", "write",
]  # fmt: skip
