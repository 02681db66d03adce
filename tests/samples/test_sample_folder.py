"""Samples in folders: what was written is what is read; whatever is wrong with a file is said."""

from __future__ import annotations

import io
import sys
import wave
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.model import Value
from onnx_hw.report.build_request import sha256
from onnx_hw.samples.images import read_image
from onnx_hw.samples.read_samples import read_samples
from onnx_hw.samples.spooled_array import SpooledArray
from support.cli_runner import call
from support.fixture_paths import EXAMPLES

DIGITS = EXAMPLES / "digits"


def png(stored: np.ndarray) -> bytes:
    """A PNG of (height, width) or (height, width, channels) numbers of 8 bits, or of (height, width) of 16."""
    file = io.BytesIO()
    Image.fromarray(stored).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("channels", [0, 2, 3, 4])
def test_images(channels: int) -> None:
    random = np.random.default_rng(channels)
    for _ in range(4):
        shape = tuple(random.integers(1, 12, 2)) + ((channels,) if channels else ())
        for dtype in (np.uint8, np.uint16)[: 1 if channels else 2]:
            stored = random.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
            found = read_image(png(stored))
            assert found.dtype == dtype and np.array_equal(found, stored.reshape(*shape[:2], -1))


def test_palettes_and_black_and_white() -> None:
    random = np.random.default_rng(3)
    colours = random.integers(0, 256, (9, 3), np.uint8)
    places = random.integers(0, 9, (5, 7), np.uint8)
    image = Image.fromarray(places, "P")
    image.putpalette(colours.tobytes())
    image.save(file := io.BytesIO(), "PNG")
    assert np.array_equal(read_image(file.getvalue()), colours[places])
    assert np.array_equal(read_image(png(places > 4)), np.where(places > 4, 255, 0)[:, :, None])


