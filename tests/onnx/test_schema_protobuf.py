"""The message table: it agrees with the ``onnx`` package's, and works with every protobuf runtime."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from onnx_hw.onnx.parse import protobuf_schema
from support.onnx_files import relu, write

OURS = {
    # Our name -> the name in onnx.proto, where they differ.
    "TensorTypeProto": "TypeProto.Tensor",
    "MapTypeProto": "TypeProto.Map",
    "OpaqueTypeProto": "TypeProto.Opaque",
    "DimensionProto": "TensorShapeProto.Dimension",
    "SegmentProto": "TensorProto.Segment",
}


def test_fields_are_those_of_onnx_proto():
    onnx_ml_pb2 = pytest.importorskip("onnx.onnx_ml_pb2")
    for paragraph in protobuf_schema.FIELDS.strip().split("\n\n"):
        title, *lines = paragraph.splitlines()
        names = [OURS.get(title, title)]
        if title == "ElementTypeProto":
            names = ["TypeProto.Sequence", "TypeProto.Optional"]
        for name in names:
            message = onnx_ml_pb2
            for part in name.split("."):
                message = getattr(message, part)
            theirs = {field.name: field for field in message.DESCRIPTOR.fields}
            for line in lines:
                number, field, kind, *mark = line.split()
                assert theirs[field].number == int(number)
                assert theirs[field].is_repeated == (mark == ["*"])
                assert (theirs[field].containing_oneof is not None) == (mark == ["|value"])
                assert (theirs[field].message_type is not None) == (kind[0].isupper())


PROGRAM = """
import sys
from google.protobuf.internal import api_implementation
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.load.read import read
print(api_implementation.Type(), read(sys.argv[1]).graph.nodes[0].op_type)
try:
    read(sys.argv[2])
except UserError as error:
    print(*(problem.code for problem in error.problems))
"""


@pytest.mark.parametrize("runtime", ["upb", "python"])
def test_both_protobuf_runtimes(tmp_path, runtime):
    """A name that is not UTF-8 is a bytes object to one of them and an exception to the other; to us it is a fault."""
    good = write(tmp_path, relu())
    bad = write(tmp_path, relu().SerializeToString().replace(b"\x01y", b"\x01\xff"), "bad.onnx")
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": runtime}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-c", PROGRAM, str(good), str(bad)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert not result.stderr
    kind, codes = result.stdout.splitlines()
    assert kind == f"{runtime} Relu"
    assert set(codes.split()) == {"not-utf-8"}
