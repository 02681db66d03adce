"""Odd files of samples: each is answered by a sentence that says what is wrong, and by a next step."""

from __future__ import annotations

import io
import pickle
import wave
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from support.cli_runner import call
from support.fixture_paths import EXAMPLES

MODEL = EXAMPLES / "digits" / "digits.onnx"  # image: float [1,1,8,8], 10 classes
GOOD = np.zeros((3, 1, 8, 8), np.float32)


def npz(path: Path, **arrays: object) -> None:
    np.savez(path / "x.npz", **arrays)


def content(kind: str, array: np.ndarray | None = None, rate: int = 16_000) -> bytes:
    """Return the bytes of a file: ``npy``, ``npz``, ``png``, ``gif`` or ``wav``."""
    file = io.BytesIO()
    if kind == "npy":
        np.save(file, GOOD if array is None else array, allow_pickle=True)
    elif kind == "npz":
        np.savez(file, image=GOOD if array is None else array)
    elif kind == "wav":
        with wave.open(file, "wb") as sound:
            sound.setparams((1, 2, rate, 0, "NONE", "NONE"))
            sound.writeframes(bytes(200))
    else:
        Image.fromarray(np.zeros((8, 8), np.uint8) if array is None else array).save(file, kind)
    return file.getvalue()


def member(**files: bytes) -> bytes:
    """Return an archive of other files, as torch and Keras write."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, stored in files.items():
            archive.writestr(name, stored)
    return file.getvalue()


def flipped(stored: bytes) -> bytes:
    """Return an archive with other numbers than its checksum says."""
    at = stored.index(b"\n") + 40  # behind the header of the array
    return stored[:at] + bytes([stored[at] ^ 255]) + stored[at + 1 :]


def folder(**files: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        (path / "x.npz").mkdir()
        for name, stored in files.items():
            (path / "x.npz" / name.replace("_", ".")).write_bytes(stored)

    return write


def of(stored: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        (path / "x.npz").write_bytes(stored)

    return write


def arrays(**stored: object) -> Callable[[Path], None]:
    return lambda path: npz(path, **stored)


OPEN = content("npy").replace(b"{'descr'", b"(((((((((").replace(b"}", b" ")
CLAIMS = content("npy").replace(b"(3, 1, 8, 8), }", b"(3, 1, 8, 999999), }").replace(b" " * 5 + b"\n", b"\n")

CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "no file": (lambda path: None, "there is no such file"),
    "an empty file": (of(b""), "it is empty"),
    "a page of the web": (of(b"<!DOCTYPE html><html>"), "it begins with"),
    "a table as text": (of(b"0.1,0.2,0.3\n"), "it begins with"),
    "a pointer of Git LFS": (of(b"version https://git-lfs.github.com/spec/v1\n"), "it is a Git LFS pointer"),
    "a GIF": (of(content("gif")), "it begins with b'GIF8"),
    "a pickle": (of(pickle.dumps({"image": GOOD})), "begins like a pickle"),
    "a npy file of objects": (of(content("npy", np.array([{}, None]))), "a npy file with an array of numbers"),
    "a npz file of objects": (of(content("npz", np.array([{}, None]))), "Python objects, not numbers"),
    "a file of torch": (of(member(data=b"\x80\x02}q", version=b"3")), "must hold only numpy arrays"),
    "a truncated archive": (of(content("npz")[:-300]), "must be an npz archive"),
    "a damaged archive": (of(flipped(content("npz"))), "must be an npz archive"),
    "an empty archive": (of(member()), "at least one array"),
    "a header with open brackets": (of(OPEN), "a npy file with an array of numbers"),
    "a header that claims more": (of(CLAIMS), "a npy file with an array of numbers"),
    "two wrong names": (arrays(x=GOOD, y=GOOD), "there are the keys `x`, `y`; name it as the input"),
    "a name too many": (arrays(image=GOOD, mask=GOOD), "the graph has no input `mask`"),
    "channels last": (arrays(image=GOOD.transpose(0, 2, 3, 1)), "array.transpose(0, 3, 1, 2)"),
    "flat images": (arrays(image=GOOD.reshape(3, 64)), "array.reshape(-1, 1, 8, 8)"),
    "another size": (arrays(image=np.zeros((3, 1, 9, 9), np.float32)), "resize or crop the samples"),
    "no samples": (arrays(image=GOOD[:0]), "there must be at least one sample"),
    "not a number": (arrays(image=GOOD * np.nan), "must be a finite float32, not nan"),
    "an infinity": (arrays(image=GOOD - np.inf), "must be a finite float32, not -inf"),
    "a number beyond float32": (arrays(image=GOOD.astype(float) + 1e300), "must be a finite float32, not 1e+300"),
    "pixels of 8 bits": (arrays(image=GOOD.astype(np.uint8)), "leaves open which ones its 0 .. 0 stand for"),
    "complex numbers": (arrays(image=GOOD * 1j), "the dtype must be float32"),
    "texts": (arrays(image=np.full(GOOD.shape, "0")), "the dtype must be float32"),
    "dates": (arrays(image=GOOD.astype("datetime64[s]")), "the dtype must be float32"),
    "a table with named columns": (arrays(image=np.zeros(3, [("a", "f4"), ("b", "i4")])), "the dtype must be float32"),
    "too few labels": (arrays(image=GOOD, labels=[0, 1]), "one label per sample, 3, not 2"),
    "one-hot labels": (arrays(image=GOOD, labels=np.eye(10, dtype=int)[:3]), "labels.argmax(axis=1)"),
    "labels in words": (arrays(image=GOOD, labels=["a", "b", "c"]), "labels must be integers"),
    "labels beyond the classes": (arrays(image=GOOD, labels=[0, 1, 10]), "within 0 .. 9"),
    "a truncated image": (of(content("png")[:40]), "a whole PNG or JPEG"),
    "a PNG in name alone": (of(content("png")[:12] + b"?" * 60), "a whole PNG or JPEG; its bytes are neither"),
    "an image without a scale": (of(content("png")), "must state the scale of pixels"),
    "a sound for an image": (of(content("wav")), "apart from axes of one element"),
    "a sound of another length": (of(content("wav")), "has 100 samples of 1 channels, 0.01 s at 16,000 Hz"),
    "sounds of two rates": (
        folder(a_wav=content("wav"), b_wav=content("wav", rate=8_000)),
        "the rate of `a.wav`, 16,000 Hz, not 8,000 Hz",
    ),
    "an empty folder": (folder(), "there must be a file of"),
    "a stray file": (folder(a_npy=content("npy"), notes_txt=b"todo"), "must hold only files of"),
    "images of two sizes": (
        folder(a_png=content("png"), b_png=content("png", np.zeros((9, 8), np.uint8)), samples_toml=b"scale = 1"),
        "changes height and width",
    ),
    "labels of other files": (folder(a_npy=content("npy"), labels_csv=b"b.npy,1\n"), "`b.npy` is not there"),
    "a wrong description": (folder(a_png=content("png"), samples_toml=b"scale = nan"), "finite numbers"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_is_answered(tmp_path: Path, name: str) -> None:
    write, told = CASES[name]
    write(tmp_path)
    done = call("run", MODEL, "--inputs", tmp_path / "x.npz")
    said = " ".join(done.stderr.split())
    assert done.exit_code == 1 and told in said, done.stderr
    assert said.count("error[samples-") == said.count(" hint ") >= 1, done.stderr
