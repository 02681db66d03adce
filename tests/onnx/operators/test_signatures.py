"""The Python signatures against ONNX's own schemas: inputs, attributes, kinds, defaults, of every published version."""

import numpy as np
import pytest

from onnx import AttributeProto, defs, helper
from onnx_hw.onnx.graph.model import Graph, Value
from onnx_hw.onnx.operators import lookup, operators
from onnx_hw.onnx.operators.registry import Floats, Ints, Strings

KINDS = {
    "FLOAT": float,
    "INT": int,
    "STRING": str,
    "TENSOR": np.ndarray,
    "SPARSE_TENSOR": np.ndarray,  # arrives dense
    "GRAPH": Graph,
    "TYPE_PROTO": Value,
    "FLOATS": Floats,
    "INTS": Ints,
    "STRINGS": Strings,
}

#: Published versions that are not there, and why.
ABSENT = {
    ("ImageDecoder", 20): "decodes image files, which belongs before the model",
    ("GRU", 1): "of 2017, with `output_sequence`; no exporter writes it",
    ("GRU", 3): "of 2017, with `output_sequence`; no exporter writes it",
    ("LSTM", 1): "of 2017, with `output_sequence`; no exporter writes it",
    ("RNN", 1): "of 2017, with `output_sequence`; no exporter writes it",
    ("LpPool", 1): "of 2017, with a fractional p and an optional window; no exporter writes it",
}

SCHEMAS = {
    (schema.name, schema.since_version): schema for schema in defs.get_all_schemas_with_history() if schema.domain == ""
}


def ours(name, version):
    """The operator that holds in that version, if it was written for it."""
    found = lookup("", name, version)
    return found if found is not None and version in found.versions else None


def test_only_the_listed_versions_are_absent():
    absent = {key for key, schema in SCHEMAS.items() if ours(*key) is None and not schema.deprecated}
    assert absent == set(ABSENT)


def test_every_version_of_ours_was_published():
    published = set(SCHEMAS)
    newest = max(version for _, version in published)
    invented = {
        (operator.op_type, version)
        for operator in operators()
        for version in operator.versions
        if not operator.domain and (operator.op_type, version) not in published and version <= newest
    }
    assert not invented


@pytest.mark.parametrize("key", sorted(key for key in SCHEMAS if ours(*key) is not None), ids=str)
def test_signature_is_the_schema(key):
    schema, operator = SCHEMAS[key], ours(*key)
    variadic = bool(schema.inputs) and schema.inputs[-1].option.name == "Variadic"
    assert operator.max_inputs == (None if variadic else schema.max_input)
    assert operator.min_inputs == sum(x.option.name == "Single" for x in schema.inputs)
    assert set(operator.attributes) == set(schema.attributes)
    for name, attribute in schema.attributes.items():
        mine = operator.attributes[name]
        assert mine.kind == KINDS[attribute.type.name], name
        if name != "consumed_inputs":
            assert mine.required == attribute.required, name
            assert mine.default == default(attribute), name


def default(attribute):
    if attribute.required or attribute.default_value.type == AttributeProto.UNDEFINED:
        return None
    value = helper.get_attribute_value(attribute.default_value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return tuple(entry.decode() if isinstance(entry, bytes) else entry for entry in value)
    return value
