"""The search against all legal foldings of small networks, tried one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_hw.exact.integers import Int
from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.add import Add
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.operator import Operator, Resources
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from onnx_hw.schedule import search_folding as searched
from onnx_hw.schedule.budget import RESOURCES, Budget, amount
from onnx_hw.schedule.candidates import Offers
from onnx_hw.schedule.cost_model import cost
from onnx_hw.schedule.folding_for_interval import between, fold, fold_for, resources_of
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.min_cycles import least_cycles, longest_interval
from onnx_hw.schedule.schedule_network import schedule_network
from onnx_hw.schedule.search_folding import MAX_MISSES, choose_folding, hopeless
from support.hand_built_designs import Sketch
from support.legal_foldings import legal
from support.targets import ecp5_at


def drawn(random: np.random.Generator) -> Network:
    """Two to six nodes in a line, one of them beside a shortcut."""
    sketch = Sketch()
    rows, columns, channels = map(int, random.integers((2, 2, 1), 5))
    x = sketch.input("x", Tensor((rows, columns, channels), Int(8)))

    def add(operator: Operator, *inputs: str) -> str:
        (made,) = sketch.add(f"core{len(sketch.nodes)}", operator, list(inputs), operator.narrowest, 1)
        return made

    def weights(*shape: int) -> np.ndarray:
        return random.integers(-8, 8, shape)

    while len(sketch.nodes) < 4:
        tensor = sketch.tensors[x]
        kind = random.integers(5)
        if kind == 0 and min(tensor.shape[:2]) > 1 and tensor.channels < 4:
            x = add(Window(tensor, (1, 2)), x)
        elif kind == 1 and min(tensor.shape[:2]) > 1:
            x = add(Pool(tensor, "max", (2, 1)), x)
        elif kind == 2 and min(tensor.shape[:2]) > 1:
            x = add(Depthwise(tensor, weights(tensor.channels, 2, 1)), x)
        elif kind == 3 and len(sketch.nodes) < 3:
            beside = add(MatMul(tensor, weights(tensor.channels, tensor.channels)), x)
            x = add(Add(tensor, sketch.tensors[beside]), x, beside)
        else:
            x = add(MatMul(tensor, weights(int(random.integers(1, 7)), tensor.channels)), x)
    return insert_forks(sketch.design().network)


def array_of(used: Resources) -> np.ndarray:
    return np.array([amount(used, field) for field in RESOURCES])


def all_tried(network: Network, budget: Budget, interval: int) -> bool:
    """Whether any foldings keep the budget and the interval: every choice for one node after the other.

    A choice is given up when it is over the budget, with what the nodes that follow need at least.
    """
    bounds = (getattr(budget, field) for field in RESOURCES)
    allowed = [float("inf") if bound is None else bound for bound in bounds]
    choices = [
        [(folding, array_of(node.operator.resources(folding))) for folding in legal(node.operator)
         if node.operator.cycles(folding) <= interval]
        for node in network.nodes
    ]  # fmt: skip
    if not all(choices):
        return False
    least = [np.min([used for _, used in some], axis=0) for some in choices]
    behind = [sum(least[k + 1 :], np.zeros(len(RESOURCES))) for k in range(len(least))]
    known: dict[tuple[int, ...], np.ndarray] = {}

    def joint(given: Order, wanted: Order) -> np.ndarray:
        key = id(given.tensor), given.lanes, wanted.lanes
        if key not in known:
            known[key] = array_of(between(given, wanted))
        return known[key]

    def fits(k: int, so_far: np.ndarray, sent: dict[str, Order]) -> bool:
        if k == len(choices):
            return True
        node: NetworkNode = network.nodes[k]
        for folding, used in choices[k]:
            total = so_far + used
            for tensor, wanted in zip(node.inputs, node.operator.input_orders(folding), strict=True):
                if tensor in sent:
                    total = total + joint(sent[tensor], wanted)
            if (total + behind[k] <= allowed).all():
                now = sent | dict(zip(node.outputs, node.operator.output_orders(folding), strict=True))
                if fits(k + 1, total, now):
                    return True
        return False

    return fits(0, np.zeros(len(RESOURCES)), {})


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_faster_by_a_percent(seed: int) -> None:
    random = np.random.default_rng(seed)
    network = drawn(random)
    assert 2 <= len(network.nodes) <= 6
    longest = longest_interval(network)
    cheap, fast = (fold_for(network, interval) for interval in (longest, least_cycles(network)[1]))
    assert cheap is not None and fast is not None
    few, many = (resources_of(network, foldings) for foldings in (cheap, fast))
    lut = int(random.uniform(few.lut, many.lut + 50))
    budget = Budget(int(random.integers(1, many.dsp + 2)), many.dsp, lut)
    found = choose_folding(network, budget, least_cycles(network)[1])
    if found is None:
        assert not all_tried(network, budget, longest)
        return
    assert not budget.excess(resources_of(network, found))
    interval = max(node.operator.cycles(found[node.name]) for node in network.nodes)
    assert all_tried(network, budget, interval)
    assert not all_tried(network, budget, -(-interval * 100 // 101) - 1)


def test_what_is_said_to_be_hopeless_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is far too large is refused after few questions."""
    said = 0
    for seed in range(12):
        random = np.random.default_rng(seed)
        network = drawn(random)
        longest = longest_interval(network)
        cheap = fold_for(network, longest)
        assert cheap is not None
        needed = resources_of(network, cheap).lut
        for share in random.uniform(0.5, 0.95, 3):
            little = Budget(lut=int(needed * share))
            if hopeless(Offers(network, cost), little):
                assert not all_tried(network, little, longest)
                said += 1
        asked: list[int] = []
        monkeypatch.setattr(searched, "fold", lambda *a, asked=asked: (asked.append(a[1]), fold(*a))[1])
        with pytest.raises(UserError, match="LUTs"):
            schedule_network(network, Budget(lut=needed // 4), target=ecp5_at(10))
        assert len(asked) <= 2 * MAX_MISSES  # with several pixels a beat, and with one
    assert said >= 12
