"""Cores whose constants are loaded: the circuit against golden, and two sets of constants in one circuit."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.assemble.elaborate import assemble, module_names, to_rtlil
from onnx_hw.assemble.load_map import load_map
from onnx_hw.assemble.netlist import without_loaded_contents
from onnx_hw.exact.division import exponentials
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.rounding_shift import LoadableBounds, steps_of_shift
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.normalize import Normalize
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.rearrange import Rearrange
from onnx_hw.ops.requantize import NotInForm, Requantize, Staircase
from onnx_hw.ops.softmax import Softmax
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from onnx_hw_rtl.parts.constant_memory import LoadedMemory, LoadedRegister
from support.hand_built_designs import alone
from support.injected_faults import prove_case
from support.random_cases import Case, cases, few, many
from support.random_cores import folding_of

KINDS = ("matmul", "depthwise", "requantize", "bounded", "table", "lookup", "window", "pool", "multiply", "sum",
         "rearrange", "softmax", "normalize")  # fmt: skip


def drawn(kind: str, draw: Random, constants: np.random.Generator) -> Operator[Any]:
    """Return an operator whose shapes and widths are those of ``draw``, with loadable constants of their own."""
    height, width, channels = draw.randint(1, 3), draw.randint(1, 3), draw.randint(1, 6)
    shape, bits = (height, width, channels), draw.choice((2, 4, 8))
    most = (1 << bits - 1) - 1
    match kind:
        case "matmul":
            weights = constants.integers(-most - 1, most + 1, (draw.randint(1, 7), channels))
            weights.flat[0] = most
            return loaded(MatMul(Tensor(shape, Int(8)), weights).loadable())
        case "depthwise":
            kernels = constants.integers(-most - 1, most + 1, (channels * draw.choice((1, 2)), 2, 2))
            kernels.flat[0] = most
            operand, pads = Tensor((height + 1, width + 1, channels), Int(8)), draw.choice([(0, 0, 0, 0), (1, 0, 1, 1)])
            return loaded(Depthwise(operand, kernels, pads=pads, pad_value=number(constants, Int(8))).loadable())
        case "window" | "pool":
            operand = Tensor((height + 1, width + 1, channels), Int(draw.choice((4, 8)), draw.random() < 0.5))
            how: dict[str, Any] = {"pads": draw.choice([(1, 1, 1, 1), (1, 0, 1, 1)]), "kernel": (2, 2)}
            how |= {"pad_value": number(constants, operand.dtype), "strides": draw.choice([(1, 1), (2, 2)])}
            return loaded((Window(operand, **how) if kind == "window" else Pool(operand, "sum", **how)).loadable())
        case "multiply":
            types = [Int(draw.choice((4, 8)), draw.random() < 0.5) for _ in range(2)]
            a, b = (Tensor(shape, dtype) for dtype in types)
            p, q = (-number(constants, dtype) for dtype in types)
            return loaded(Multiply(a, b, (p, q)).loadable())
        case "rearrange":
            operand = Tensor((height, width, channels + 1), Int(draw.choice((4, 8)), draw.random() < 0.5))
            source = np.array([draw.randrange(-1, operand.size) for _ in range(operand.size - 1)] + [-1])
            source[0] = 0
            return loaded(Rearrange(operand, operand.shape, source, number(constants, operand.dtype)).loadable())
        case "softmax":
            operand = Tensor((height, width, channels + 1), Int(draw.choice((4, 6))))
            powers = exponentials(Fraction(float(constants.uniform(0.01, 0.5))), 1 << operand.dtype.bits, 12)
            grid = Grid.over(Int(8), Fraction(1, draw.choice((200, 256))), -128)
            return loaded(Softmax(operand, powers, grid).loadable())
        case "normalize":
            operand = Tensor(shape, Int(draw.choice((4, 8))))
            return replace(
                Normalize(operand, draw.random() < 0.5, channels, 1, mantissa_bits=8, fraction_bits=6).loadable(),
                epsilon=int(constants.integers(0, 16)),
            )
        case "sum":
            dtype, shift = Int(draw.choice((4, 8)), draw.random() < 0.5), draw.randint(2, 9)
            operand = Tensor(shape, Int(shift + dtype.bits + draw.randint(1, 3)))
            low, high = sorted(number(constants, dtype) for _ in range(2))
            function = steps_of_shift(shift, int(constants.integers(2)), (low, high), operand.range)
            return Staircase(operand, function, dtype, LoadableBounds(operand.dtype, shift, dtype.min, dtype.max))
        case "lookup":
            rows = draw.choice((1, channels))
            operand = Tensor(shape, Int(draw.choice((3, 6, 8)), draw.random() < 0.5))
            first, last = operand.range
            dtype = Int(draw.choice((2, 8)), draw.random() < 0.5)
            values = constants.integers(dtype.min, dtype.max + 1, (rows, last - first + 1))
            return loaded(Lookup(operand, values, dtype).loadable())
    operand = Tensor(shape, Int(draw.choice((4, 8)) if kind == "table" else draw.choice((10, 14, 20)), True))
    dtype, rows = Int(draw.choice((4, 8)), draw.random() < 0.5), draw.choice((1, channels))
    made = None
    while made is None:  # a few functions have ties on no line
        steps = 2.0 ** constants.uniform(dtype.bits - operand.dtype.bits - 1, dtype.bits - operand.dtype.bits + 2, rows)
        slopes = tuple(Fraction(float(np.float32(step))) for step in steps)
        offsets = tuple(Fraction(float(np.float32(offset))) for offset in constants.normal(0, 20, rows))
        grid = Grid.over(dtype, zero_point=number(constants, dtype))
        if kind == "bounded":
            grid = grid.within(*sorted(number(constants, dtype) for _ in range(2)))
        made = Requantize(operand, slopes, offsets, grid, bounded=kind == "bounded").loadable()
    return loaded(made)


def number(constants: np.random.Generator, dtype: Int) -> int:
    return int(constants.integers(dtype.min, dtype.max + 1))


def loaded(operator: Operator[Any] | None) -> Operator[Any]:
    assert operator is not None and (operator.has_loaded_constants or operator.loaded_numbers)
    return operator


@st.composite
def folded(draw: st.DrawFn, kind: str) -> tuple[Operator[Any], Folding]:
    seed = draw(st.integers(0, 9999))
    operator = drawn(kind, Random(seed), np.random.default_rng(seed))
    return operator, folding_of(operator, Random(draw(st.integers(0, 9999))))


@pytest.mark.parametrize("kind", KINDS)
def test_circuit(kind: str) -> None:
    """Every value and every firing, with stalls, at any folding, several frames one after the other."""

    @few
    @given(cases(folded(kind)))
    def run(case: Case) -> None:
        case.check()

    run()


def circuit_of(operator: Operator[Any], folding: Folding) -> str:
    """Return the netlist without the first contents of loaded memories."""
    return without_loaded_contents(to_rtlil(assemble(alone(operator, folding, 4), probes=True)[0]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_circuit_does_not_depend_on_the_constants(kind: str) -> None:
    different = 0  # constants of few values may be equal
    for seed in range(12):
        first, second = (drawn(kind, Random(seed), np.random.default_rng(seed + k)) for k in (100, 200))
        if isinstance(first, Requantize):
            try:
                _ = (second := replace(second, form=first.form)).circuit  # type: ignore[type-var]
            except NotInForm:
                continue
        folding = folding_of(first, Random(seed))
        assert circuit_of(first, folding) == circuit_of(second, folding)
        different += load_map_of(first, folding).contents != load_map_of(second, folding).contents
    assert different >= 3


def load_map_of(operator: Operator[Any], folding: Folding) -> Any:
    design = alone(operator, folding, 4)
    return load_map(design, module_names(design))


def noted(original: Any, made: list[Any]) -> Any:
    """Return a constructor that notes what it makes."""

    def init(self: Any, *arguments: Any) -> None:
        original(self, *arguments)
        made.append(self)

    return init


@many
@given(st.sampled_from(KINDS), st.integers(0, 999))
def test_the_map_holds_what_the_memories_begin_with(kind: str, seed: int) -> None:
    """The map is made of the operators' statement, and the memories of the circuit of its arguments."""
    operator = drawn(kind, Random(seed), np.random.default_rng(seed))
    folding = folding_of(operator, Random(seed))
    made: list[LoadedMemory] = []
    numbers: list[LoadedRegister] = []
    with pytest.MonkeyPatch.context() as patch:
        for kept, part in ((made, LoadedMemory), (numbers, LoadedRegister)):
            patch.setattr(part, "__init__", noted(part.__init__, kept))
        circuit_of(operator, folding)
    plan = load_map_of(operator, folding)
    regions, contents = {region.base: region for region in plan.regions}, plan.contents
    assert len(made) + len(numbers) == len(regions) and plan.size % 16 == 0
    for register in numbers:
        region = regions[register.place.base]
        assert ((register.value,), register.width, register.place.stride) == (region.words, region.bits, region.stride)
    for memory in made:
        region = regions[memory.place.base]
        assert (memory.words, memory.width, memory.place.stride) == (region.words, region.bits, region.stride)
        for k, word in enumerate(memory.words):
            at = region.base + k * region.stride
            assert contents[at : at + region.stride] == word.to_bytes(region.stride, "little")
    ends = sorted((region.base, region.base + region.stride * len(region.words)) for region in plan.regions)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))