def test_damaged_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every end that is too early and every byte that is another one; claims are not believed."""
    content = png(np.random.default_rng(1).integers(0, 256, (5, 4, 3), np.uint8))
    for at in range(len(content)):
        with suppress(ValueError):  # and nothing else; what comes after the pixels may be missing
            read_image(content[:at])
        with suppress(ValueError):
            read_image(content[:at] + bytes([content[at] ^ 32]) + content[at + 1 :])
    with pytest.raises(ValueError, match="whole PNG or JPEG"):
        read_image(content[: len(content) // 2])
    claimed = bytearray(content)
    claimed[16:24] = ((1 << 31) - 1).to_bytes(4, "big") * 2
    claimed[29:33] = zlib.crc32(claimed[12:29]).to_bytes(4, "big")
    with pytest.raises(ValueError, match="pixels"):
        read_image(bytes(claimed))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError, match=r"onnx-hw\[images\]"):
        read_image(content)


def sound(path: Path, stored: np.ndarray, width: int) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(stored.shape[1])
        file.setsampwidth(width)
        file.setframerate(16_000)
        shifted = stored + (128 if width == 1 else 0)
        file.writeframes(b"".join(int(n).to_bytes(width, "little", signed=width > 1) for n in shifted.reshape(-1)))


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(1, 2, 6), (None, 6, 2), (2, 6), (6, 2, 1)])
def test_sounds(tmp_path: Path, width: int, shape: tuple[int | None, ...]) -> None:
    random = np.random.default_rng(width)
    limit = 1 << (8 * width - 1)
    stored = random.integers(-limit, limit, (2, 6, 2))
    for k in range(2):
        sound(tmp_path / f"{k}.WAV", stored[k], width)
    found = read_samples(tmp_path, [Value("x", "float", shape)])
    sizes = [size for size in shape if size not in (1, None)]
    wanted = stored.transpose(0, 2, 1) if sizes == [2, 6] else stored
    wanted = (wanted / limit).astype(np.float32).reshape(2, *(size or 1 for size in shape))  # type: ignore[assignment]
    assert found.count == 2 and np.array_equal(found.arrays["x"], wanted)
    (tmp_path / "samples.toml").write_text("scale = [2, 3]\noffset = -1.0")
    each = np.array([[2], [3]]) if sizes == [2, 6] else np.array([2, 3])
    raw = (stored.transpose(0, 2, 1) if sizes == [2, 6] else stored) * each - 1.0
    found = read_samples(tmp_path, [Value("x", "float", shape)])
    assert np.array_equal(found.arrays["x"].reshape(-1), raw.astype(np.float32).reshape(-1))


def test_a_folder_is_as_good_as_a_file(tmp_path: Path) -> None:
    """Images in a folder make the network that the same numbers in an npz make; a change in the folder is seen."""
    random, folder, file = np.random.default_rng(5), tmp_path / "images", tmp_path / "images.npz"
    folder.mkdir()
    images = random.integers(0, 256, (6, 8, 8, 1), np.uint8)
    for k, image in enumerate(images[:4]):
        (folder / f"{k}.png").write_bytes(png(image[:, :, 0]))
    floats = (images * (1 / 255)).astype(np.float32).reshape(6, 1, 1, 8, 8)
    np.save(folder / "4.npy", floats[4])
    np.savez(folder / "5.npz", image=floats[5])
    np.savez(file, image=floats)
    told = ["build", DIGITS / "digits_float.onnx", "--stop-after", "quantize"]
    refused = call(*told, "--calibration", folder, "--out", tmp_path / "a")
    assert refused.exit_code == 1 and "samples.toml" in refused.output and "1/255" in refused.output
    (folder / "samples.toml").write_text(f"scale = {1 / 255}")
    for calibration, out in ((folder, "a"), (file, "b")):
        result = call(*told, "--calibration", calibration, "--out", tmp_path / out)
        assert result.exit_code == 0, result.output
    assert (tmp_path / "a/network.txt").read_text() == (tmp_path / "b/network.txt").read_text()
    before = sha256(folder)
    (folder / "3.png").unlink()
    assert sha256(folder) != before


IMAGE = Value("image", "uint8", (1, 2, 3, 1))


@pytest.mark.parametrize(
    ("name", "content", "inputs", "told"),
    [
        ("a.png", b"GIF89a", [IMAGE], "must be a whole PNG or JPEG"),
        ("a.wav", b"RIFF\xff\xff\xff\x7fWAVEfmt ", [IMAGE], "PCM"),
        ("a.wav", b"", [IMAGE], "PCM"),
        ("a.npy", b"\x93NUMPY\x01\x00\x76\x00", [IMAGE], "npy file"),
        ("a.npy", b"PK", [IMAGE], "npy file"),
        ("a.npz", b"", [IMAGE], "npz"),
        ("a.txt", b"", [IMAGE], "only files of"),
        ("a.png", b"", [IMAGE, IMAGE], "one input"),
        ("samples.toml", b"", [IMAGE], "there must be a file"),
        ("samples.toml", b"scale = 'x'", [IMAGE], "finite numbers"),
        ("samples.toml", b"size = 3", [IMAGE], "resize` and `classes` only"),
    ],
)
def test_what_is_wrong(tmp_path: Path, name: str, content: bytes, inputs: list[Value], told: str) -> None:
    if name == "samples.toml" and content:
        (tmp_path / "b.npy").write_bytes(b"")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=told):
        read_samples(tmp_path, inputs)


def test_what_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grey, wide = png(np.full((2, 3), 7, np.uint8)), png(np.full((2, 3), 700, np.uint16))
    (tmp_path / "a.png").write_bytes(grey)
    assert np.array_equal(read_samples(tmp_path, [IMAGE]).arrays["image"], np.full((1, 1, 2, 3, 1), 7))
    with pytest.raises(UserError, match="the shape must be"):
        read_samples(tmp_path, [Value("image", "uint8", (1, 3, 2, 2))])
    (tmp_path / "samples.toml").write_text("scale = [1.0, 2.0]")
    with pytest.raises(UserError, match="inputs of floats"):
        read_samples(tmp_path, [IMAGE])
    with pytest.raises(UserError, match="1 for the channels"):
        read_samples(tmp_path, [Value("image", "float", (2, 3))])
    (tmp_path / "samples.toml").unlink()
    (tmp_path / "b.png").write_bytes(wide)
    with pytest.raises(UserError, match="must be uint8"):
        read_samples(tmp_path, [IMAGE])
    np.savez(tmp_path / "b.npz", image=np.zeros((1, 2, 3, 1), np.uint8), labels=np.array([1]))
    (tmp_path / "b.png").unlink()
    with pytest.raises(UserError, match="labels, or none of them"):
        read_samples(tmp_path, [IMAGE])
    np.savez(tmp_path / "b.npz", image=np.zeros((1, 3, 3, 1), np.uint8))
    with pytest.raises(UserError, match=r"`a\.png`, not"):
        read_samples(tmp_path, [Value("image", "uint8", (None, None, 3, 1))])

    def full(_array: SpooledArray, _piece: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SpooledArray, "add", full)
    with pytest.raises(UserError, match="room on disk for the samples: No space"):
        read_samples(tmp_path, [IMAGE])
