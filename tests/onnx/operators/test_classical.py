"""Operators of ai.onnx.ml against onnxruntime, with the attributes that exporters of scikit-learn write, and others."""

import numpy as np
import pytest

from onnx_hw.messages.errors import UserError
from support.single_node_models import assert_agrees, ours, theirs

NAN = float("nan")
ROWS = np.array([[1, -2, 0.5], [0, 0, 0], [-3, -1, -2], [4, 4, 1], [-1, 0, -2]], np.float32)
TEXTS = np.array([["a", "b"], ["c", "a"]], object)
NUMBERS = np.array([[3, 7], [7, 1]])
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]


def agrees(op_type, *inputs, version=1, outputs=1, **attributes):
    assert_agrees(op_type, inputs, version=version, domain="ai.onnx.ml", outputs=outputs, **attributes)


def fails(op_type, *inputs, message, version=1, outputs=1, **attributes):
    with pytest.raises(UserError, match=message):
        ours(op_type, inputs, version=version, domain="ai.onnx.ml", outputs=outputs, **attributes)


def test_scaler():
    agrees("Scaler", ROWS, offset=[1.0, 0.3, -2.0], scale=[2.0, 0.1, 7.0])
    agrees("Scaler", ROWS, offset=[1.0], scale=[2.0])
    agrees("Scaler", ROWS[0], offset=[1.0, 0.3, -2.0], scale=[2.0, 0.1, 7.0])
    agrees("Scaler", ROWS.reshape(5, 3, 1), offset=[1.0], scale=[2.0])
    agrees("Scaler", NUMBERS, offset=[1.0, 2.0], scale=[2.0, 0.5])
    fails("Scaler", ROWS, offset=[1.0, 2.0], scale=[2.0], message="one length")
    fails("Scaler", ROWS, offset=[1.0, 2.0], scale=[2.0, 1.0], message="one per column")


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm):
    agrees("Normalizer", ROWS, norm=norm)
    agrees("Normalizer", ROWS[0], norm=norm)
    agrees("Normalizer", NUMBERS, norm=norm)


def test_normalizer_refuses_what_it_is_not():
    agrees("Normalizer", ROWS)
    fails("Normalizer", ROWS, norm="L3", message="MAX, L1 or L2")
    fails("Normalizer", ROWS.reshape(5, 1, 3), norm="L1", message="one or two axes")


def test_imputer_and_binarizer():
    gaps = np.array([[1, NAN], [0, 2]], np.float32)
    agrees("Imputer", gaps, imputed_value_floats=[5.0, 6.0], replaced_value_float=NAN)
    agrees("Imputer", gaps, imputed_value_floats=[5.0])
    agrees("Imputer", gaps, imputed_value_floats=[5.0], replaced_value_float=1.0)
    agrees("Imputer", NUMBERS, imputed_value_int64s=[5, 6], replaced_value_int64=7)
    fails("Imputer", gaps, imputed_value_int64s=[5], message="imputed_value_floats must have a value")
    fails("Imputer", gaps, imputed_value_floats=[5.0, 6.0, 7.0], message="one per column")
    agrees("Binarizer", ROWS)
    agrees("Binarizer", ROWS, threshold=0.5)


def test_feature_extraction_and_joining():
    agrees("ArrayFeatureExtractor", ROWS, np.array([2, 0, 2]))
    agrees("ArrayFeatureExtractor", ROWS[0], np.array([[2, 0]]))
    agrees("ArrayFeatureExtractor", TEXTS, np.array([1]))
    fails("ArrayFeatureExtractor", ROWS, np.array([3]), message=r"columns must be within 0\.\.2")
    agrees("FeatureVectorizer", ROWS[:2], ROWS[2:4, :2], inputdimensions=[3, 2])
    agrees("FeatureVectorizer", ROWS[:2], ROWS[2:4, :2], inputdimensions=[2, 3])
    agrees("FeatureVectorizer", NUMBERS, NUMBERS, inputdimensions=[2, 2])
    fails("FeatureVectorizer", ROWS, ROWS[:2], inputdimensions=[3, 3], message="one number of rows")


def test_one_hot_encoder():
    agrees("OneHotEncoder", NUMBERS, cats_int64s=[7, 1, 3])
    agrees("OneHotEncoder", NUMBERS, cats_int64s=[7, 1])
    agrees("OneHotEncoder", TEXTS, cats_strings=["b", "a"])
    agrees("OneHotEncoder", np.array([1.5, 2], np.float32), cats_int64s=[1, 2])
    fails("OneHotEncoder", NUMBERS, cats_int64s=[7, 1], zeros=0, message="must be one of the categories")


