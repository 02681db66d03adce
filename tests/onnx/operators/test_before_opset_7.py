"""What older models mean: one-sided broadcasting, attributes that became inputs. By hand, from the schemas."""

import numpy as np
import pytest

from onnx_hw.messages.errors import UserError
from support.single_node_models import ours


def f(*values):
    return np.array(values, np.float32)


A = np.arange(12, dtype=np.float32).reshape(2, 3, 2)


@pytest.mark.parametrize("version", [1, 6])
def test_broadcasting_begins_at_the_axis(version):
    b = f(10, 20, 30)
    (y,) = ours("Add", [A, b], version=version, broadcast=1, axis=1)
    assert (y == A + b[:, None]).all()
    (y,) = ours("Mul", [A, f(1, 2)], version=version, broadcast=1)
    assert (y == A * f(1, 2)).all()
    (y,) = ours("Sub", [A, A], version=version)
    assert not y.any()


def test_broadcasting_must_be_asked_for_and_goes_one_way():
    with pytest.raises(UserError, match="before opset 7 shapes must be equal unless broadcast is 1"):
        ours("Div", [A, f(1, 2)], version=6)
    with pytest.raises(UserError, match="B must broadcast to A"):
        ours("Add", [A[0], A], version=6, broadcast=1)
    with pytest.raises(UserError, match="before opset 8 shapes must be equal"):
        ours("Max", [A, f(1, 2)], version=6)


def test_comparisons_and_powers():
    (y,) = ours("Greater", [A, f(4, 5, 6)], version=1, broadcast=1, axis=1)
    assert (y == (f(4, 5, 6)[:, None] < A)).all()
    (y,) = ours("Pow", [A, np.float32(2)], version=1, broadcast=1)
    assert (y == A**2).all()
    (y,) = ours("And", [A > 3, A < 7], version=1)
    assert y.sum() == 3


def test_hints_change_nothing():
    (y,) = ours("Relu", [f(-1, 2)], version=1, consumed_inputs=(0,))
    assert y.tolist() == [0, 2]
    with pytest.raises(UserError, match="no attribute `consumed_inputs`"):
        ours("Relu", [f(-1, 2)], version=6, consumed_inputs=(0,))


def test_attributes_that_became_inputs():
    (y,) = ours("Reshape", [A], version=1, shape=(4, -1))
    assert y.shape == (4, 3)
    (y,) = ours("Pad", [f(1, 2)], version=1, paddings=(1, 0), value=5.0)
    assert y.tolist() == [5, 1, 2]
    (y,) = ours("Tile", [f(1, 2), np.array([3]), np.array([0])], version=1)
    assert y.tolist() == [1, 2] * 3
    (y,) = ours("Clip", [f(-9, 0, 9)], version=1, max=2.0)
    assert y.tolist() == [-9, 0, 2]
    (y,) = ours("Cast", [f(1.7)], version=1, to="INT32")
    assert y.dtype == np.int32
    first, second = ours("Split", [A, np.array([1, 2])], version=1, axis=1, outputs=2)
    assert first.shape == (2, 1, 2)
    assert second.shape == (2, 2, 2)
    (y,) = ours("Upsample", [A[None]], version=1, height_scale=2.0, width_scale=1.0)
    assert y.shape == (1, 2, 6, 2)
    (y,) = ours("Concat", [A, A], version=1)
    assert y.shape == (2, 6, 2)


def test_normalization_and_dropout_for_inference():
    parameters = [f(1, 2, 3), f(0, 1, 2), f(1, 1, 1), f(4, 4, 4)]
    (y,) = ours("BatchNormalization", [A, *parameters], version=6, is_test=1, epsilon=0.0)
    np.testing.assert_allclose(y, (A - 1) / 2 * f(1, 2, 3)[:, None] + f(0, 1, 2)[:, None], rtol=1e-6)
    per_element = [np.full((3, 2), value, np.float32) for value in (1, 0, 1, 4)]
    (y,) = ours("BatchNormalization", [A, *map(np.ravel, per_element)], version=7, spatial=0, epsilon=0.0)
    np.testing.assert_allclose(y, (A - 1) / 2, rtol=1e-6)
    y, mask = ours("Dropout", [A], version=6, is_test=1, outputs=2)
    assert (y == A).all()
    assert mask.all()


def test_slopes_and_norms():
    (y,) = ours("PRelu", [-A, f(1, 2, 3)], version=6)
    assert (y == -A * f(1, 2, 3)[:, None]).all()
    (y,) = ours("Gemm", [A[0], A[0].T, np.ones((3, 3), np.float32)], version=1)
    assert (y == A[0] @ A[0].T + 1).all()
    (y,) = ours("GlobalLpPool", [A], version=1, p=1.0)
    assert y.ravel().tolist() == [1, 5, 9, 13, 17, 21]
