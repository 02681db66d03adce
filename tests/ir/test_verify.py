"""Networks and designs that a pass must never make: each is refused, and the node or tensor is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.assemble.elaborate import assemble
from onnx_hw.cli.error_report import explain
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design, FifoSize
from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ir.verify_design import verify_design
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.lower import lower_model as importing
from onnx_hw.messages.errors import UserError
from onnx_hw.messages.invariants import InvariantError
from onnx_hw.onnx.graph.model import Value
from onnx_hw.ops.add import Add
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule import schedule_network
from onnx_hw.schedule.insert_forks import insert_forks
from support.fixture_paths import EXAMPLES
from support.targets import ecp5_at

CONV, SUMS, POOL = "conv1_sums/Conv", "conv1_sums", "pool1/MaxPool"
WINDOW = "conv1_sums/Conv/window"
QUANTIZE, DENSE = "conv1_int8/QuantizeLinear", "scores/Gemm"
LAST, LEAVES = "scores_int8/QuantizeLinear", "scores_int8"


@cache
def network() -> Network:
    return flow.quantize(flow.read(EXAMPLES / "digits" / "digits.onnx"))


@cache
def design() -> Design:
    return flow.schedule(network(), multipliers=32)


def nodes(change: Callable[[list[NetworkNode]], object]) -> Callable[[Network], Network]:
    """A network with other nodes; ``change`` works on the list."""

    def changed(whole: Network) -> Network:
        listed = list(whole.nodes)
        change(listed)
        return replace(whole, nodes=tuple(listed))

    return changed


def at(name: str, **fields: Any) -> Callable[[Network], Network]:
    """A network whose node ``name`` is another."""
    return nodes(lambda listed: listed.__setitem__(slice(None), [
        replace(node, **fields) if node.name == name else node for node in listed
    ]))  # fmt: skip


def typed(tensor: str, **fields: Any) -> Callable[[Network], Network]:
    """A network with another type of a tensor that enters."""
    return lambda whole: replace(whole, entries={**whole.entries, tensor: replace(whole.entries[tensor], **fields)})


def enters(**fields: Any) -> Callable[[Network], Network]:
    return lambda whole: replace(whole, inputs=(replace(whole.inputs[0], **fields),))


def leaves(**fields: Any) -> Callable[[Network], Network]:
    return lambda whole: replace(whole, outputs=(replace(whole.outputs[0], **fields),))


def part(which: str, **fields: Any) -> Callable[[Network], Network]:
    """A network whose head or tail has another graph."""

    def changed(whole: Network) -> Network:
        model = getattr(whole, which)
        return replace(whole, **{which: replace(model, graph=replace(model.graph, **fields))})

    return changed


def without(table: str, name: str) -> Callable[[Any], Any]:
    return lambda value: replace(value, **{table: {k: v for k, v in getattr(value, table).items() if k != name}})


def also(table: str, name: str, entry: Any) -> Callable[[Any], Any]:
    return lambda value: replace(value, **{table: {**getattr(value, table), name: entry}})


def folded(name: str, **numbers: int) -> Callable[[Design], Design]:
    """A design in which the folding of a node has other numbers."""
    return lambda whole: also("foldings", name, replace(whole.foldings[name], **numbers))(whole)


TWICE = np.r_[0, np.arange(63)]
NETWORKS: dict[str, tuple[Callable[[Network], Network], str, str, str]] = {
    "nodes in reverse order": (nodes(list.reverse), LAST, "scores", "stands later"),
    "a node behind its reader": (nodes(lambda n: n.insert(2, n.pop(1))), QUANTIZE, SUMS, f"`{CONV}`, which makes it"),
    "no node": (nodes(list.clear), "", "", "must have a node"),
    "a node that is missing": (nodes(lambda n: n.pop(1)), QUANTIZE, SUMS, "nothing makes it"),
    "a node twice": (nodes(lambda n: n.insert(2, n[1])), CONV, "", "2 nodes have it"),
    "a tensor made twice": (at(QUANTIZE, outputs=(SUMS,)), QUANTIZE, SUMS, f"`{CONV}` makes it, too"),
    "an input that is made": (at(POOL, outputs=("image_int8",)), POOL, "image_int8", "the host makes it, too"),
    "a name that dangles": (at(POOL, inputs=("nowhere",)), POOL, "nowhere", "nothing makes it"),
    "a node that reads itself": (at(POOL, inputs=("pool1",)), POOL, "pool1", "stands later"),
    "one input too many": (at(POOL, inputs=("conv1_int8", SUMS)), POOL, "", "must read 1 tensors (i) of 1 types"),
    "no input": (at(POOL, inputs=()), POOL, "", "must read 1 tensors"),
    "one output too many": (at(POOL, outputs=("pool1", "pool1b")), POOL, "", "must make 1 tensors (o)"),
    "an operator of another arity": (
        at(POOL, operator=Add(Tensor((8, 8, 8), Int(8)), Tensor((8, 8, 8), Int(8)))),
        POOL, "", "must read 2 tensors (a, b)",
    ),
    "an operator of another tensor": (lambda n: at(POOL, operator=n.nodes[7].operator)(n), POOL, "conv1_int8", "takes"),
    "an input of another shape": (typed("image_int8", shape=(1, 8, 8)), WINDOW, "image_int8", "it takes"),
    "an input of another type": (typed("image_int8", dtype=Int(8, signed=False)), WINDOW, "image_int8", "it takes"),
    "an input of too wide a range": (typed("image_int8", dtype=Int(9)), WINDOW, "image_int8", "it takes"),
    "a range beyond its type": (typed("image_int8", low=-129), "", "image_int8", "one within i8, not -129..127"),
    "an empty range": (typed("image_int8", low=3, high=2), "", "image_int8", "not 3..2"),
    "a tensor without a type": (without("entries", "image_int8"), "", "image_int8", "it has none"),
    "the type of no tensor": (also("entries", "ghost", Tensor((1, 1, 1), Int(8))), "", "ghost", "does not enter"),
    "the type of a tensor that is made": (
        lambda n: also("entries", "pool1", n.tensors["pool1"])(n), "", "pool1", "does not enter",
    ),
    "the scale of no tensor": (also("grids", "ghost", Grid.over(Int(8))), "", "ghost", "nothing makes"),
    "an approximate value of no node": (also("approximate", "ghost", 0.1), "", "ghost", "must be made by the tail"),
    "too many scales": (also("grids", "pool1", Grid.over(Int(8), (1, 2))), "", "pool1", "1 or 8 scales"),
    "an order with one place twice": (enters(order=TWICE), "", "image_int8", "a permutation of 0..63"),
    "an order beyond the end": (enters(order=np.arange(1, 65)), "", "image_int8", "a permutation of 0..63"),
    "an order that is too short": (leaves(order=np.arange(9)), "", LEAVES, "a permutation of 0..9"),
    "an ONNX value of another size": (leaves(onnx_shape=(1, 11)), "", LEAVES, "the stream's 10 elements, not 11"),
    "an ONNX value that cannot hold it": (leaves(onnx_dtype=np.dtype(np.uint8)), "", LEAVES, "uint8 must hold"),
    "an input that enters twice": (lambda n: replace(n, inputs=n.inputs * 2), "", "image_int8", "enter once"),
    "an input that nobody reads": (
        lambda n: replace(also("entries", "more", n.tensors["pool1"])(n),
                          inputs=(*n.inputs, replace(n.inputs[0], tensor="more", onnx_name="more"))),
        "", "more", "must be read by a node",
    ),
    "a result that nobody reads": (leaves(tensor="scores"), LAST, LEAVES, "must be read, or leave"),
    "an output that enters": (
        lambda n: replace(n, outputs=(*n.outputs, n.inputs[0])), "", "image_int8", "must be made by a node",
    ),
    "no output": (lambda n: replace(n, outputs=()), LAST, LEAVES, "must be read, or leave"),
    "two outputs of one name": (
        lambda n: replace(n, outputs=(*n.outputs, replace(n.outputs[0], tensor="scores"))), "", "scores", "not 2",
    ),
    "no head": (lambda n: replace(n, head=None), "", "image_int8", "must make `image_int8`"),
    "a head that makes something else": (part("head", outputs=()), "", "image_int8", "must make `image_int8`"),
    "a head without its node": (part("head", nodes=()), "", "image_int8", "the head: what the graph returns"),
    "a head without its constants": (part("head", constants={}), "image_int8/QuantizeLinear", "image_scale", "nothing"),
    "a head of another shape": (
        part("head", outputs=(Value("image_int8", "int8", (64,)),)), "", "image_int8", "int8[1, 1, 8, 8]",
    ),
    "a head of another input": (
        lambda n: replace(n, arguments=(replace(n.arguments[0], name="img"),)), "", "image", "what the head reads",
    ),
    "a tail of other integers": (leaves(onnx_name="scores_int9"), "", LEAVES, "what the tail reads"),
    "a tail in another order": (
        lambda n: part("tail", nodes=n.tail.graph.nodes[::-1])(n), "probabilities/Softmax", "scores_real", "later",
    ),
    "a value that is handed over from nowhere": (
        lambda n: replace(n, handed=("scores",)), "", "scores", "the head must make what is handed over",
    ),
    "no tail": (lambda n: replace(n, tail=None), "", "probabilities", "or made by the tail"),
}  # fmt: skip

DESIGNS: dict[str, tuple[Callable[[Design], Design], str, str, str]] = {
    "a network in reverse": (lambda d: replace(d, network=nodes(list.reverse)(d.network)), LAST, "scores", "later"),
    "lanes that do not meet": (folded(POOL, in_lanes=1), POOL, "conv1_int8", "by 2 comes, i8[8,8,8] by 1 is taken"),
    "no lanes": (folded(POOL, in_lanes=0), POOL, "", "in_lanes must be 1..8"),
    "too many steps": (folded(QUANTIZE, steps=999), QUANTIZE, "", "steps must be 1.."),
    "the folding of another operator": (
        lambda d: also("foldings", POOL, d.foldings[QUANTIZE])(d), POOL, "", "the folding of Pool max 2×2 must be a",
    ),
    "a folding of another shape": (
        lambda d: also("foldings", QUANTIZE, d.foldings[POOL])(d), QUANTIZE, "", "must be a RequantizeFolding, not",
    ),
    "no folding": (without("foldings", DENSE), DENSE, "", "it has none"),
    "the folding of another node": (
        lambda d: also("foldings", "scores/Gemn", d.foldings[DENSE])(without("foldings", DENSE)(d)),
        "scores/Gemn", "", "there is no such node",
    ),
    "a FIFO of a missing edge": (also("fifos", "ghost", FifoSize(2, 1, 2)), "", "ghost", "there is no such stream"),
    "a FIFO of the host's stream": (also("fifos", "image_int8", FifoSize(2, 1, 2)), "", "image_int8", "no such stream"),
    "an edge without a FIFO": (without("fifos", SUMS), CONV, SUMS, "it has none"),
    "no FIFOs at all": (lambda d: replace(d, fifos={}), WINDOW, WINDOW, "it has none"),
    "a FIFO of no place": (also("fifos", SUMS, FifoSize(0, 1, 1)), CONV, SUMS, "1 token or more, not 0"),
    "a negative bound": (also("fifos", SUMS, FifoSize(1, 1, -1)), CONV, SUMS, "-1 at full rate"),
    "no clock": (lambda d: replace(d, target=ecp5_at(0.0)), "", "", "positive number of MHz, not 0"),
    "a clock that is no number": (lambda d: replace(d, target=ecp5_at(float("nan"))), "", "", "positive number of MHz"),
    "a stream that leaves and is read": (
        lambda d: replace(d, network=replace(d.network, outputs=(
            *d.network.outputs,
            replace(d.network.outputs[0], tensor="scores", onnx_name="s", onnx_dtype=np.dtype(np.int64)),
        ))),
        "", "scores", "one consumer, not 2: `scores_int8/QuantizeLinear`, the host",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NETWORKS)
def test_broken_networks(case):
    change, node, tensor, said = NETWORKS[case]
    broken = change(network())
    with pytest.raises(InvariantError) as caught:
        verify_network(broken, "a_pass")
    assert (caught.value.made_by, caught.value.fault.node, caught.value.fault.tensor) == ("a_pass", node, tensor)
    assert said in str(caught.value)
    with pytest.raises(UserError) as refused:
        flow.schedule(broken)  # a caller's fault, where a caller hands it in
    assert refused.value.problems[0].code == "broken-network"
    assert all(f"`{name}`" in refused.value.problems[0].where for name in (node, tensor) if name)


@pytest.mark.parametrize("case", DESIGNS)
def test_broken_designs(case):
    change, node, tensor, said = DESIGNS[case]
    broken = change(design())
    with pytest.raises(InvariantError) as caught:
        verify_design(broken, "a_pass")
    assert (caught.value.fault.node, caught.value.fault.tensor) == (node, tensor)
    assert said in str(caught.value)
    for entry in (flow.simulate, assemble):
        with pytest.raises(UserError, match=r"error\[broken-design\]"):
            entry(broken)


@pytest.mark.parametrize(
    "case", [case for case in DESIGNS if "folding" in case or case in ("no lanes", "too many steps")]
)
def test_foldings_that_are_handed_in(case):
    """Those of the network, that is: gearboxes have theirs from the others."""
    change, node, _, said = DESIGNS[case]
    foldings = {name: f for name, f in change(design()).foldings.items() if not name.startswith("gearbox")}
    with pytest.raises(UserError, match=r"error\[broken-folding\]") as caught:
        flow.schedule(network(), foldings=foldings)
    assert said in str(caught.value) and f"where  node `{node}`" in str(caught.value)


def test_more_lanes_than_channels_are_waste():
    wide = folded(POOL, out_lanes=9)(design()).foldings
    given = {name: folding for name, folding in wide.items() if not name.startswith("gearbox")}
    assert flow.schedule(network(), foldings=given).foldings[POOL] == wide[POOL]


def test_what_is_whole_is_handed_on():
    assert verify_network(network()) is network()
    assert verify_design(design()) is design()
    assert verify_design(replace(design(), fifos={}), sized=False).fifos == {}


@pytest.mark.parametrize(("name", "value"), [("insert_forks", "network"), ("insert_gearboxes", "design")])
def test_a_pass_that_breaks_a_network_is_named(monkeypatch, name, value):
    """The next value that is verified names the pass, and the node; it is our bug, with its exit code."""
    whole, right = network(), getattr(schedule_network, name)

    def wrong(*arguments: Any) -> Any:
        made = right(*arguments)
        return (reverse(made[0]), made[1]) if isinstance(made, tuple) else reverse(made)

    reverse = nodes(list.reverse)
    monkeypatch.setattr(schedule_network, name, wrong)
    with pytest.raises(
        InvariantError, match=rf"{name} made a broken {value}: node `scores_int8/QuantizeLinear`"
    ) as caught:
        flow.schedule(whole, multipliers=32)
    assert explain(caught.value).exit_code == 70


def test_a_model_that_is_imported_wrong_is_our_bug(monkeypatch):
    right = importing.hardware_nodes
    monkeypatch.setattr(importing, "hardware_nodes", lambda *arguments: right(*arguments)[::-1])
    with pytest.raises(InvariantError, match="import_model made a broken network: node `scores_int8/QuantizeLinear`"):
        importing.import_model(flow.read(EXAMPLES / "digits" / "digits.onnx"))


def test_forks_are_verified(monkeypatch):
    monkeypatch.setattr("onnx_hw.schedule.insert_forks.replace", lambda value, **fields: replace(
        value, **{**fields, **({"nodes": fields["nodes"][::-1]} if "nodes" in fields else {})}
    ))  # fmt: skip
    with pytest.raises(InvariantError, match=r"insert_forks made a broken network: node `scores_int8/QuantizeLinear`"):
        insert_forks(network())


def test_a_network_that_was_scheduled_is_told_from_others() -> None:
    """Its gearboxes are not to be folded: they follow from what stands around them."""
    assert any(node.name.startswith("gearbox") for node in design().network.nodes)
    for asked in ({"multipliers": 32}, {"fps": 1000.0}, {}):
        with pytest.raises(UserError, match="must not have been scheduled before") as refused:
            flow.schedule(design().network, **asked)  # type: ignore[arg-type]
        assert "node `gearbox " in str(refused.value)


def test_depths_come_with_foldings() -> None:
    with pytest.raises(UserError, match="must come with the foldings of all nodes"):
        flow.schedule(network(), depths={"scores": 4})
