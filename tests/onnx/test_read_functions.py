"""Model-local functions: inlined with the right names, attributes and versions, or refused by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx import AttributeProto, helper
from onnx_hw.onnx.check.functions import MAX_NODES
from onnx_hw.onnx.load.read import read
from support.cpu_time_limit import own_seconds
from support.onnx_files import TensorProto, branch, checked, codes, make_node, make_opsetid, model, value, warned, write

DOMAIN = "org.example"


def function(name, inputs, outputs, nodes, attributes=(), opset=13, **more):
    opsets = [make_opsetid("", opset), make_opsetid(DOMAIN, 1)]
    return helper.make_function(DOMAIN, name, list(inputs), list(outputs), nodes, opsets, list(attributes), **more)


def call(function, inputs, outputs, **more):
    return make_node(function, inputs, outputs, domain=DOMAIN, **more)


def reference(node, name, attribute, kind=AttributeProto.FLOAT):
    """The node, with one attribute taken from the function's."""
    node.attribute.append(AttributeProto(name=name, ref_attr_name=attribute, type=kind))
    return node


def with_functions(nodes, *functions, **more):
    return model(nodes, functions=functions, opset={"": 13, DOMAIN: 1}, ir=10, **more)


def nodes_of(folder, content):
    return read(write(folder, content)).graph.nodes


LEAKY = function("leaky", "a", "b", [reference(make_node("LeakyRelu", ["a"], ["b"]), "alpha", "slope")], ["slope"])


def test_attributes_go_into_the_body(tmp_path):
    given_, absent = nodes_of(
        tmp_path, with_functions([call("leaky", ["x"], ["t"], slope=0.5), call("leaky", ["t"], ["y"])], LEAKY)
    )
    assert given_.attributes == {"alpha": 0.5}
    assert absent.attributes == {}  # so that the operator's own default holds


def test_defaults_hold_unless_overridden(tmp_path):
    default = helper.make_attribute("slope", 0.25)
    leaky = function("leaky", "a", "b", list(LEAKY.node), attribute_protos=[default])
    calls = [call("leaky", ["x"], ["t"], slope=0.5), call("leaky", ["t"], ["y"])]
    assert [node.attributes["alpha"] for node in nodes_of(tmp_path, with_functions(calls, leaky))] == [0.5, 0.25]


def test_attributes_pass_through_nested_calls_and_subgraphs(tmp_path):
    node = make_node(
        "If",
        ["c"],
        ["b"],
        then_branch=branch("then", [reference(make_node("LeakyRelu", ["a"], ["r"]), "alpha", "s")], [value("r")]),
        else_branch=branch("else", [reference(call("leaky", ["a"], ["r"]), "slope", "s")], [value("r")]),
    )
    chooser = function("chooser", "ca", "b", [node], ["s"])
    content = with_functions(
        [call("chooser", ["c", "x"], ["y"], s=0.125)],
        chooser,
        LEAKY,
        inputs=[value("c", (), TensorProto.BOOL), value("x")],
    )
    (found,) = nodes_of(tmp_path, content)
    for graph in (found.attributes["then_branch"], found.attributes["else_branch"]):
        assert [node.op_type for node in graph.nodes] == ["LeakyRelu"]
        assert graph.nodes[0].attributes == {"alpha": 0.125}
        assert graph.nodes[0].inputs == ("x",)
        assert graph.nodes[0].outputs == (graph.outputs[0].name,)


def test_names_are_renamed_apart(tmp_path):
    body = [make_node("Neg", ["x"], ["t"]), make_node("Add", ["t", "x"], ["y"])]
    twice = function("twice", ["x"], ["y"], body)
    content = with_functions([call("twice", ["x"], ["t"], name="one"), call("twice", ["t"], ["y"], name="two")], twice)
    nodes = nodes_of(tmp_path, content)
    assert [(node.inputs, node.outputs) for node in nodes] == [
        (("x",), ("one/t",)),
        (("one/t", "x"), ("t",)),
        (("t",), ("two/t",)),
        (("two/t", "t"), ("y",)),
    ]


