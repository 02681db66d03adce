"""The netlist as text."""

from __future__ import annotations

import re
import warnings
from importlib.util import find_spec, module_from_spec

import amaranth
import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import MemoryData, Module
from amaranth.lib import memory
from amaranth.lib.wiring import Component, Out

from onnx_hw.assemble.elaborate import assemble, to_rtlil
from onnx_hw.exact.integers import Int
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.parts import memory_words
from support.hand_built_designs import alone


def test_no_name_can_be_taken_for_a_bit_of_another() -> None:
    """``payload[2]`` would be both the third element and the third bit of ``payload``."""
    text = to_rtlil(assemble(alone(Fork(Tensor((2, 2, 4), Int(8))), (4, 4), 2))[0])
    names = set(re.findall(r"^ *wire .*(\\\S+)$", text, re.MULTILINE))
    assert {r"\i__payload", r"\i__payload.2"} <= names
    assert not [name for name in names if "[" in name]


def test_no_wire_is_signed_but_what_cells_compute_is() -> None:
    """In Verilog a wire's own sign would count, also where a cell takes its bits for an unsigned number."""
    product = MatMul(Tensor((2, 2, 3), Int(8)), np.arange(-3, 3).reshape(2, 3))
    text = to_rtlil(assemble(alone(product, (3, 2), 2))[0])
    assert not re.findall(r"^ *wire .*\bsigned\b.*$", text, re.MULTILINE)
    assert re.findall(r"parameter \\A_SIGNED 1$", text, re.MULTILINE)


class _Memories(Component):
    """Memories of these shapes and depths, with words of both signs where there are any."""

    def __init__(self, kinds: list[tuple[int, bool, int]]) -> None:
        self.kinds = kinds
        super().__init__({f"data{k}": Out(width) for k, (width, _, _) in enumerate(kinds)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for k, (width, signs, depth) in enumerate(self.kinds):
            shape = amaranth.Shape(width, signed=signs)
            words = [(word * 37) % (1 << width) - (signs << width >> 1) for word in range(depth - 1)]
            m.submodules[f"memory{k}"] = words_of = memory.Memory(shape=shape, depth=depth, init=words)
            m.d.comb += getattr(self, f"data{k}").eq(words_of.read_port().data)
        return m


def test_memories_are_written_as_amaranth_writes_them() -> None:
    """Of any width, with words of both signs and fewer of them than the memory has."""
    spec = find_spec("amaranth.back.rtlil")
    assert spec and spec.loader
    amaranths = module_from_spec(spec)  # a second time, as it came
    spec.loader.exec_module(amaranths)
    kinds = [(1, False, 2), (8, True, 5), (7, True, 1), (72, False, 64), (3, True, 33), (0, False, 4)]
    memory_words.write_memories_as_words()
    assert rtlil.ModuleEmitter.emit_memory.__module__ == memory_words.__name__, "this version was not looked at"
    here = rtlil.convert(_Memories(kinds), name="top", emit_src=False)
    assert here == amaranths.convert(_Memories(kinds), name="top", emit_src=False)


@pytest.mark.parametrize("shape", [amaranth.unsigned(5), amaranth.unsigned(0), amaranth.signed(5)])
def test_words_are_taken_as_amaranth_takes_them(shape: amaranth.Shape) -> None:
    """Also those that do not fit, of which it warns, and constants; what is no number is refused."""
    words = [0, 1, 15, 16, 31, 32, 77, -1, -16, -17, True, amaranth.Const(3, 4)]
    memory_words.write_memories_as_words()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here = MemoryData.Init(words, shape=shape, depth=len(words) + 1)
        there = MemoryData.Init([], shape=shape, depth=len(words) + 1)
        for k, word in enumerate(words):
            memory_words._set_any_word(there, k, word)
    assert MemoryData.Init.__setitem__ is memory_words._set_word, "this version was not looked at"
    assert list(here) == list(there) and here._raw == there._raw
    with pytest.raises(TypeError):
        MemoryData.Init(["3"], shape=shape, depth=1)
    with pytest.warns(match="truncated"):
        MemoryData.Init([1 << 5], shape=shape, depth=1)
