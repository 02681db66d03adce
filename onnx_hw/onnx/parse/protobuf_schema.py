"""Messages of an ONNX file, as a table of our own, turned into protobuf classes in a private pool.

No generated code is involved, so no version check of the protobuf runtime and no clash with the ``onnx`` package in
one process. Field numbers and types are those of onnx.proto up to IR version 14. Three deliberate differences:

* every ``string`` is declared ``bytes`` (the wire is the same): text that is not UTF-8 would otherwise come back as
  ``bytes`` from one protobuf runtime and raise ``UnicodeDecodeError`` inside another; we decode it ourselves;
* every enum is declared ``int32``, so that an unknown number stays visible instead of looking unset;
* fields that carry no meaning for us (denotations, metadata of inner messages, sharding) are left out and skipped.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

#: One message per paragraph, one field per line: number, name, type; ``*`` marks a list, ``|x`` a member of oneof x.
FIELDS: Final = """
ModelProto
  1  ir_version                     int64
  2  producer_name                  bytes
  3  producer_version               bytes
  4  domain                         bytes
  5  model_version                  int64
  6  doc_string                     bytes
  7  graph                          GraphProto
  8  opset_import                   OperatorSetIdProto *
  14 metadata_props                 StringStringEntryProto *
  20 training_info                  TrainingInfoProto *
  25 functions                      FunctionProto *
  26 configuration                  DeviceConfigurationProto *

OperatorSetIdProto
  1  domain                         bytes
  2  version                        int64

StringStringEntryProto
  1  key                            bytes
  2  value                          bytes

GraphProto
  1  node                           NodeProto *
  2  name                           bytes
  5  initializer                    TensorProto *
  10 doc_string                     bytes
  11 input                          ValueInfoProto *
  12 output                         ValueInfoProto *
  13 value_info                     ValueInfoProto *
  14 quantization_annotation        TensorAnnotation *
  15 sparse_initializer             SparseTensorProto *
  16 metadata_props                 StringStringEntryProto *

TensorAnnotation
  1  tensor_name                    bytes
  2  quant_parameter_tensor_names   StringStringEntryProto *

NodeProto
  1  input                          bytes *
  2  output                         bytes *
  3  name                           bytes
  4  op_type                        bytes
  5  attribute                      AttributeProto *
  6  doc_string                     bytes
  7  domain                         bytes
  8  overload                       bytes
  10 device_configurations          NodeDeviceConfigurationProto *

AttributeProto
  1  name                           bytes
  2  f                              float
  3  i                              int64
  4  s                              bytes
  5  t                              TensorProto
  6  g                              GraphProto
  7  floats                         float *
  8  ints                           int64 *
  9  strings                        bytes *
  10 tensors                        TensorProto *
  11 graphs                         GraphProto *
  14 tp                             TypeProto
  15 type_protos                    TypeProto *
  20 type                           int32
  21 ref_attr_name                  bytes
  22 sparse_tensor                  SparseTensorProto
  23 sparse_tensors                 SparseTensorProto *

FunctionProto
  1  name                           bytes
  4  input                          bytes *
  5  output                         bytes *
  6  attribute                      bytes *
  7  node                           NodeProto *
  8  doc_string                     bytes
  9  opset_import                   OperatorSetIdProto *
  10 domain                         bytes
  11 attribute_proto                AttributeProto *
  12 value_info                     ValueInfoProto *
  13 overload                       bytes

TrainingInfoProto
  1  initialization                 GraphProto
  2  algorithm                      GraphProto
  3  initialization_binding         StringStringEntryProto *
  4  update_binding                 StringStringEntryProto *

DeviceConfigurationProto
  1  name                           bytes
  2  num_devices                    int32
  3  device                         bytes *

NodeDeviceConfigurationProto
  1  configuration_id               bytes

ValueInfoProto
  1  name                           bytes
  2  type                           TypeProto
  3  doc_string                     bytes

TypeProto
  1  tensor_type                    TensorTypeProto |value
  4  sequence_type                  ElementTypeProto |value
  5  map_type                       MapTypeProto |value
  7  opaque_type                    OpaqueTypeProto |value
  8  sparse_tensor_type             TensorTypeProto |value
  9  optional_type                  ElementTypeProto |value

TensorTypeProto
  1  elem_type                      int32
  2  shape                          TensorShapeProto

ElementTypeProto
  1  elem_type                      TypeProto

MapTypeProto
  1  key_type                       int32
  2  value_type                     TypeProto

OpaqueTypeProto
  1  domain                         bytes
  2  name                           bytes

TensorShapeProto
  1  dim                            DimensionProto *

DimensionProto
  1  dim_value                      int64 |value
  2  dim_param                      bytes |value

TensorProto
  1  dims                           int64 *
  2  data_type                      int32
  3  segment                        SegmentProto
  4  float_data                     float *
  5  int32_data                     int32 *
  6  string_data                    bytes *
  7  int64_data                     int64 *
  8  name                           bytes
  9  raw_data                       bytes
  10 double_data                    double *
  11 uint64_data                    uint64 *
  12 doc_string                     bytes
  13 external_data                  StringStringEntryProto *
  14 data_location                  int32

SegmentProto
  1  begin                          int64
  2  end                            int64

SparseTensorProto
  1  values                         TensorProto
  2  indices                        TensorProto
  3  dims                           int64 *
"""

_PACKAGE: Final = "onnx_hw.private"


def _file_descriptor() -> descriptor_pb2.FileDescriptorProto:
    """Convert the table to the form that protobuf expects."""
    field = descriptor_pb2.FieldDescriptorProto
    scalars = {
        "int32": field.TYPE_INT32,
        "int64": field.TYPE_INT64,
        "uint64": field.TYPE_UINT64,
        "float": field.TYPE_FLOAT,
        "double": field.TYPE_DOUBLE,
        "bytes": field.TYPE_BYTES,
    }
    # proto2, because only there does a scalar field tell "absent" from "zero".
    file = descriptor_pb2.FileDescriptorProto(name="onnx_hw_private.proto", package=_PACKAGE, syntax="proto2")
    for paragraph in FIELDS.strip().split("\n\n"):
        title, *lines = paragraph.splitlines()
        message = file.message_type.add(name=title)
        for line in lines:
            number, name, kind, *mark = line.split()
            entry = message.field.add(name=name, number=int(number), label=field.LABEL_OPTIONAL)
            if kind in scalars:
                entry.type = scalars[kind]
            else:
                entry.type, entry.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            if mark == ["*"]:
                entry.label = field.LABEL_REPEATED
            elif mark:
                if not message.oneof_decl:
                    message.oneof_decl.add(name=mark[0][1:])
                entry.oneof_index = 0
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile(_file_descriptor().SerializeToString())


def message_class(name: str) -> Any:
    """Return the protobuf class of one message of the table, such as ``ModelProto``."""
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


ModelProto: Final = message_class("ModelProto")