def test_labels_between_texts_and_numbers():
    agrees("CategoryMapper", TEXTS, cats_int64s=[4, 9], cats_strings=["a", "c"])
    agrees("CategoryMapper", NUMBERS, cats_int64s=[7, 9], cats_strings=["a", "c"], default_string="?")
    agrees("CategoryMapper", TEXTS, cats_int64s=[4], cats_strings=["c"], default_int64=8)
    agrees("LabelEncoder", TEXTS, classes_strings=["c", "a"], default_int64=5)
    agrees("LabelEncoder", np.array([1, 7]), classes_strings=["c", "a"])


@pytest.mark.parametrize("version", [2, 4])
def test_label_encoder(version):
    agrees("LabelEncoder", TEXTS, version=version, keys_strings=["a", "b"], values_int64s=[2, 3], default_int64=9)
    agrees("LabelEncoder", TEXTS, version=version, keys_strings=["a", "b"], values_strings=["x", "y"])
    agrees("LabelEncoder", NUMBERS, version=version, keys_int64s=[7, 3], values_floats=[0.5, -1.0], default_float=4.0)
    agrees("LabelEncoder", NUMBERS, version=version, keys_int64s=[7], values_strings=["seven"], default_string="?")
    agrees("LabelEncoder", NUMBERS, version=version, keys_int64s=[7], values_int64s=[70])
    gaps = np.array([1.5, NAN, 2], np.float32)
    agrees("LabelEncoder", gaps, version=version, keys_floats=[1.5, NAN], values_floats=[3.0, 4.0])
    agrees("LabelEncoder", gaps, version=version, keys_floats=[1.5], values_strings=["x"])
    fails("LabelEncoder", NUMBERS, version=version, keys_int64s=[1], values_int64s=[1, 2], message="a value for each")
    fails("LabelEncoder", NUMBERS, version=version, keys_int64s=[1], message="exactly one list of values")


def test_label_encoder_of_tensors():
    keys, values = np.array([3, 7], np.int64), np.array([2.5, -1], np.float64)
    mapped = ours("LabelEncoder", [NUMBERS], version=4, domain="ai.onnx.ml", keys_tensor=keys, values_tensor=values,
                  default_tensor=np.array([9.0]))  # fmt: skip
    np.testing.assert_array_equal(mapped[0], [[2.5, -1], [-1, 9]])


@pytest.mark.parametrize("labels", [{"classlabels_int64s": [4, 5, -1]}, {"classlabels_strings": ["x", "y", "z"]}])
@pytest.mark.parametrize("x", [ROWS, ROWS[0]], ids=["matrix", "row"])
def test_zip_map(x, labels):
    (maps,) = ours("ZipMap", [x], version=1, domain="ai.onnx.ml", **labels)
    (wanted,) = theirs("ZipMap", [x], [None], version=1, domain="ai.onnx.ml", **labels)
    assert maps == wanted


def test_zip_map_needs_a_label_for_each_column():
    fails("ZipMap", ROWS, classlabels_int64s=[1, 2], message="each of 2 labels")


def test_maps_as_rows():
    def row(op_type, x, **attributes):
        return ours(op_type, [x], version=1, domain="ai.onnx.ml", **attributes)[0].tolist()

    assert row("DictVectorizer", {"a": 1.5, "c": 2.0}, string_vocabulary=["c", "b", "a"]) == [[2, 0, 1.5]]
    assert row("DictVectorizer", {3: "x"}, int64_vocabulary=[2, 3]) == [["", "x"]]
    assert row("CastMap", {3: 1.5, 1: 2.0}) == [[2, 1.5]]
    assert row("CastMap", {3: "1", 1: "2"}, cast_to="TO_INT64", map_form="SPARSE", max_map=4) == [[0, 2, 0, 1]]


@pytest.mark.parametrize("post_transform", TRANSFORMS)
def test_linear_regressor(post_transform):
    call = {"coefficients": [0.1, -0.2, 0.3, -0.1, 0.5, 0.01], "post_transform": post_transform}
    agrees("LinearRegressor", ROWS, intercepts=[0.3, 0.2], targets=2, **call)
    agrees("LinearRegressor", ROWS, targets=2, **call)
    agrees("LinearRegressor", ROWS, coefficients=[0.1, 0.05, 0.2], intercepts=[0.5], post_transform=post_transform)