@pytest.mark.parametrize("kind", ["bounded", "window", "pool", "depthwise", "multiply", "sum", "rearrange"])
def test_a_wrong_number_is_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = drawn(kind, Random(4), np.random.default_rng(4))
    assert operator.loaded_numbers
    original = LoadedRegister.__init__

    def init(self: Any, width: int, value: int, *rest: Any) -> None:
        original(self, width, value ^ 1, *rest)

    monkeypatch.setattr(LoadedRegister, "__init__", init)
    run = prove_case(Case(operator, folding_of(operator, Random(3)), frames=4))
    assert run.mismatches and not run.firing_mismatches


@pytest.mark.parametrize("kind", ["matmul", "depthwise", "requantize", "table", "lookup", "softmax"])
def test_a_wrong_word_is_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the tests above can fail: one bit of a word that is read is wrong in the circuit."""
    operator = drawn(kind, Random(3), np.random.default_rng(3))
    original = LoadedMemory.__init__

    def init(self: Any, width: int, words: list[int], *rest: Any) -> None:
        original(self, width, [word ^ (1 << 10 if kind == "softmax" else 1) for word in words], *rest)

    monkeypatch.setattr(LoadedMemory, "__init__", init)
    run = prove_case(Case(operator, folding_of(operator, Random(3)), frames=4))
    assert run.mismatches and not run.firing_mismatches


def test_weights_of_another_type_are_refused() -> None:
    operand, weights = Tensor((1, 1, 3), Int(8)), np.array([[1, -128, 3]])
    with pytest.raises(ValueError, match=r"weights must be i4, not -128\.\.3"):
        MatMul(operand, weights, loaded=Int(4))
    with pytest.raises(ValueError, match="come on a stream"):
        MatMul(operand, Tensor((1, 2, 3), Int(8)), loaded=Int(8))
    with pytest.raises(ValueError, match="tables must be 1"):
        Lookup(operand, np.zeros((3, 256), dtype=np.int64), Int(4), loaded_table(1, Int(4)))


def loaded_table(channels: int, entry: Int) -> Any:
    from onnx_hw.exact.lookup_requantizers import LoadableTable

    return LoadableTable(channels, Int(8), entry)


def test_sums_have_the_range_of_any_weights() -> None:
    operand = Tensor((1, 1, 3), Int(8))
    product = MatMul(operand, np.ones((2, 3), dtype=np.int64)).loadable()
    assert product is not None and product.loaded == Int(2)
    assert product.results()[0].range == (3 * -2 * 127, 3 * -2 * -128)
    assert product.golden(np.full((1, 1, 1, 3), -128))[0].tolist() == [[[[-384, -384]]]]
