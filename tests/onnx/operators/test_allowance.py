"""What a model may cost: small files that ask for much are refused soon, in bounded memory, and by name."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path

import numpy as np
import pytest

from onnx import TensorProto, helper, numpy_helper
from onnx_hw import flow
from onnx_hw.commands.check import check_hardware
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.evaluate.fold_constants import FOLDED_BYTES_LIMIT, fold
from onnx_hw.onnx.operators.allowance import MAX_HELD_BYTES, MAX_STEPS, MAX_VALUE_BYTES, Allowance
from onnx_hw.onnx.operators.evaluate import evaluate
from onnx_hw.runtime.options import BuildOptions, ReadOptions
from support.cpu_time_limit import own_seconds
from support.onnx_files import branch, make_graph, make_node, model, tensor, value, write

HUGE = 1 << 40
LONGEST = 4.0  # seconds
LENIENT = ReadOptions(lenient=True)
"""Outputs need not say their shapes."""


def ints(name: str, *numbers: int) -> TensorProto:
    return tensor(name, TensorProto.INT64, [len(numbers)], numbers)


def scalar(name: str, number: int) -> TensorProto:
    return tensor(name, TensorProto.INT64, [], [number])


def floats(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.full(shape, 0.5, np.float32), name)


def loop(trips: int, *body_nodes: object) -> object:
    body = make_graph(
        [make_node("Identity", ["go"], ["on"]), *body_nodes],  # type: ignore[list-item]
        "body",
        [value("i", (), TensorProto.INT64), value("go", (), TensorProto.BOOL), value("v", (1, 4))],
        [value("on", (), TensorProto.BOOL), value("w", None)],
    )
    return make_node("Loop", ["trips", "", "x"], ["y"], body=body)


IMAGE = (1, 1, 4, 4)
CASES = {
    # name: (input shape, nodes, constants, the operator that is named)
    "results by constants": ((1,), [make_node("Expand", ["x", "s"], ["y"])], [ints("s", HUGE)], "Expand"),
    "results that fill": ((1,), [make_node("ConstantOfShape", ["s"], ["t"]), make_node("Add", ["x", "t"], ["y"])],
                          [ints("s", 1 << 30)], "ConstantOfShape"),
    "tiles": ((4,), [make_node("Tile", ["x", "s"], ["y"])], [ints("s", HUGE)], "Tile"),
    "pads": ((4,), [make_node("Pad", ["x", "s"], ["y"])], [ints("s", 1 << 30, 0)], "Pad"),
    "pads of a convolution": (IMAGE, [make_node("Conv", ["x", "k"], ["y"], pads=[8000] * 4)],
                              [floats("k", 1, 1, 3, 3)], "Conv"),
    "pads that windows leap over": (
        IMAGE, [make_node("MaxPool", ["x"], ["y"], kernel_shape=[1, 1], pads=[30000] * 4, strides=[30000] * 2)],
        [], "MaxPool"),
    "a stride that writes far apart": (
        IMAGE, [make_node("ConvTranspose", ["x", "k"], ["y"], strides=[9000] * 2, pads=[13000] * 4)],
        [floats("k", 1, 1, 3, 3)], "ConvTranspose"),
    "windows copied out": (
        (1, 1, 3000, 3000),
        [make_node("MaxPool", ["x"], ["y", "z"], kernel_shape=[9, 9], pads=[4] * 4)], [], "MaxPool"),
    "broadcasting": ((1 << 14, 1), [make_node("Transpose", ["x"], ["t"]), make_node("Add", ["x", "t"], ["y"])],
                     [], "Add"),
    "an outer product": ((1 << 14,), [make_node("Einsum", ["x", "x"], ["y"], equation="i,j->ij")], [], "Einsum"),
    "weights of an interpolation": (
        (1, 1, 1, 1 << 13),
        [make_node("Resize", ["x", "", "", "s"], ["y"], mode="linear")], [ints("s", 1, 1, 1, 1 << 14)], "Resize"),
    "steps of a normalization": (IMAGE, [make_node("LRN", ["x"], ["y"], size=1 << 30)], [], "LRN"),
    "iterations": ((1, 4), [loop(0, make_node("Abs", ["v"], ["w"]))], [scalar("trips", 1 << 62)], "Loop"),
    "doubling iterations": ((1, 4), [loop(0, make_node("Concat", ["v", "v"], ["w"], axis=0))],
                            [scalar("trips", 40)], "Concat"),
    "doubling nodes": (
        (1, 4), [make_node("Concat", ["x", "x"], ["t0"], axis=0)]
        + [make_node("Concat", [f"t{k}", f"t{k}"], [f"t{k + 1}"], axis=0) for k in range(40)]
        + [make_node("ReduceSum", ["t40"], ["y"])], [], "Concat"),
}  # fmt: skip


def saved(folder: Path, name: str) -> Path:
    shape, nodes, constants, _ = CASES[name]
    content = model(nodes, inputs=[value("x", shape)], outputs=[value("y", None)], constants=constants, opset=18)
    return write(folder, content)


@contextmanager
def bounded(size: int) -> Iterator[None]:
    """What happens within is done soon, and needs no more memory than so many bytes."""
    with own_seconds() as seconds:
        tracemalloc.start()
        try:
            yield
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak <= size
        assert seconds() < LONGEST


@pytest.mark.parametrize("name", CASES)
def test_what_costs_too_much_is_refused(tmp_path: Path, name: str) -> None:
    loaded = flow.read(saved(tmp_path, name), LENIENT)
    with bounded(MAX_HELD_BYTES + MAX_VALUE_BYTES), pytest.raises(UserError, match="would cost too much") as refusal:
        reference.run(loaded, {"x": np.zeros(CASES[name][0], np.float32)})
    (problem,) = refusal.value.problems
    assert CASES[name][3] in problem.message and CASES[name][3] in problem.where


@pytest.mark.parametrize("name", CASES)
def test_a_verdict_costs_little(tmp_path: Path, name: str) -> None:
    """Nothing is computed, be it refused or not."""
    path = saved(tmp_path, name)
    with bounded(1 << 29):
        check_hardware(BuildOptions(model=path, reading=LENIENT))


def test_constants_that_double_are_not_folded_for_ever(tmp_path: Path) -> None:
    """Each is as large as what it is made of; only all together they are too large."""
    nodes = [make_node("Neg", ["c"], ["n0"]), make_node("Concat", ["c", "n0"], ["t0"], axis=0)]
    for k in range(30):
        nodes.append(make_node("Neg", [f"t{k}"], [f"n{k + 1}"]))
        nodes.append(make_node("Concat", [f"t{k}", f"n{k + 1}"], [f"t{k + 1}"], axis=0))
    nodes += [make_node("ReduceSum", ["t30"], ["r"], keepdims=0), make_node("Add", ["x", "r"], ["y"])]
    content = model(nodes, inputs=[value("x", (1,))], outputs=[value("y", None)], constants=[floats("c", 1 << 12)])
    with bounded(2 * FOLDED_BYTES_LIMIT):
        folded = fold(flow.read(write(tmp_path, content), LENIENT))
    assert 20 < len(folded.graph.nodes) < len(nodes)


def test_a_product_of_constants_is_not_folded_for_minutes(tmp_path: Path) -> None:
    nodes = [make_node("MatMul", ["c", "c"], ["a"])]
    nodes += [make_node("MatMul", ["a", "c"], [f"b{k}"]) for k in range(40)]
    nodes += [make_node("Sum", ["x", *(f"b{k}" for k in range(40))], ["y"])]
    content = model(nodes, inputs=[value("x", (1024, 1024))], outputs=[value("y", None)], constants=[
        floats("c", 1024, 1024)
    ])  # fmt: skip
    with bounded(1 << 30):
        folded = fold(flow.read(write(tmp_path, content), LENIENT))
    assert len(folded.graph.nodes) > 10


def test_a_run_pays_for_what_it_computes(tmp_path: Path) -> None:
    """An ordinary network takes a small share, and what is let go is free again."""
    nodes = [make_node("Relu", [f"t{k}" if k else "x"], [f"t{k + 1}"]) for k in range(40)]
    content = model(nodes, inputs=[value("x", (1 << 20,))], outputs=[value("t40", None)])
    loaded = flow.read(write(tmp_path, content), LENIENT)
    allowance = Allowance()
    evaluate(loaded.graph, {"x": np.zeros(1 << 20, np.float32)}, ["t40"], allowance=allowance)
    assert 80 << 20 <= MAX_STEPS - allowance.steps <= 90 << 20
    assert allowance.held == 0


def test_a_branch_that_is_taken_pays_too(tmp_path: Path) -> None:
    grown = branch("then", [make_node("Expand", ["x", "s"], ["r"])], [value("r", None)], [ints("s", HUGE)])
    kept = branch("else", [make_node("Identity", ["x"], ["q"])], [value("q", None)])
    node = make_node("If", ["c"], ["y"], then_branch=grown, else_branch=kept)
    inputs = [value("c", (), TensorProto.BOOL), value("x", (1,))]
    loaded = flow.read(write(tmp_path, model([node], inputs=inputs, outputs=[value("y", None)])), LENIENT)
    feeds = {"x": np.zeros(1, np.float32)}
    assert reference.run(loaded, {**feeds, "c": np.array(False)})["y"].shape == (1,)
    with pytest.raises(UserError, match=r"Expand .* would cost too much"):
        reference.run(loaded, {**feeds, "c": np.array(True)})


def test_tensors_too_large_for_a_stream_are_named(tmp_path: Path) -> None:
    weights = helper.make_tensor("w", TensorProto.FLOAT, (1, 1, 3, 3), [1] * 9)
    nodes = [
        make_node("Conv", ["x", "w"], ["big"], "widens", pads=[4000] * 4),
        make_node("GlobalMaxPool", ["big"], ["y"]),
    ]
    content = model(nodes, inputs=[value("x", IMAGE)], outputs=[value("y", None)], constants=[weights])
    refusal = check_hardware(BuildOptions(model=write(tmp_path, content), reading=LENIENT))
    assert refusal is not None
    assert {problem.code for problem in refusal.problems} == {"tensor-too-large"}
    assert "big" in refusal.problems[0].message and "widens" in refusal.problems[0].where


def test_a_constant_that_is_too_large_is_named_once_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx_hw.commands.early_fit.WEIGHTS_BEYOND_DOUBT", inf)  # else they are too large as weights
    weights = helper.make_tensor("shape", TensorProto.INT64, (2,), [18_000, 1_000])
    nodes = [
        make_node("ConstantOfShape", ["shape"], ["filled"], "fills"),
        make_node("Transpose", ["filled"], ["turned"]),
        make_node("MatMul", ["x", "turned"], ["y"]),
    ]
    inputs = [value("x", (1, 1_000))]
    content = model(nodes, inputs=inputs, outputs=[value("y", None)], constants=[weights])
    refusal = check_hardware(BuildOptions(model=write(tmp_path, content), reading=LENIENT))
    assert refusal is not None
    (problem,) = refusal.problems
    assert (problem.code, "fills" in problem.where) == ("tensor-too-large", True)
    assert "`filled`" in problem.message and "constant" in problem.message
