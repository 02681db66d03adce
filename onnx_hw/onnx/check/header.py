"""Rules for a file's statements about itself: IR version, metadata, device configurations, training graphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from onnx_hw.messages.text import quote
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.external_data import SideFiles
from onnx_hw.onnx.parse.strings import decode_remark, decode_text

#: Newest published version of the format.
NEWEST_IR: Final = 14

#: Annotation keys whose value names a tensor; other tools use other keys for their own purposes.
_ANNOTATIONS: Final = (b"SCALE_TENSOR", b"ZERO_POINT_TENSOR")


def check_ir_version(message: Any, findings: Findings) -> None:
    """Check that ``ir_version`` is there and was published."""
    version = message.ir_version
    hint = "the file may hold a graph or tensor alone" if not message.HasField("graph") else ""
    if not message.HasField("ir_version"):
        findings.must("ir-version-missing", "a model must say its ir_version", "ir_version", hint)
    elif version < 1:
        findings.must("ir-version", f"ir_version must be 1 or greater, not {version}", "ir_version", hint)
    elif version > NEWEST_IR:
        findings.newer(
            "ir-version",
            f"the newest published ir_version is {NEWEST_IR}; this is {version}",
            "ir_version",
            "save the model with an older onnx package, or try it as it is with --newer",
        )


def check_header(message: Any, findings: Findings, files: SideFiles) -> None:
    """Check everything that a ``ModelProto`` says outside its graph and functions."""
    for field in ("doc_string", "producer_name", "producer_version"):
        decode_remark(getattr(message, field), field, findings)
    if not decode_remark(message.domain, "domain", findings):
        findings.should("model-domain", "a model should name its domain, such as org.example", "domain")
    if not message.HasField("graph"):
        findings.must("graph-missing", "a model must have a graph", "graph")
    _check_metadata(message.metadata_props, "metadata_props", findings)
    _check_metadata(message.graph.metadata_props, "graph.metadata_props", findings)
    _check_annotations(message.graph, findings)
    _check_devices(message, findings)
    _check_training(message.training_info, findings, files)


def _check_metadata(entries: Iterable[Any], where: str, findings: Findings) -> None:
    keys: set[str] = set()
    for index, entry in enumerate(entries):
        key = decode_remark(entry.key, f"{where}[{index}]", findings)
        if not key:
            findings.should("metadata-key", "a metadata entry should have a key", f"{where}[{index}]")
        elif key in keys:
            findings.should("metadata-repeated", f"metadata key {quote(key)} should appear once", f"{where}[{index}]")
        keys.add(key)


def _check_annotations(graph: Any, findings: Findings) -> None:
    """Check quantization annotations, which are hints; one that names nothing is a mistake of the writer."""
    if not graph.quantization_annotation:
        return
    known = {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input}
    known.update(name for node in graph.node for name in node.output)
    for index, annotation in enumerate(graph.quantization_annotation):
        where = f"graph.quantization_annotation[{index}]"
        named = [annotation.tensor_name]
        named += [entry.value for entry in annotation.quant_parameter_tensor_names if entry.key in _ANNOTATIONS]
        for name in named:
            if name not in known:
                shown = quote(decode_text(name, where, findings))
                message = f"a quantization annotation should name values; there is no {shown}"
                findings.should("annotation-dangling", message, where)


def _check_devices(message: Any, findings: Findings) -> None:
    """Check placement hints for consistency only, for they never change a result."""
    names = [configuration.name for configuration in message.configuration]
    for index, configuration in enumerate(message.configuration):
        where = f"configuration[{index}]"
        if not configuration.name:
            findings.should("device-configuration", "a device configuration should have a name", where)
        if configuration.device and len(configuration.device) != configuration.num_devices:
            findings.should(
                "device-configuration",
                f"a device configuration of {configuration.num_devices} devices should list all of them, "
                f"not {len(configuration.device)}",
                where,
            )
    for index, node in enumerate(message.graph.node):
        for placed in node.device_configurations:
            if placed.configuration_id not in names:
                where = f"graph.node[{index}]"
                shown = quote(decode_text(placed.configuration_id, where, findings))
                findings.should("device-configuration", f"there is no device configuration {shown}", where)


def _check_training(training: Any, findings: Findings, files: SideFiles) -> None:
    """Check that no tensor of the training graphs points out of the model's folder; they are not read."""
    if not training:
        return
    findings.note("the model's training information is ignored")
    for index, entry in enumerate(training):
        for field in ("initialization", "algorithm"):
            for location, tensor in _tensors(getattr(entry, field), f"training_info[{index}].{field}"):
                if tensor.data_location == 1:
                    files.check_location(_entries(tensor, location, findings), location, findings)


def _entries(tensor: Any, where: str, findings: Findings) -> list[tuple[str, str]]:
    return [
        (decode_text(entry.key, where, findings), decode_text(entry.value, where, findings))
        for entry in tensor.external_data
    ]


def _tensors(graph: Any, where: str) -> Iterable[tuple[str, Any]]:
    """Yield every dense tensor of a graph and its subgraphs."""
    for index, tensor in enumerate(graph.initializer):
        yield f"{where}.initializer[{index}]", tensor
    for index, tensor in enumerate(graph.sparse_initializer):
        yield from _parts(tensor, f"{where}.sparse_initializer[{index}]")
    for number, node in enumerate(graph.node):
        for index, attribute in enumerate(node.attribute):
            location = f"{where}.node[{number}].attribute[{index}]"
            yield from ((location, tensor) for tensor in (attribute.t, *attribute.tensors))
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from _parts(sparse, location)
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _tensors(inner, location)


def _parts(sparse: Any, where: str) -> Iterable[tuple[str, Any]]:
    yield f"{where}.values", sparse.values
    yield f"{where}.indices", sparse.indices
