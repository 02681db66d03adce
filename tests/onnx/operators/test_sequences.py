"""Sequences and optional values, where ONNX's own cases do not look."""

import numpy as np
import pytest

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.model import Node, Value
from onnx_hw.onnx.operators.evaluate import compute

A, B, C = (np.full((2, 3), value, np.float32) for value in (1, 2, 3))


def one(op_type, *inputs, **attributes):
    names = tuple("" if x is None else f"x{k}" for k, x in enumerate(inputs))
    (y,) = compute(Node("n", op_type, "", 18, names, ("y",), attributes, ""), inputs, None)
    return y


def numbers(sequence):
    return [int(x.flat[0]) for x in sequence]


def test_building_and_taking_apart():
    sequence = one("SequenceConstruct", A, B, C)
    assert numbers(sequence) == [1, 2, 3]
    assert one("SequenceAt", sequence, np.array(-1)) is C
    assert numbers(one("SequenceErase", sequence, np.array(0))) == [2, 3]
    assert numbers(one("SequenceErase", sequence)) == [1, 2]
    assert numbers(one("SequenceInsert", sequence, A, np.array(-2))) == [1, 1, 2, 3]
    assert numbers(one("SequenceInsert", sequence, A)) == [1, 2, 3, 1]
    assert one("SequenceLength", sequence) == 3
    assert one("SequenceLength", one("SequenceEmpty")) == 0
    assert numbers(sequence) == [1, 2, 3]


@pytest.mark.parametrize(("op_type", "position"), [("SequenceAt", 3), ("SequenceAt", -4), ("SequenceErase", 3)])
def test_positions_must_be_inside(op_type, position):
    with pytest.raises(UserError, match=r"position must be within -3\.\.2"):
        one(op_type, [A, B, C], np.array(position))


def test_concatenation():
    assert one("ConcatFromSequence", [A, B], axis=1).shape == (2, 6)
    assert one("ConcatFromSequence", [A, B], axis=1, new_axis=1).shape == (2, 2, 3)
    parts = one("SplitToSequence", np.concatenate([A, B]), np.array(3), axis=0)
    assert [part.shape for part in parts] == [(3, 3), (1, 3)]


def test_optional_values():
    kind = Value("", "float", None)
    assert one("Optional", type=kind) is None
    assert one("Optional", A) is A
    assert not one("OptionalHasElement", None)
    assert one("OptionalHasElement", A)
    with pytest.raises(UserError, match="the optional must hold a value"):
        one("OptionalGetElement", None)
    with pytest.raises(UserError, match="an empty optional must have a type"):
        one("Optional")
