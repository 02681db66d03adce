"""Random operators: shapes, types, distributions, and that runs repeat."""

import numpy as np
import pytest

from support.single_node_models import ours


def draw(op_type, *inputs, **attributes):
    (y,) = ours(op_type, list(inputs), version=15, **attributes)
    (again,) = ours(op_type, list(inputs), version=15, **attributes)
    assert (y == again).all()
    return y


LIKE = np.zeros((100, 100), np.float32)


@pytest.mark.parametrize("seed", [None, 3.5])
def test_distributions(seed):
    extra = {} if seed is None else {"seed": seed}
    normal = draw("RandomNormal", shape=(100, 100), mean=2.0, scale=3.0, **extra)
    assert normal.dtype == np.float32
    assert normal.mean() == pytest.approx(2, abs=0.1)
    assert normal.std() == pytest.approx(3, abs=0.1)
    uniform = draw("RandomUniformLike", LIKE, low=-1.0, high=3.0, dtype=11, **extra)
    assert uniform.dtype == np.float64
    assert uniform.min() >= -1
    assert uniform.max() < 3
    assert uniform.mean() == pytest.approx(1, abs=0.1)
    assert draw("RandomNormalLike", LIKE).shape == LIKE.shape
    assert draw("RandomUniform", shape=(2, 3), dtype=10).dtype == np.float16


def test_seeds_differ():
    assert (draw("RandomNormalLike", LIKE, seed=1.0) != draw("RandomNormalLike", LIKE, seed=2.0)).any()


def test_bernoulli_and_multinomial_follow_their_probabilities():
    ones = draw("Bernoulli", LIKE + 0.25)
    assert set(np.unique(ones)) == {0, 1}
    assert ones.mean() == pytest.approx(0.25, abs=0.02)
    classes = draw("Multinomial", np.log(np.array([[1, 2, 1], [0.001, 0.001, 1]], np.float32)), sample_size=4000)
    assert classes.dtype == np.int32
    assert np.bincount(classes[0]) / 4000 == pytest.approx([0.25, 0.5, 0.25], abs=0.03)
    assert (classes[1] == 2).mean() > 0.99


def test_dropout_in_training_keeps_the_mean():
    y, kept = ours("Dropout", [LIKE + 1, np.float32(0.25), np.array(True)], version=13, outputs=2)
    assert kept.mean() == pytest.approx(0.75, abs=0.02)
    assert y.mean() == pytest.approx(1, abs=0.02)
    assert (y[kept] == np.float32(4 / 3)).all()
    assert not y[~kept].any()