@given(st.lists(st.tuples(st.sampled_from("xty"), st.sampled_from(["", "n", "n/t"])), min_size=1, max_size=5))
def test_no_name_is_defined_twice_after_inlining(tmp_path_factory, calls):
    body = [make_node("Neg", ["x"], ["t"]), make_node("Add", ["t", "x"], ["n"])]
    inner = function("inner", ["x"], ["n"], body)
    outer = function("outer", ["t"], ["n", "t"], [call("inner", ["t"], ["x"]), call("inner", ["x"], ["n"])])
    nodes, known = [], ["x"]
    for k, (_, name) in enumerate(calls):
        result = "y" if k == len(calls) - 1 else f"n/t/{k}"
        nodes.append(call("outer", [known[-1]], [result, f"n/{k}"], name=name))
        known.append(result)
    folder = tmp_path_factory.mktemp("functions")
    found = nodes_of(folder, with_functions(nodes, inner, outer))
    outputs = [name for node in found for name in node.outputs]
    assert len(set(outputs)) == len(outputs)
    seen = {"x"}
    for node in found:
        assert set(node.inputs) <= seen
        seen.update(node.outputs)


def test_omitted_arguments_and_results(tmp_path):
    clip = function("clip", ["a", "low", "high"], ["b", "c"], [
        make_node("Clip", ["a", "low", "high"], ["b"]),
        make_node("Neg", ["a"], ["c"]),
    ])  # fmt: skip
    nodes = nodes_of(tmp_path, with_functions([call("clip", ["x"], ["y"])], clip))
    assert nodes[0].inputs == ("x", "", "")
    assert nodes[0].outputs == ("y",)
    assert nodes[1].outputs == ("y/c",)


def test_an_argument_the_body_needs(tmp_path):
    add = function("add", ["a", "b"], ["c"], [make_node("Add", ["a", "b"], ["c"])])
    assert codes(checked(tmp_path, with_functions([call("add", ["x"], ["y"])], add))) == ["validate:input-missing"]


def test_an_output_that_is_an_input(tmp_path):
    same = function("same", ["a"], ["a"], [])
    (node,) = nodes_of(tmp_path, with_functions([call("same", ["x"], ["y"])], same))
    assert (node.op_type, node.inputs, node.outputs) == ("Identity", ("x",), ("y",))


def test_overloads(tmp_path):
    one = function("f", "a", "b", [make_node("Neg", ["a"], ["b"])], overload="one")
    two = function("f", "a", "b", [make_node("Abs", ["a"], ["b"])], overload="two")
    content = with_functions([call("f", ["x"], ["t"]), call("f", ["t"], ["y"])], one, two)
    content.graph.node[0].overload, content.graph.node[1].overload = "two", "one"
    assert [node.op_type for node in nodes_of(tmp_path, content)] == ["Abs", "Neg"]


def test_a_body_means_the_versions_it_imports(tmp_path):
    old = function("old", "a", "b", [make_node("Softmax", ["a"], ["b"])], opset=11)
    content = with_functions([call("old", ["x"], ["t"]), make_node("Softmax", ["t"], ["y"])], old)
    assert [node.version for node in nodes_of(tmp_path, content)] == [11, 13]
    assert "function-opset" in warned(checked(tmp_path, content))


RELU = [make_node("Relu", ["a"], ["b"])]
REFUSED = {
    "twice": ([call("f", ["x"], ["y"])], [function("f", "a", "b", RELU)] * 2, "function-repeated"),
    "no name": ([make_node("Relu", ["x"], ["y"])], [function("", "a", "b", RELU)], "function-name"),
    "recursion": (
        [call("f", ["x"], ["y"])],
        [function("f", "a", "b", [call("f", ["a"], ["b"])])],
        "function-recursion",
    ),
    "mutual recursion": (
        [call("f", ["x"], ["y"])],
        [function("f", "a", "b", [call("g", ["a"], ["b"])]), function("g", "a", "b", [call("f", ["a"], ["b"])])],
        "function-recursion",
    ),
    "not closed": (
        [make_node("Neg", ["x"], ["t"]), call("f", ["t"], ["y"])],
        [function("f", "a", "b", [make_node("Add", ["a", "x"], ["b"])])],
        "undefined-value",
    ),
    "output undefined": ([call("f", ["x"], ["y"])], [function("f", "a", "z", RELU)], "undefined-output"),
    "order": (
        [call("f", ["x"], ["y"])],
        [function("f", "a", "b", [make_node("Neg", ["t"], ["b"]), make_node("Abs", ["a"], ["t"])])],
        "not-topological",
    ),
    "written twice": ([call("f", ["x"], ["y"])], [function("f", "a", "b", RELU * 2)], "defined-twice"),
    "same parameter twice": ([call("f", ["x"], ["y"])], [function("f", "aa", "b", RELU)], "defined-twice"),
    "too many arguments": ([call("f", ["x", "x"], ["y"])], [function("f", "a", "b", RELU)], "call-inputs"),
    "too many results": ([call("f", ["x"], ["y", "z"])], [function("f", "a", "b", RELU)], "call-outputs"),
    "unknown attribute": ([call("f", ["x"], ["y"], z=1)], [function("f", "a", "b", RELU)], "attribute-unknown"),
    "attribute of another kind": ([call("leaky", ["x"], ["y"], slope=1)], [LEAKY], "attribute-kind"),
    "undeclared reference": (
        [call("f", ["x"], ["y"])],
        [function("f", "a", "b", list(LEAKY.node))],
        "undefined-attribute",
    ),
    "malformed, never called": (
        [make_node("Relu", ["x"], ["y"])],
        [function("f", "a", "b", [make_node("Relu", ["a", "a"], ["b"])])],
        "input-count",
    ),
    "domain not imported by the body": (
        [call("f", ["x"], ["y"])],
        [function("f", "a", "b", [make_node("Thing", ["a"], ["b"], domain="com.other")])],
        "domain-not-imported",
    ),
}


