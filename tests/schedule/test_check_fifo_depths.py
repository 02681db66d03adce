"""FIFO depths that somebody chooses: refused where the circuit would stop, with what it needs; else taken as given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.add import Add
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.size_fifos import kept_interval, size_fifos
from support.design_bench import Bench, assert_proven, no_stall
from support.hand_built_designs import Sketch

IMAGE = Tensor((5, 6, 2), Int(4))


def short_of_two() -> Design:
    """A skip of two edges, beside a pool that keeps two rows back: each may hold what the other does not."""
    sketch = Sketch()
    x = sketch.input("x", IMAGE)
    near, far = sketch.add("fork", Fork(IMAGE, 2), [x], (1, 1), 1, 1)
    (near,) = sketch.add("pass", Fork(IMAGE, 1), [near], (1, 1), 1)
    (far,) = sketch.add("pool", Pool(IMAGE, "max", (3, 3), pads=(1, 1, 1, 1)), [far], (1, 1), 1)
    sketch.add("sum", Add(IMAGE, sketch.tensors[far]), [near, far], (1, 1), 1)
    return sketch.design()


def problems(design: Design, depths: dict[str, int]) -> list[tuple[str, str, str]]:
    """Code, place and message of everything that is refused."""
    with pytest.raises(UserError) as refused:
        size_fifos(design, depths)
    return [(problem.code, problem.where, problem.message) for problem in refused.value.problems]


def test_what_is_no_fifo_or_no_depth() -> None:
    told = problems(short_of_two(), {"fork.o0": 0, "frok.o1": 3, "x": 3})
    assert [message for _, _, message in told] == [
        "no FIFO carries a tensor `frok.o1`",
        "no FIFO carries a tensor `x`",
        "a FIFO must hold 1 token or more, not 0",
    ]


def test_a_cut_below_the_live_depth_is_refused_with_the_needed_one() -> None:
    """The edge, what was given, what is needed: with that it lives, and one less is refused as well."""
    design = short_of_two()
    assert size_fifos(design).fifos["fork.o0"].live_depth == 1, "the edge after it is ample"
    ((code, where, message),) = problems(design, {"fork.o0": 3, "pass.o0": 2})
    assert (code, where) == ("fifo-too-shallow", "from the core `pass` to the core `sum`")
    needed = int(message.split("at least ")[1].split()[0])
    assert needed > 5
    assert message == (
        f"the FIFO of `pass.o0` must hold at least {needed} tokens, with the depths given before, not 2: "
        "with fewer the circuit comes to a stop"
    )
    ((_, _, message),) = problems(design, {"fork.o0": 3, "pass.o0": needed - 1})
    assert f"at least {needed} tokens" in message and f"not {needed - 1}" in message
    taken = size_fifos(design, {"fork.o0": 3, "pass.o0": needed})
    assert (taken.fifos["fork.o0"].depth, taken.fifos["pass.o0"].depth) == (3, needed)
    assert_proven(Bench(taken).prove(no_stall(taken, 2), frames=2))


def test_every_edge_that_is_too_shallow_is_told() -> None:
    """Two skips around one pool after the other."""
    sketch = Sketch()
    x = sketch.input("x", IMAGE)
    for k in range(2):
        near, far = sketch.add(f"fork{k}", Fork(sketch.tensors[x], 2), [x], (1, 1), 1, 1)
        (far,) = sketch.add(f"pool{k}", Pool(sketch.tensors[x], "max", (3, 3), pads=(1, 1, 1, 1)), [far], (1, 1), 1)
        (x,) = sketch.add(f"sum{k}", Add(sketch.tensors[near], sketch.tensors[far]), [near, far], (1, 1), 1)
    told = problems(sketch.design(), {"fork0.o0": 1, "fork1.o0": 2})
    assert [where for _, where, _ in told] == [f"from the core `fork{k}` to the core `sum{k}`" for k in range(2)]
    fifos = size_fifos(sketch.design()).fifos
    for k, (code, _, message) in enumerate(told):
        assert code == "fifo-too-shallow"
        assert f"`fork{k}.o0` must hold at least {fifos[f'fork{k}.o0'].live_depth} tokens, not {k + 1}:" in message


def test_forced_it_is_built_and_the_deadlock_is_told_as_a_closed_circle() -> None:
    design = size_fifos(short_of_two(), {"fork.o0": 3, "pass.o0": 2}, force=True)
    assert (design.fifos["fork.o0"].depth, design.fifos["pass.o0"].depth) == (3, 2)
    run = Bench(design).prove(no_stall(design, 2), frames=2)
    assert_proven(run, live=False)
    assert run.cycles < 5000, "it is noticed soon"
    waits = [line.split(" waits in ")[0].split(".")[0] for line in run.deadlock]
    assert sorted(waits) == ["fork", "pass", "pool", "pool", "sum"], "each waits for the next, the last for the first"
    assert sum("for room on" in line for line in run.deadlock) == 2


def test_below_the_rate_depth_it_is_slower_by_as_much_as_is_predicted() -> None:
    """The others are chosen for the interval that is left, not for one that cannot be kept: they stay shallow."""
    sketch = Sketch()
    x = sketch.input("x", IMAGE)
    for name in ("first", "second", "third"):
        (x,) = sketch.add(name, Fork(IMAGE, 1), [x], (1, 1), 1)
    design = sketch.design()
    free = size_fifos(design)
    assert all(size.rate_depth > 1 for size in free.fifos.values())
    slow = size_fifos(design, {"second.o0": 1})
    assert kept_interval(free) == design.interval < kept_interval(slow)
    run = Bench(slow).prove(no_stall(slow, 8), frames=8)
    assert_proven(run)
    assert run.interval_cycles == kept_interval(slow)
    assert max(size.depth for size in slow.fifos.values()) <= max(size.depth for size in free.fifos.values())


def test_depths_that_were_chosen_may_be_given_back() -> None:
    design = short_of_two()
    free = size_fifos(design)
    assert size_fifos(design, {tensor: size.depth for tensor, size in free.fifos.items()}) == free
    deep = size_fifos(design, {"sum.o": 100})
    assert deep == replace(free, fifos={**free.fifos, "sum.o": replace(free.fifos["sum.o"], depth=100)})
