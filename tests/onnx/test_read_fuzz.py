"""Damaged models: whatever is done to a file, the answer is a report, soon, in bounded memory; never a traceback."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.message import DecodeError

from onnx import helper
from onnx_hw.onnx.load.check_file import check
from onnx_hw.onnx.parse.protobuf_schema import ModelProto
from support.cpu_time_limit import own_seconds
from support.fixture_paths import IRCORPUS
from support.onnx_files import TensorProto, branch, conditional, make_graph, make_node, model, relu, tensor, value

LONGEST = 2.0  # seconds for one file
LARGEST = 1 << 30  # bytes of memory more than before


def bundled() -> list[bytes]:
    """Small models that between them use every message of the format."""
    weights = [
        tensor("w", TensorProto.FLOAT, (2, 2), [1, 2, 3, 4]),
        helper.make_tensor("k", TensorProto.INT4, (3,), [1, 2, 3]),
        TensorProto(name="e", dims=[2], data_type=1, data_location=1),
    ]
    weights[2].external_data.add(key="location", value="model.onnx")
    weights[2].external_data.add(key="length", value="8")
    mlp = model(
        [
            make_node("Constant", [], ["shape"], value_ints=[1, 2]),
            make_node("Reshape", ["x", "shape"], ["t"]),
            make_node("Gemm", ["t", "w"], ["u"], alpha=0.5, transB=1),
            make_node("Softmax", ["u"], ["y"], axis=-1),
        ],
        inputs=[value("x", ("N",))],
        outputs=[value("y", (1, 2))],
        constants=weights,
        values=[value("u", (1, "M"))],
        ir=14,
        opset=25,
    )
    body = make_graph(
        [make_node("Identity", ["go"], ["on"]), make_node("Add", ["v", "v"], ["w"])],
        "body",
        [value("i", (), TensorProto.INT64), value("go", (), TensorProto.BOOL), value("v")],
        [value("on", (), TensorProto.BOOL), value("w")],
    )
    loop = model(
        [make_node("Loop", ["trips", "", "x"], ["y"], body=body)],
        constants=[tensor("trips", TensorProto.INT64, (), [3])],
    )
    leaky = make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=1)
    imports = [helper.make_opsetid("", 13), helper.make_opsetid("f", 1)]
    functions = [
        helper.make_function("f", "leaky", ["a"], ["b"], [leaky], imports, ["slope"]),
        helper.make_function(
            "f", "twice", ["a"], ["b"],
            [make_node("leaky", ["a"], ["t"], domain="f"), make_node("leaky", ["t"], ["b"], domain="f", slope=0.5)],
            imports,
        ),
    ]  # fmt: skip
    calls = model(
        [make_node("twice", ["x"], ["t"], domain="f"), make_node("leaky", ["t"], ["y"], domain="f")],
        functions=functions,
        opset={"": 13, "f": 1},
        ir=10,
    )
    choice = conditional([make_node("Relu", ["x"], ["r"])], [make_node("Abs", ["x"], ["q"])])
    odd = relu()
    odd.graph.sparse_initializer.add(
        values=tensor("s", TensorProto.FLOAT, (1,), [1]),
        indices=tensor("", TensorProto.INT64, (1,), [1]),
        dims=[2],
    )
    odd.graph.input.append(
        helper.make_value_info("q", helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, ["a", None])))
    )
    odd.graph.input.append(
        helper.make_value_info("m", helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, [2])))
    )
    odd.graph.quantization_annotation.add(tensor_name="x").quant_parameter_tensor_names.add(
        key="SCALE_TENSOR", value="s"
    )
    odd.training_info.add().algorithm.CopyFrom(branch("train", [make_node("Relu", ["x"], ["g"])], [value("g")]))
    odd.metadata_props.add(key="author", value="nobody")
    odd.configuration.add(name="one", num_devices=1)
    return [content.SerializeToString() for content in (mlp, loop, calls, choice, odd)]


NUMBERS = [0, 1, -1, 2, 3, 7, 255, 1 << 31, 1 << 32, 1 << 62, -(1 << 31), (1 << 63) - 1, -(1 << 63)]
NAMES = [b"", b"x", b"y", b"t", b"w", b"If", b"Loop", b"ai.onnx", b"axis", b"\xff\xfe", b"n" * 300]


def bytes_changed(data: bytes, draw: random.Random) -> bytes:
    """Flipped bits, overwritten, deleted and repeated bytes, a cut-off end."""
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5])):
        place = draw.randrange(len(changed))
        match draw.randrange(5):
            case 0:
                changed[place] ^= 1 << draw.randrange(8)
            case 1:
                changed[place] = draw.randrange(256)
            case 2:
                del changed[place + 1 :]
            case 3:
                del changed[place : place + draw.randrange(1, 4)]
            case _:
                changed[place:place] = changed[place : place + draw.randrange(1, 20)]
        if not changed:
            return b""
    return bytes(changed)


def fields_changed(data: bytes, draw: random.Random, others: dict[str, list[Any]]) -> bytes:
    """A file that can still be decoded, with fields cleared, replaced, repeated, moved, or taken from other files."""
    message = ModelProto.FromString(data)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        _change(draw.choice(list(_messages(message))), draw, others)
    return message.SerializeToString()


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, content in message.ListFields():
        if field.message_type:
            for inner in content if field.is_repeated else [content]:
                yield from _messages(inner)


def _change(message: Any, draw: random.Random, others: dict[str, list[Any]]) -> None:
    present = [field for field, _ in message.ListFields()]
    field = draw.choice(present if present and draw.random() < 0.75 else message.DESCRIPTOR.fields)
    content = getattr(message, field.name)
    donors = others.get(field.message_type.name, []) if field.message_type else []
    if draw.random() < 0.2 or (field.message_type and not donors):
        message.ClearField(field.name)
    elif field.message_type and field.is_repeated:
        content.append(draw.choice(donors))
    elif field.message_type:
        content.CopyFrom(draw.choice(donors))
    elif field.is_repeated:
        if content and draw.random() < 0.5:
            del content[draw.randrange(len(content))]
        content.append(_scalar(field, draw))
    else:
        setattr(message, field.name, _scalar(field, draw))


def _scalar(field: Any, draw: random.Random) -> Any:
    if field.type == field.TYPE_BYTES:
        return draw.choice(NAMES)
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return draw.choice([0.0, -1.5, float("nan"), float("inf")])
    bits, signed = {field.TYPE_INT32: (32, True), field.TYPE_INT64: (64, True)}.get(field.type, (64, False))
    low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    return draw.choice([number for number in NUMBERS if low <= number < high])


def survive(folder, models: list[bytes], count: int, seed: int) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    others: dict[str, list[Any]] = {}
    for data in models:
        for message in _messages(ModelProto.FromString(data)):
            others.setdefault(message.DESCRIPTOR.name, []).append(message)
    draw = random.Random(seed)
    path = folder / "model.onnx"
    for _ in range(count):
        data = draw.choice(models)
        data = bytes_changed(data, draw) if draw.random() < 0.3 else fields_changed(data, draw, others)
        path.write_bytes(data)
        with own_seconds() as seconds:
            report = check(path)  # anything it raises fails the test; the file is still there to be looked at
            assert seconds() < LONGEST, f"{path} took {seconds():.1f} s"
        json.dumps(report.to_json())
        assert all(str(problem).replace("\n", "").isprintable() for problem in (*report.problems, *report.warnings))
        assert report.valid or report.problems
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < LARGEST


@pytest.mark.parametrize("seed", range(4))
def test_damaged_models(tmp_path, seed):
    survive(tmp_path, bundled(), 250, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_damaged_models(tmp_path, seed):
    """Also of the corpus, where it is at hand."""
    models = bundled()
    for path in sorted(IRCORPUS.glob("*.onnx")) if IRCORPUS.is_dir() else []:
        data = path.read_bytes()
        try:
            ModelProto.FromString(data)
        except DecodeError:  # some files of the corpus are no messages at all
            continue
        if 0 < len(data) < 5000:
            models.append(data)
    survive(tmp_path, models, 2000, seed)