@pytest.mark.parametrize("labels", [{"classlabels_ints": [4, -1]}, {"classlabels_strings": ["x", "y"]}])
@pytest.mark.parametrize("post_transform", TRANSFORMS)
def test_linear_classifier(post_transform, labels):
    call = {"outputs": 2, "post_transform": post_transform, **labels}
    for multi_class in (0, 1):
        call["multi_class"] = multi_class
        agrees("LinearClassifier", ROWS, coefficients=[0.1, -0.2, 0.3, 0.1, 0.2, 0.0], intercepts=[0.5, 0.2], **call)
        one = {"coefficients": [0.1, -0.2, 0.3], "intercepts": [0.0]}
        if post_transform == "PROBIT":  # onnxruntime reads behind the scores
            fails("LinearClassifier", ROWS, message="each of the two classes", **one, **call)
        else:
            agrees("LinearClassifier", ROWS, **one, **call)


def test_linear_classifier_of_other_data():
    call = {"coefficients": [0.1, 0.2, 0.3, -0.1, 0.0, 1.0], "intercepts": [0.3, 0.0, -1.0], "outputs": 2}
    agrees("LinearClassifier", NUMBERS, classlabels_ints=[1, 2, 3], **call)
    agrees("LinearClassifier", NUMBERS.astype(np.float64), classlabels_ints=[1, 2, 3], **call)
    agrees("LinearClassifier", np.array([1, 2], np.float32), classlabels_ints=[1, 2, 3], **call)
    fails("LinearClassifier", NUMBERS, classlabels_ints=[1, 2], message="a label for each of 3 intercepts", **call)
    call["post_transform"] = "EXP"
    fails("LinearClassifier", NUMBERS, classlabels_ints=[1, 2, 3], message="post_transform must be one of", **call)


KERNELS = {
    "LINEAR": [0.0, 0.0, 0.0],
    "POLY": [0.5, 0.25, 3.0],
    "RBF": [0.3, 0.0, 0.0],
    "SIGMOID": [0.2, -0.1, 0.0],
}


def support(kernel, vectors):
    numbers = np.random.default_rng(4).uniform(-1, 1, vectors * 3).astype(np.float32).tolist()
    return {"kernel_type": kernel, "kernel_params": KERNELS[kernel], "support_vectors": numbers}


@pytest.mark.parametrize("kernel", KERNELS)
def test_svm_regressor(kernel):
    call = {**support(kernel, 4), "n_supports": 4, "coefficients": [0.5, -0.75, 0.25, 1.0], "rho": [0.125]}
    agrees("SVMRegressor", ROWS, **call)
    agrees("SVMRegressor", ROWS, one_class=1, **call)
    fails("SVMRegressor", ROWS, message="and their coefficients", **(call | {"coefficients": [1.0]}))


def test_svm_without_support_vectors():
    agrees(
        "SVMRegressor", ROWS, kernel_type="LINEAR", kernel_params=[0.0] * 3, coefficients=[0.5, -0.5, 2.0], rho=[0.25]
    )
    fails("SVMRegressor", ROWS, kernel_type="COSINE", message="kernel_type must be one of", coefficients=[0.5] * 3)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("each", [[2, 3], [2, 1, 3]])
def test_svm_classifier(kernel, each):
    count, pairs = sum(each), len(each) * (len(each) - 1) // 2
    random = np.random.default_rng(len(each))
    call = {
        **support(kernel, count),
        "vectors_per_class": each,
        "coefficients": random.uniform(-1, 1, count * (len(each) - 1)).astype(np.float32).tolist(),
        "rho": random.uniform(-0.2, 0.2, pairs).astype(np.float32).tolist(),
        "outputs": 2,
    }
    agrees("SVMClassifier", ROWS, classlabels_ints=[4, -1, 7][: len(each)], **call)
    agrees("SVMClassifier", ROWS, classlabels_strings=["x", "y", "z"][: len(each)], **call)
    pairwise = {"prob_a": [-1.5, -2.0, -1.0][:pairs], "prob_b": [0.1, 0.0, -0.2][:pairs]}
    agrees("SVMClassifier", ROWS, classlabels_ints=[4, -1, 7][: len(each)], **pairwise, **call)
    fails("SVMClassifier", ROWS, classlabels_ints=[4], message="two labels at least", **call)
