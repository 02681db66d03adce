"""DynamicQuantizeLSTM of com.microsoft, as onnxruntime's quantize_dynamic writes it: an LSTM with weights of 8 bits.

Specification: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Facts
from onnx_hw.onnx.operators.integer_arithmetic import DynamicQuantizeLinear, MatMulInteger
from onnx_hw.onnx.operators.recurrent import Recurrence, input_shares, recurrent_macs, recurrent_type, run_lstm
from onnx_hw.onnx.operators.registry import operator
from onnx_hw.onnx.operators.tensor_type import TensorType, must_have_axes


def dynamic_lstm_type(
    x: TensorType, w: TensorType, r: TensorType, *others: TensorType | None, **attributes: Any
) -> tuple[TensorType, ...]:
    """Return the types of an LSTM's results; the weights have (features or states, gates) in each direction."""
    for tensor in (w, r):
        must_have_axes(tensor, 3, 3)
    directions, _, columns = w.shape
    if r.shape != (directions, columns // 4, columns) or columns % 4:
        raise ValueError(
            f"R must have the shape {[directions, columns // 4, columns]} beside W of {list(w.shape)}, "
            f"not {list(r.shape)}"
        )
    for number, scale in zip(range(8, 12), others[5:], strict=False):
        if scale is not None and scale.shape not in ((directions,), (directions, columns)):
            raise ValueError(
                f"input {number}, a scale or zero point, must have the shape {[directions]} or "
                f"{[directions, columns]}, not {list(scale.shape)}"
            )
    turned = [TensorType(tensor.dtype, (tensor.shape[0], *tensor.shape[:0:-1])) for tensor in (w, r)]
    results: tuple[TensorType, ...] = recurrent_type(x, *turned, **attributes)
    return results


@operator(
    since=1,
    domain="com.microsoft",
    types=dynamic_lstm_type,
    attributes_of=Recurrence.of,
    without=("layout",),
    facts=Facts(macs=recurrent_macs, chooses_scale=True),
)
def DynamicQuantizeLSTM(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    sequence_lens: Array | None,
    initial_h: Array | None,
    initial_c: Array | None,
    p: Array | None,
    w_scale: Array,
    w_zero_point: Array,
    r_scale: Array,
    r_zero_point: Array,
    *,
    input_forget: int = 0,
    **attributes: Any,
) -> tuple[Array, ...]:
    """Quantize ``x`` to uint8 over its range, and the states of each step over theirs, before each product."""
    of_data = [_product(w[k], w_scale[k], w_zero_point[k]) for k in range(len(w))]
    of_state = [_product(r[k], r_scale[k], r_zero_point[k]) for k in range(len(r))]
    return run_lstm(
        x,
        input_shares(lambda x, k: of_data[k](x), b),
        lambda h, k: of_state[k](h),
        r.shape[1],
        p,
        (initial_h, initial_c),
        sequence_lens,
        input_forget,
        attributes,
    )


def _product(weights: Array, scale: Array, zero_point: Array) -> Callable[[Array], Array]:
    """Return the function that multiplies real numbers, quantized over their range, by weights of one direction."""

    def multiplied(a: Array) -> Array:
        values, a_scale, a_zero_point = DynamicQuantizeLinear(a)
        zero_points = np.broadcast_to(zero_point, weights.shape[-1:])
        sums = MatMulInteger(values, weights, a_zero_point, zero_points)
        return np.asarray(sums.astype(a.dtype) * (a_scale * scale), dtype=a.dtype)

    return multiplied
