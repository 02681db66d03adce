"""Labels of folders of classes and of ``labels.csv``; images in another size; what is wrong with them, and Pillow."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.model import Value
from onnx_hw.report.build_request import sha256
from onnx_hw.samples.read_samples import read_samples
from onnx_hw.samples.samples import Samples

GREY, COLOUR = Value("image", "uint8", (1, 1, 4, 6)), Value("image", "uint8", ("N", 3, 4, 6))


def drawn(path: Path, seed: int, size: tuple[int, int] = (4, 6), channels: int = 1, **options: object) -> np.ndarray:
    """Write an image of smooth numbers, so that JPEG changes them little."""
    rows, columns = np.mgrid[: size[0], : size[1]]
    pixels = (40 + 10 * seed + 5 * rows + 7 * columns).astype(np.uint8)
    pixels = np.stack([pixels + 9 * k for k in range(channels)], axis=-1)
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels).save(path, **options)
    return pixels


def refusal(path: Path, *inputs: Value, **options: int) -> str:
    with pytest.raises(UserError) as caught:
        read_samples(path, inputs or (GREY,), **options)
    text = str(caught.value)
    assert text.count("  hint   ") == text.count("error["), text
    return text


def labels_of(samples: Samples) -> list[int]:
    assert samples.labels is not None
    return samples.labels.tolist()


@pytest.mark.parametrize("names", [("cat", "dog", "eel"), ("10", "2", "7")])
def test_folders_of_classes(tmp_path: Path, names: tuple[str, ...]) -> None:
    wanted, numbers = [], []
    for k, name in enumerate(names):
        for j in range(k + 1):
            wanted.append(drawn(tmp_path / name / f"{j}.png", 3 * k + j))
            numbers.append(int(name) if name.isdecimal() else k)
    samples = read_samples(tmp_path, [GREY], classes=11)
    assert np.array_equal(samples.arrays["image"].reshape(-1, 4, 6, 1), np.stack(wanted))
    assert labels_of(samples) == numbers
    assert [message for message, _ in samples.notes] == (
        [] if names[0] == "10" else ["the classes are 0 `cat`, 1 `dog`, 2 `eel`"]
    )
    before = sha256(tmp_path)
    (tmp_path / names[1] / "1.png").unlink()
    assert sha256(tmp_path) != before and read_samples(tmp_path, [GREY]).count == 5


def test_classes_in_the_order_of_the_model(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        drawn(tmp_path / name / "a.png", 1)
    (tmp_path / "samples.toml").write_text('classes = ["dog", "bird", "cat"]')
    assert labels_of(read_samples(tmp_path, [GREY])) == [2, 0]
    assert "within 0 .. 1" in refusal(tmp_path, classes=2)
    (tmp_path / "samples.toml").write_text('classes = ["dogs", "cat"]')
    assert "did you mean `dogs`?" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("text", "labels", "told"),
    [
        ("a.png,1\nb.png,0\n", [1, 0], ""),
        ("file;label\nb.png; 3\n\na.png; 5\n", [5, 3], ""),
        ("\ufeffname\tclass\na.png\tdog\nb.png\tcat\n", [1, 0], ""),
        ("a.png,1\n", None, "each file must have a label; 1 have none, `b.png` first"),
        ("a.png,1\nb.png,0\nc.png,0\n", None, "`c.png` is not there"),
        ("a.png,1\nb.png,0\na.png,0\n", None, "`a.png` has two"),
        ("a.png\nb.png\n", None, "a file and a label, not 1 fields"),
        ("a.png,1\nb.png,12\n", None, "within 0 .. 9"),
        ("\udcff", None, "the file must be text"),
        ("", None, "each file must have a label; 2 have none"),
    ],
)
def test_labels_in_a_file(tmp_path: Path, text: str, labels: list[int] | None, told: str) -> None:
    drawn(tmp_path / "a.png", 1), drawn(tmp_path / "b.png", 2)
    (tmp_path / "labels.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    if labels is None:
        assert told in refusal(tmp_path, classes=10)
    else:
        assert labels_of(read_samples(tmp_path, [GREY], classes=10)) == labels


def test_labels_have_one_place(tmp_path: Path) -> None:
    drawn(tmp_path / "cat" / "a.png", 1)
    (tmp_path / "labels.csv").write_text("cat/a.png,0")
    assert "not from both" in refusal(tmp_path)
    (tmp_path / "labels.csv").unlink()
    np.savez(tmp_path / "cat" / "b.npz", image=np.zeros((1, 1, 4, 6), np.uint8), labels=[0])
    assert "not from two of them" in refusal(tmp_path)
    drawn(tmp_path / "c.png", 1)
    assert "not both" in refusal(tmp_path)
    (tmp_path / "c.png").unlink()
    (tmp_path / "empty").mkdir()
    assert "there must be a file" in refusal(tmp_path)


@pytest.mark.parametrize("ending", ["jpg", "JPEG", "png"])
def test_one_image(tmp_path: Path, ending: str) -> None:
    options = {} if ending == "png" else {"format": "JPEG", "quality": 100, "subsampling": 0}
    pixels = drawn(tmp_path / f"a.{ending}", 2, channels=3, **options)
    (tmp_path / "samples.toml").write_text("scale = [0.5, 1.0, 2.0]")
    value = Value("image", "float", (1, 3, 4, 6))
    for path in (tmp_path / f"a.{ending}", tmp_path):
        read = read_samples(path, [value]).arrays["image"][0, 0]
        wanted = np.moveaxis(pixels * [0.5, 1.0, 2.0], -1, 0)
        assert np.abs(read - wanted).max() <= (0 if ending == "png" else 8)
    (tmp_path / "samples.toml").unlink()
    assert "must state the scale of pixels" in refusal(tmp_path / f"a.{ending}", value)
    assert "has 3 channels" in refusal(tmp_path / f"a.{ending}", GREY)


def test_another_size(tmp_path: Path) -> None:
    """Only where it is asked for; 8 × 24 is stretched, or cut to its middle."""
    drawn(tmp_path / "a.png", 1, (8, 24))
    assert "`--resize stretch` or `--resize crop`" in refusal(tmp_path)
    with Image.open(tmp_path / "a.png") as image:
        stretched = image.resize((6, 4), Image.Resampling.BILINEAR)
        middle = image.resize((6, 4), Image.Resampling.BILINEAR, (6, 0, 18, 8))
    for way, wanted in (("stretch", stretched), ("crop", middle)):
        (tmp_path / "samples.toml").write_text(f'resize = "{way}"')
        assert np.array_equal(read_samples(tmp_path, [GREY]).arrays["image"].reshape(4, 6), np.asarray(wanted))
    assert "image of known size" in refusal(tmp_path, Value("image", "uint8", (1, 1, "h", "w")))
    (tmp_path / "samples.toml").write_text("resize = true")
    assert "'stretch' or 'crop', not True" in refusal(tmp_path)


def test_pillow_is_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(3):
        drawn(tmp_path / f"{k}.png", k)
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    for path in (tmp_path, tmp_path / "0.png"):
        text = refusal(path)
        assert text.count("Pillow must be installed") == 1 and 'pip install "onnx-hw[images]"' in text
