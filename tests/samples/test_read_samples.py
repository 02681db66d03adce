"""Samples in npz files: what is read, and what is said about a file that does not fit the model."""

import gc
import io
import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.model import Value
from onnx_hw.samples import npz
from onnx_hw.samples.read_samples import read_samples, write_samples
from support.fixture_paths import EXAMPLES

IMAGE = Value("image", "float", (1, 1, 8, 8))


def written(tmp_path, **arrays):
    path = tmp_path / "samples.npz"
    np.savez(path, **arrays)
    return path


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def refusal(path, *inputs, **options):
    with pytest.raises(UserError) as caught:
        read_samples(path, inputs or (IMAGE,), **options)
    return str(caught.value)


@given(
    shape=st.lists(st.integers(1, 4), max_size=4).map(tuple),
    count=st.integers(1, 3),
    kind=st.sampled_from(["float", "int8", "uint8", "int64", "double", "bool"]),
)
def test_samples_come_back_as_written(tmp_path_factory, shape, count, kind):
    dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
    stack = np.arange(count * int(np.prod(shape))).reshape(count, *shape).astype(dtype)
    path = written(tmp_path_factory.mktemp("samples"), x=stack)
    samples = read_samples(path, [Value("x", kind, shape)])
    assert samples.count == count
    assert [frame["x"].tolist() for frame in samples] == list(stack.tolist())
    assert samples.arrays["x"].dtype == dtype


def test_one_sample_needs_no_new_axis(tmp_path):
    samples = read_samples(written(tmp_path, image=zeros(1, 1, 8, 8)), [IMAGE])
    assert samples.count == 1
    assert samples.arrays["image"].shape == (1, 1, 1, 8, 8)


@given(
    shape=st.lists(st.integers(1, 4), max_size=3).map(tuple),
    batch=st.sampled_from([1, "N", None]),
    count=st.integers(1, 3),
)
def test_samples_lie_on_a_new_axis_or_on_that_of_the_batch(tmp_path_factory, shape, batch, count):
    """Both are the same samples, each a batch of one."""
    stack = np.arange(count * int(np.prod(shape)), dtype=np.float32).reshape(count, *shape)
    for array in (stack, stack[:, np.newaxis]):
        path = written(tmp_path_factory.mktemp("samples"), x=array, labels=np.arange(count))
        samples = read_samples(path, [Value("x", "float", (batch, *shape))])
        assert samples.count == count
        np.testing.assert_array_equal(samples.arrays["x"], stack[:, np.newaxis])


def test_a_first_axis_of_fixed_size_holds_no_samples(tmp_path):
    said = refusal(written(tmp_path, x=zeros(5, 4)), Value("x", "float", (2, 4)))
    assert "must be [2,4], or [n,2,4] for n samples, not [5,4]" in said


def test_unknown_dimensions_fit_any_number(tmp_path):
    path = written(tmp_path, x=zeros(5, 2, 7))
    assert read_samples(path, [Value("x", "float", ("batch", None))]).count == 5


def test_example_files():
    samples = read_samples(EXAMPLES / "digits" / "digits_test.npz", [IMAGE])
    assert samples.count == 360
    assert samples.labels is not None and samples.labels.shape == (360,)
    assert "360" in repr(samples)


def test_labels_may_be_an_input(tmp_path):
    path = written(tmp_path, labels=zeros(2, 3))
    samples = read_samples(path, [Value("labels", "float", (3,))])
    assert samples.count == 2 and samples.labels is None