@pytest.mark.parametrize("title", REFUSED)
def test_refused(tmp_path, title):
    nodes, functions, code = REFUSED[title]
    assert f"validate:{code}" in codes(checked(tmp_path, with_functions(nodes, *functions)))


def test_a_call_needs_the_import(tmp_path):
    content = model([call("f", ["x"], ["y"])], functions=[function("f", "a", "b", RELU)], ir=10)
    assert codes(checked(tmp_path, content)) == ["validate:domain-not-imported"]


def test_a_function_without_domain(tmp_path):
    lost = function("f", "a", "b", RELU)
    lost.domain = ""
    assert "validate:function-domain" in codes(
        checked(tmp_path, with_functions([make_node("Relu", ["x"], ["y"])], lost))
    )


def doubling(levels: int):
    """Functions f0 .. fn, each calling the next twice."""
    found = [function("f0", "a", "b", RELU)]
    for level in range(1, levels + 1):
        calls = [call(f"f{level - 1}", ["a"], ["t"]), call(f"f{level - 1}", ["t"], ["b"])]
        found.append(function(f"f{level}", "a", "b", calls))
    return with_functions([call(f"f{levels}", ["x"], ["y"])], *found)


def test_expansion_is_bounded_before_expanding(tmp_path):
    with own_seconds() as seconds:
        for levels in (20, 60, 1000):
            report = checked(tmp_path, doubling(levels))
            assert report.valid
            assert codes(report) == ["capability:too-many-nodes"]
        assert seconds() < 2
    assert len(nodes_of(tmp_path, doubling(8))) == 256
    assert MAX_NODES < 2**20


def test_a_plain_graph_is_bounded_before_it_is_looked_at(tmp_path):
    chain = [make_node("Relu", [f"v{k}"], [f"v{k + 1}"]) for k in range(100_000)]
    graph = helper.make_graph(chain, "g", [value("v0")], [value("v100000")])
    with own_seconds() as seconds:
        report = checked(tmp_path, helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]))
        assert "a model may have at most 30,000 nodes, not 100,000" in str(report.problems[0])
        assert seconds() < 5


def test_a_long_chain_of_functions(tmp_path):
    chain = [function("f0", "a", "b", RELU)]
    chain += [function(f"f{k}", "a", "b", [call(f"f{k - 1}", ["a"], ["b"])]) for k in range(1, 3000)]
    (node,) = nodes_of(tmp_path, with_functions([call("f2999", ["x"], ["y"])], *chain))
    assert (node.inputs, node.outputs) == (("x",), ("y",))


def test_subgraphs_nested_through_functions_are_bounded(tmp_path):
    def nested(level):
        inner = [call(f"f{level - 1}", ["a"], ["r"])] if level else [make_node("Relu", ["a"], ["r"])]
        one, other = branch("t", inner, [value("r")]), branch("e", inner, [value("r")])
        node = make_node("If", ["c"], ["b"], then_branch=one, else_branch=other)
        body = [make_node("Constant", [], ["c"], value=helper.make_tensor("", TensorProto.BOOL, [], [1])), node]
        return function(f"f{level}", "a", "b", body)

    report = checked(tmp_path, with_functions([call("f99", ["x"], ["y"])], *map(nested, range(100))))
    assert set(codes(report)) == {"capability:too-deep", "capability:too-many-nodes"}
