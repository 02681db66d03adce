"""Translation of protobuf messages to plain values, with every check that needs one message only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from onnx_hw.messages.text import printable, quote
from onnx_hw.onnx.parse.attributes import AttributeReader
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.external_data import SideFiles
from onnx_hw.onnx.parse.opsets import domain_of, read_opsets
from onnx_hw.onnx.parse.source_model import (
    SourceConstant,
    SourceFunction,
    SourceGraph,
    SourceModel,
    SourceNode,
    SourceValue,
)
from onnx_hw.onnx.parse.sparse_tensors import read_sparse_tensor
from onnx_hw.onnx.parse.strings import decode_remark, decode_text
from onnx_hw.onnx.parse.tensors import read_tensor
from onnx_hw.onnx.parse.value_types import read_type, read_value

MAIN_GRAPH = "graph"
"""Place of the model's own graph, whose initializers may be kept apart; those of subgraphs are not."""


class Translator:
    """Reader of one model's messages; whatever is wrong goes to ``findings``."""

    def __init__(
        self,
        findings: Findings,
        files: SideFiles,
        ir_version: int,
        raw_data: Mapping[int, bytes | memoryview] | None = None,
    ):
        """Prepare the reading; ``raw_data`` holds what is kept apart of the graph's initializers, by position."""
        self.findings = findings
        self.raw_data = raw_data or {}
        self.files = files
        readers = {
            "tensor": lambda message, where: read_tensor(message, where, findings, files),
            "sparse_tensor": lambda message, where: read_sparse_tensor(message, where, findings, files),
            "graph": self.graph,
            "type_proto": lambda message, where: read_type(message, where, findings),
        }
        self.attributes = AttributeReader(ir_version, findings, readers)

    def model(self, message: Any) -> SourceModel:
        return SourceModel(
            ir_version=message.ir_version,
            opsets=read_opsets(message.opset_import, message.ir_version, "opset_import", self.findings),
            graph=self.graph(message.graph, MAIN_GRAPH),
            functions=tuple(
                self.function(function, index, message.ir_version) for index, function in enumerate(message.functions)
            ),
            producer=" ".join(
                printable(field.decode("utf-8", "backslashreplace"))
                for field in (message.producer_name, message.producer_version)
                if field
            ),
        )

    def graph(self, message: Any, where: str) -> SourceGraph:
        decode_remark(message.doc_string, where, self.findings)
        return SourceGraph(
            name=decode_text(message.name, where, self.findings),
            nodes=self.nodes(message.node, where),
            inputs=self.values(message.input, f"{where}.input"),
            outputs=self.values(message.output, f"{where}.output"),
            values=self.values(message.value_info, f"{where}.value_info"),
            constants=self.constants(message, where),
            where=where,
        )

    def constants(self, graph: Any, where: str) -> tuple[SourceConstant, ...]:
        constants = []
        for index, message in enumerate(graph.initializer):
            name, entry_where = self.name(message.name, f"{where}.initializer[{index}]")
            raw_data = self.raw_data.get(index) if where == MAIN_GRAPH else None
            tensor = read_tensor(message, entry_where, self.findings, self.files, raw_data)
            constants.append(SourceConstant(name, tensor, entry_where))
        for index, message in enumerate(graph.sparse_initializer):
            name, entry_where = self.name(message.values.name, f"{where}.sparse_initializer[{index}]")
            constants.append(
                SourceConstant(name, read_sparse_tensor(message, entry_where, self.findings, self.files), entry_where)
            )
        return tuple(constants)

    def name(self, data: bytes, where: str) -> tuple[str, str]:
        """Decode a name; return it with the place to which the name was added."""
        name = decode_text(data, where, self.findings)
        return name, f"{where}({quote(name)})" if name else where

    def values(self, messages: Sequence[Any], where: str) -> tuple[SourceValue, ...]:
        return tuple(
            read_value(message, *self.name(message.name, f"{where}[{index}]"), self.findings)
            for index, message in enumerate(messages)
        )

    def nodes(self, messages: Sequence[Any], where: str) -> tuple[SourceNode, ...]:
        return tuple(self.node(message, f"{where}.node[{index}]") for index, message in enumerate(messages))

    def node(self, message: Any, where: str) -> SourceNode:
        findings = self.findings
        op_type = decode_text(message.op_type, where, findings)
        name = decode_text(message.name, where, findings)
        if message.doc_string:
            decode_remark(message.doc_string, where, findings)
        node = SourceNode(
            name=name,
            op_type=op_type,
            domain=domain_of(decode_text(message.domain, where, findings)),
            overload=decode_text(message.overload, where, findings),
            inputs=tuple([decode_text(data, where, findings) for data in message.input]),
            outputs=tuple([decode_text(data, where, findings) for data in message.output]),
            attributes=(),
            where=where,
        )
        if not message.attribute:
            return node
        location = node.location
        return replace(
            node,
            attributes=tuple(
                self.attributes.read(attribute, location, index) for index, attribute in enumerate(message.attribute)
            ),
        )

    def function(self, message: Any, index: int, ir_version: int) -> SourceFunction:
        findings = self.findings
        name, where = self.name(message.name, f"functions[{index}]")
        return SourceFunction(
            name=name,
            domain=domain_of(decode_text(message.domain, where, findings)),
            overload=decode_text(message.overload, where, findings),
            inputs=tuple(decode_text(data, where, findings) for data in message.input),
            outputs=tuple(decode_text(data, where, findings) for data in message.output),
            attributes=tuple(decode_text(data, where, findings) for data in message.attribute),
            defaults=tuple(
                self.attributes.read(attribute, where, k) for k, attribute in enumerate(message.attribute_proto)
            ),
            nodes=self.nodes(message.node, where),
            values=self.values(message.value_info, f"{where}.value_info"),
            opsets=read_opsets(message.opset_import, ir_version, f"{where}.opset_import", findings),
            where=where,
        )