def test_everything_wrong_is_said_at_once(tmp_path):
    path = written(tmp_path, imgae=zeros(1, 1, 8, 8), mask=zeros(2, 5))
    text = refusal(path, IMAGE, Value("mask", "int8", (5,)), Value("gain", "float", ()))
    assert text.count("error[") == 3
    assert "there must be an array for the graph input `image`" in text
    assert "there is the key `imgae`; name it as the input" in text
    assert "the dtype must be int8 (int8 in the model), not float32" in text


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"image": zeros(3, 1, 8)}, "must be [1,1,8,8], or [n,1,8,8] or [n,1,1,8,8] for n samples, not [3,1,8]"),
        ({"image": zeros(0, 1, 8, 8)}, "there must be at least one sample"),
        ({"image": zeros(1, 8, 8, 1)}, "the axes are in another order"),
        ({"image": zeros(2, 3, 1, 8, 8)}, "array.reshape(-1, 1, 8, 8)"),
        ({"image": zeros(64)}, "not [64]"),
        ({"image": zeros(0, 1, 1, 8, 8)}, "there must be at least one sample"),
        ({"image": zeros(1, 1, 8, 8, dtype=np.uint8)}, "array.astype(np.float32) / 255"),
        (
            {"image": np.full((1, 1, 8, 8), np.nan, np.float32)},
            "must be a finite float32, not nan as at [0, 0, 0, 0, 0]",
        ),
        ({"image": zeros(1, 1, 8, 8), "lables": np.zeros(1, int)}, "did you mean `labels`?"),
        ({"image": zeros(2, 1, 1, 8, 8), "labels": np.zeros(3, int)}, "one label per sample, 2, not 3"),
        ({"image": zeros(2, 1, 1, 8, 8), "labels": zeros(2)}, "labels must be integers"),
        ({}, "the npz archive must hold at least one array"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, arrays, said):
    assert said in refusal(written(tmp_path, **arrays))


def test_counts_must_agree(tmp_path):
    path = written(tmp_path, image=zeros(2, 1, 1, 8, 8), mask=zeros(3, 5))
    assert "`image` has 2, `mask` has 3" in refusal(path, IMAGE, Value("mask", "float", (5,)))


def test_not_a_number_may_be_allowed(tmp_path):
    path = written(tmp_path, image=np.full((1, 1, 8, 8), np.inf, np.float32))
    assert read_samples(path, [IMAGE], finite=False).count == 1


def test_unknown_rank_cannot_be_stacked(tmp_path):
    assert "must state the shape of `x`" in refusal(written(tmp_path, x=zeros(2)), Value("x", "float", None))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "must be an npz archive"),
        (b"<!DOCTYPE html>", "must be an npz archive"),
        (b"PK\x03\x04 and then nothing", "must be an npz archive"),
    ],
)
def test_files_that_are_no_archives(tmp_path, content, said):
    path = tmp_path / "samples.npz"
    path.write_bytes(content)
    assert said in refusal(path)


def test_a_truncated_archive(tmp_path):
    path = written(tmp_path, image=zeros(40, 1, 1, 8, 8))
    path.write_bytes(path.read_bytes()[:-400])
    assert "must be an npz archive" in refusal(path)


def test_python_objects_are_not_read(tmp_path):
    assert "arrays of Python objects" in refusal(written(tmp_path, image=np.array([object()])))


def test_a_single_array_is_that_of_the_only_input(tmp_path):
    """Also in an archive under any name, such as numpy's own, and in a file with the wrong ending."""
    array = np.random.default_rng(1).random((3, 1, 8, 8), np.float32)
    np.save(tmp_path / "image.npy", array)
    np.savez(tmp_path / "positional.npz", array)
    np.savez(tmp_path / "named.npz", pixels=array, labels=[1, 2, 3])
    (tmp_path / "image.npz").write_bytes((tmp_path / "image.npy").read_bytes())
    for name in ("image.npy", "positional.npz", "named.npz", "image.npz"):
        samples = read_samples(tmp_path / name, [IMAGE])
        assert np.array_equal(samples.arrays["image"][:, 0], array)
        assert (samples.labels is not None) == (name == "named.npz")
    assert "one input of known shape" in refusal(tmp_path / "image.npy", IMAGE, Value("mask", "float", (5,)))


def empty_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


def test_missing_file_suggests_its_neighbour(tmp_path):
    written(tmp_path, image=zeros(1))
    assert f"did you mean `{tmp_path / 'samples.npz'}`?" in refusal(tmp_path / "sample.npz")
    assert "there is no folder" in refusal(tmp_path / "nowhere" / "sample.npz")
    assert "did you mean" not in refusal(tmp_path / "calibration_samples.npz")  # the samples are another file
    assert "there must be a file" in refusal(empty_folder(tmp_path))


def test_any_name_can_be_written(tmp_path):
    path = tmp_path / "out.npz"
    names = ("file", "allow_pickle", "model/dense/Softmax:0", "ä b")
    write_samples(path, {name: np.full((2, 3), k, np.int8) for k, name in enumerate(names)})
    found = read_samples(path, [Value(name, "int8", (3,)) for name in names])
    assert [int(found.arrays[name][1, 2]) for name in names] == [0, 1, 2, 3]


