"""The table of operators: complete, and true."""

from onnx import defs
from onnx_hw.onnx.operators import lookup
from onnx_hw.onnx.operators.table import markdown, rows

TABLE = {(row.domain, row.name): row for row in rows()}


def test_every_operator_of_the_default_domain_has_a_row():
    names = {schema.name for schema in defs.get_all_schemas() if schema.domain == ""}
    assert names <= {name for domain, name in TABLE if domain == ""}


def test_the_reference_computes_150_operators_and_more():
    computed = [row for row in TABLE.values() if row.domain == "" and row.reference]
    assert len(computed) >= 200
    assert [row.name for row in TABLE.values() if row.domain == "" and not row.reference] == ["ImageDecoder"]


def test_versions_are_those_of_the_functions():
    softmax = TABLE["", "Softmax"]
    assert (softmax.versions, softmax.meanings) == ((1, 11, 13), (1, 13))
    for row in TABLE.values():
        for version in row.meanings:
            assert lookup(row.domain, row.name, version).since == version


def test_markdown_has_a_line_for_each_row():
    text = markdown(rows(), {("", "Conv"): "yes"})
    assert "| Conv | 1, 11, 22 | yes | yes |" in text
    assert "| com.microsoft.QLinearAdd | 1 | yes | no |" in text
    assert text.count("\n") == len(TABLE) + 2
