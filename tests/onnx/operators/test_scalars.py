"""Scalars: what inference promises for tensors without axes, every operator's function computes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

import onnx
from onnx import helper
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators import operators
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.registry import OnnxOperator
from onnx_hw.onnx.operators.result_types import result_types
from onnx_hw.onnx.operators.tensor_type import TensorType
from support.single_node_models import ours

Numbers = tuple[np.generic, ...]
NUMBERS = (np.float32(0.5), np.int8(1), np.int64(1), np.bool_(True), np.float16(0.5))
TRIPLE, PAIR = (np.uint8(3), np.float32(0.5), np.uint8(1)), (np.float32(0.25), np.uint8(2))
QUANTIZED = (TRIPLE + PAIR, TRIPLE + TRIPLE + PAIR, PAIR + TRIPLE + TRIPLE)
"""(integers, scale, zero point) of operands, (scale, zero point) of the result."""


def arguments(operator: OnnxOperator) -> Iterator[Numbers]:
    """Numbers of all element types that the operator may take, as far as onnx knows it."""
    most = 3 if operator.max_inputs is None else operator.max_inputs
    candidates = [n for count in range(operator.min_inputs, min(most, 3) + 1) for n in product(NUMBERS, repeat=count)]
    candidates += [numbers for numbers in QUANTIZED if operator.min_inputs <= len(numbers) <= most]
    try:
        schema = onnx.defs.get_schema(operator.op_type, operator.since, operator.domain)
    except onnx.defs.SchemaError:
        yield from candidates  # type: ignore[misc]
        return
    for numbers in candidates:
        formal = [schema.inputs[min(k, len(schema.inputs) - 1)] for k in range(len(numbers))]
        chosen: dict[str, str] = {}
        codes = [helper.np_dtype_to_tensor_dtype(number.dtype) for number in numbers]
        names = [f"tensor({helper.tensor_dtype_to_string(code).split('.')[1].lower()})" for code in codes]
        if all(
            name in of.types and chosen.setdefault(of.type_str, name) == name
            for name, of in zip(names, formal, strict=True)
        ):
            yield numbers  # type: ignore[misc]


def promised(operator: OnnxOperator, node: Node, numbers: Numbers) -> TensorType | None:
    arrays = [np.full((), number) for number in numbers]
    types = [TensorType(a.dtype, (), a if k in operator.shape_inputs else None) for k, a in enumerate(arrays)]
    return result_types(node, types, None)[0]


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_what_has_no_axes_is_computed_like_what_has_one(domain: str) -> None:
    compared = set()
    for operator in operators():
        for numbers in arguments(operator) if operator.domain == domain else ():
            names = tuple(f"x{k}" for k in range(len(numbers)))
            node = Node("", operator.op_type, operator.domain, operator.since, names, ("y",))
            try:
                wanted = compute(node, [np.full(1, number) for number in numbers])[0]
                of = promised(operator, node, numbers)
            except UserError:
                continue
            if of is None or of.shape != () or not isinstance(wanted, np.ndarray) or wanted.shape != (1,):
                continue
            try:
                found = compute(node, [np.full((), number) for number in numbers])[0]
            except UserError as refused:
                if "axis" not in str(refused):  # there is none
                    raise
                continue
            assert isinstance(found, np.ndarray) and found.shape == () and found.dtype == wanted.dtype, node
            np.testing.assert_array_equal(found, wanted[0], err_msg=str(node))
            compared.add(operator.op_type)
    assert len(compared) > (80 if not domain else 5)


@pytest.mark.parametrize("zero", [np.int8(3), np.uint8(3), np.int16(3)])
def test_a_scalar_is_quantized(zero: np.integer) -> None:
    for scale in (np.array(0.5, np.float32), np.array([0.5], np.float32)):
        points = np.full(scale.shape, zero)
        (stored,) = ours("QuantizeLinear", [np.array(2.25, np.float32), scale, points], version=21)
        assert stored == np.array(4 + 3, zero.dtype)
        (back,) = ours("DequantizeLinear", [stored, scale, points], version=21)
        assert back.shape == () and back == 2


def test_the_position_in_a_scalar_has_no_coordinates() -> None:
    for number, count in ((2.5, 1), (0.0, 0)):
        (places,) = ours("NonZero", [np.array(number, np.float32)], version=13)
        assert places.shape == (0, count) and places.dtype == np.int64