def test_strings_are_written_as_text(tmp_path):
    path = tmp_path / "out.npz"
    write_samples(path, {"words": np.array(["one", "zwei"], dtype=object)})
    with np.load(path) as stored:
        assert stored["words"].tolist() == ["one", "zwei"]


def test_writing(tmp_path):
    path = tmp_path / "out.npz"
    write_samples(path, {"scores": np.arange(6).reshape(2, 3)})
    assert read_samples(path, [Value("scores", "int64", (3,))]).arrays["scores"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.npz"]
    with pytest.raises(UserError, match="cannot be written"):
        write_samples(tmp_path / "nowhere" / "out.npz", {"scores": np.zeros(1)})


def stored(tmp_path: Path, kind: str, array: np.ndarray) -> Path:
    """The array in an archive, packed or not, or its samples one by one in a folder."""
    if kind == "folder":
        (tmp_path / "many").mkdir()
        for k, sample in enumerate(array):
            np.save(tmp_path / "many" / f"{k:03}.npy", sample[None])
        return tmp_path / "many"
    (np.savez if kind == "plain" else np.savez_compressed)(tmp_path / "many.npz", x=array)
    return tmp_path / "many.npz"


@pytest.mark.parametrize("kind", ["plain", "packed", "folder"])
def test_what_is_large_stays_on_disk(tmp_path, monkeypatch, kind):
    array = np.random.default_rng(1).standard_normal((64, 1, 128, 128)).astype(np.float32)  # 4 MiB
    monkeypatch.setattr("onnx_hw.samples.spooled_array.MAX_BYTES_IN_MEMORY", 1 << 18)
    path, value = stored(tmp_path, kind, array), Value("x", "float", (1, 1, 128, 128))
    gc.collect()
    tracemalloc.start()
    try:
        found = read_samples(path, [value])
        assert tracemalloc.get_traced_memory()[1] < array.nbytes / 3
    finally:
        tracemalloc.stop()
    assert found.count == 64 and np.array_equal(found.arrays["x"].reshape(array.shape), array)
    assert all(np.array_equal(frame["x"][0, 0], array[k, 0]) for k, frame in enumerate(found))


def test_a_header_may_claim_anything(tmp_path):
    """Nothing is made room for before it is there."""
    content = io.BytesIO()
    np.save(content, np.zeros((4, 4), np.float32))
    claimed = content.getvalue().replace(b"(4, 4), }", b"(999999999, 9999), }").replace(b" " * 13 + b"\n", b"  \n")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", claimed)
    with pytest.raises(UserError, match="more than there are"):
        read_samples(tmp_path / "x.npz", [Value("x", "float", (4, 4))])


def test_columns_first(tmp_path):
    array = np.asfortranarray(np.arange(60, dtype=np.float32).reshape(3, 4, 5))
    np.savez(tmp_path / "x.npz", x=array)
    assert np.array_equal(read_samples(tmp_path / "x.npz", [Value("x", "float", (4, 5))]).arrays["x"], array)


def test_few_bytes_that_stand_for_many_are_refused_by_their_header(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "MAX_BYTES", 1 << 20)
    file = tmp_path / "x.npz"
    np.savez_compressed(file, x=np.zeros((1 << 17, 2), np.float32), y=np.zeros((1, 2), np.float32))
    with pytest.raises(UserError, match="at most 1 MiB together, not 1"):
        read_samples(file, [Value("x", "float", (2,)), Value("y", "float", (2,))])
    np.savez_compressed(file, x=np.zeros((1 << 20, 2), np.float32))
    with pytest.raises(UserError, match="at most 1 MiB together, not 8"):
        read_samples(file, [Value("x", "float", (2,))])


@pytest.mark.skipif(not os.path.exists("/proc/self/mounts"), reason="a file system /proc")
def test_files_of_the_kernel_are_refused_unread(tmp_path):
    """Reading of /proc/kmsg does not return, and its type and size are those of an empty file."""
    (tmp_path / "s.npz").symlink_to("/proc/self/mounts")
    with pytest.raises(UserError, match="in a file or a folder, not in a pipe"):
        read_samples(tmp_path / "s.npz", [Value("x", "float", (2,))])


def test_pipe_is_refused_at_once(tmp_path):
    """Nobody writes into it, so that reading would wait for ever."""
    os.mkfifo(tmp_path / "x.npz")
    with pytest.raises(UserError, match="in a file or a folder, not in a pipe"):
        read_samples(tmp_path / "x.npz", [Value("x", "float", (2,))])
