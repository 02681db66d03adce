"""Kinds of hostile cases that make a file byte by byte: models mutated on the wire, claims of huge sizes, crafted
samples of every kind, and things that are no file.
"""

from __future__ import annotations

import io
import os
import random
import struct
import wave
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import onnx
from onnx import numpy_helper
from support.hostile_cases import Kind, Materials, Words, damaged, with_model

VARINT, WORD64, BYTES, WORD32 = 0, 1, 2, 5
"""Wire types of protobuf."""

Field = tuple[int, int, Any]
"""Number, wire type and value of a field of a message."""


# ---- protobuf on the wire --------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    value, out = value % (1 << 64), b""
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def read_message(data: bytes) -> list[Field]:
    """Return the fields of a message; raise ValueError or IndexError where bytes are none."""
    at, fields = 0, []

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(data):
        tag = number()
        wire = tag & 7
        if wire == VARINT:
            fields.append((tag >> 3, wire, number()))
            continue
        if wire not in (WORD64, BYTES, WORD32):
            raise ValueError(f"there is no wire type {wire}")
        size = number() if wire == BYTES else 8 if wire == WORD64 else 4
        if at + size > len(data):
            raise ValueError("a field is longer than its message")
        fields.append((tag >> 3, wire, data[at : at + size]))
        at += size
    return fields


def write_message(fields: list[Field]) -> bytes:
    out = b""
    for number, wire, value in fields:
        out += varint(number << 3 | wire)
        out += varint(value) if wire == VARINT else varint(len(value)) + value if wire == BYTES else value
    return out


def mutated(data: bytes, draw: random.Random, depth: int = 0) -> bytes:
    """Return a message with a change in one of its fields, which may be deep inside."""
    try:
        fields = read_message(data)
    except (ValueError, IndexError):
        fields = []
    if not fields:
        return damaged(data, draw) if data else draw.randbytes(3)
    k = draw.randrange(len(fields))
    number, wire, value = fields[k]
    if wire == BYTES and value and depth < 9 and draw.random() < 0.85:
        fields[k] = (number, wire, mutated(value, draw, depth + 1))
        return write_message(fields)
    how = draw.randrange(8)
    if how == 0:
        fields[k] = (draw.choice((1, 2, 3, 5, 7, 9, 14, 20, 1 << 20, (1 << 29) - 1)), wire, value)
    elif how == 1:
        fields += [fields[k]] * draw.choice((1, 2, 50, 3000))
    elif how == 2:
        del fields[k]
    elif how == 3:
        fields[k] = (number, VARINT, draw.choice((0, 1, 7, 1 << 31, 1 << 40, 1 << 63, (1 << 64) - 1)))
    elif how == 4:  # a length that the message does not have
        return (
            write_message(fields[:k]) + varint(number << 3 | BYTES) + varint(draw.choice((1 << 20, 1 << 31, 1 << 63)))
        )
    elif how == 5:
        fields[k] = (number, BYTES, draw.choice((b"", b"\xff" * 20, bytes(40), b"\xed\xa0\x80" * 30, b"x" * 100_000)))
    elif how == 6:  # a message in a message in a message ...
        inner = b"a"
        for _ in range(draw.choice((5, 90, 3000))):
            inner = varint(number << 3 | BYTES) + varint(len(inner)) + inner
        fields[k] = (number, BYTES, inner)
    else:  # groups, which no field of ONNX has, and tags that never end
        return write_message(fields) + draw.choice((b"\x0b", b"\x0c" * 9, b"\x80" * 20, b"\x07"))
    return write_message(fields)


def model_on_the_wire(draw: random.Random, given: Materials, folder: Path) -> Words:
    (folder / "m.onnx").write_bytes(mutated(given.model.read_bytes(), draw))
    return with_model(draw, given)


def huge_claim(draw: random.Random, given: Materials, folder: Path) -> Words:
    """Append a node whose result is larger than any memory, or a constant whose size says so."""
    model = onnx.load(given.model)
    graph, made = model.graph, "claimed"

    def constant(name: str, value: Any, dtype: str) -> str:
        graph.initializer.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    kind = draw.choice(("Add", "ConstantOfShape", "Tile", "Range", "MaxPool", "OneHot"))
    attributes: dict[str, Any] = {}
    if kind == "Add":
        dims = draw.choice(([1 << 40], [1 << 20, 1 << 20], [1 << 62, 4], [-1], [0, 1 << 50]))
        graph.initializer.append(onnx.TensorProto(name="c", dims=dims, data_type=1, raw_data=b"abcd"))
        inputs = [graph.node[0].output[0], "c"]
    elif kind == "ConstantOfShape":
        inputs = [constant("c", draw.choice(([1 << 33], [1 << 16] * 3, [-5], [1 << 62])), "i8")]
    elif kind == "Tile":
        inputs = ["image", constant("c", [1, 1 << 20, 1, draw.choice((1 << 10, 1 << 30))], "i8")]
    elif kind == "Range":
        ends = (0, draw.choice((1e30, 1e9, np.inf)), draw.choice((1, 1e-9, 0)))
        inputs = [constant(name, end, "f4") for name, end in zip("abc", ends, strict=True)]
    elif kind == "MaxPool":
        inputs = ["image"]
        attributes["kernel_shape"] = draw.choice(([3, 3], [1 << 20, 1 << 20]))
        attributes["pads"] = draw.choice(([1 << 30] * 4, [1000] * 4, [-3] * 4))
    else:
        inputs = [constant("a", np.arange(1000), "i8"), constant("b", draw.choice((1 << 40, 1 << 22, -1)), "i8")]
        inputs.append(constant("c", [0, 1], "f4"))
    graph.node.append(onnx.helper.make_node(kind, inputs, [made], **attributes))
    rank = {"ConstantOfShape": 3, "Range": 1, "OneHot": 2}.get(kind, 4)
    graph.output.append(onnx.helper.make_tensor_value_info(made, 1, [f"d{k}" for k in range(rank)]))
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return with_model(draw, given)


# ---- samples ---------------------------------------------------------------------------------------------------------


def _png(draw: random.Random) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    width, height = draw.choice(((4, 4), (60_000, 60_000), (0, 0), (1 << 31, 1)))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, draw.randrange(2))
    rows = b"".join(b"\0" + draw.randbytes(4) for _ in range(4))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _jpeg(draw: random.Random) -> bytes:
    return draw.choice((b"\xff\xd8\xff\xe0" + draw.randbytes(200), b"\xff\xd8\xff\xc0\0\x11\x08" + b"\xff" * 300))


def _wav(draw: random.Random) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(draw.choice((1, 2, 9)))
        file.setsampwidth(draw.choice((1, 2, 3, 4)))
        file.setframerate(draw.choice((1, 8000, 96_000)))
        file.writeframes(draw.randbytes(72))
    return out.getvalue()


NPY_HEADERS = (
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 1, 4, 4), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 16), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (4,), }",
    "{'descr': '<f4', 'fortran_order': True, 'shape': (-1, 4), }",
    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4, 4), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 1, 4, 4.0), }",
    "__import__('os').abort()",
    "(" * 300,
)


def _npy(draw: random.Random) -> bytes:
    head = draw.choice(NPY_HEADERS).encode()
    head += b" " * (63 - (len(head) + 10) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + draw.randbytes(draw.choice((0, 256, 300)))


def _npz(draw: random.Random) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        name = draw.choice(("image.npy", "../image.npy", "image", "a/b.npy"))
        archive.writestr(name, _npy(draw) + bytes(draw.choice((0, 64 << 20))))
        if draw.random() < 0.3:
            archive.writestr("labels.npy", b"")
    return out.getvalue()


MAKERS = {"png": _png, "jpg": _jpeg, "wav": _wav, "npy": _npy, "npz": _npz}

NO_FILES = (
    "/dev/zero", "/dev/random", "/dev/null", "/dev/full", "/dev/tty", "/dev/stdin", "/proc/self/mem",
    "/proc/self/mounts", "/proc/kmsg", "/proc/kpagecount",
)  # fmt: skip
"""Devices and files of the kernel; from some of them reading never returns."""


def sample_file(draw: random.Random, given: Materials, folder: Path) -> Words:
    """Samples of every kind with odd contents, one file or a folder of them, and a description beside them."""
    (folder / "samples.toml").write_text(
        draw.choice(("scale = 0.5\n", 'scale = "x"\n', "[image]\n", "scale = 1e400\n"))
    )
    whole = draw.random() < 0.4
    place = folder / "s" if whole else folder
    place.mkdir(exist_ok=True)
    for k in range(draw.randrange(1, 4) if whole else 1):
        ending = draw.choice(tuple(MAKERS))
        file, how = place / f"s{k}.{ending}", draw.random()
        if how < 0.1:
            os.mkfifo(file)
        elif how < 0.25:
            file.symlink_to(draw.choice((*NO_FILES, file.name)))
        else:
            content = MAKERS[ending](draw)
            file.write_bytes(content if draw.random() < 0.6 else damaged(content, draw))
        named = "s" if whole else file.name
    model, build = str(given.model), str(given.build)
    return draw.choice((
        ["run", model, "--inputs", named, "--engine", "reference"],
        ["build", model, "--calibration", named, "--stop-after", "quantize", "--out", "o"],
        ["build", model, "--calibration", str(given.samples), "--inputs", named, "--stop-after", "quantize"],
        ["infer", build, "--inputs", named, "--port", "nowhere"],
        ["verify", build, "--inputs", named, "--jobs", "1"],
    ))  # fmt: skip


def no_file(draw: random.Random, given: Materials, folder: Path) -> Words:
    """A device, a pipe, a folder, or a link to itself in place of any file that a command takes."""
    thing, what = folder / "thing", draw.choice((*NO_FILES, "a pipe", "a folder", "a loop"))
    if what == "a pipe":
        os.mkfifo(thing)
    elif what == "a folder":
        thing.mkdir()
    else:
        thing.symlink_to("thing" if what == "a loop" else what)
    model, build, inputs = str(given.model), str(given.build), str(given.samples)
    quantize = ["build", model, "--calibration", inputs, "--out", "o", "--stop-after", "quantize"]
    return draw.choice((
        ["check", "thing"],
        ["build", "thing"],
        ["run", "thing", "--inputs", inputs],
        ["build", model, "--calibration", "thing", "--out", "o"],
        [*quantize, "--folding", "thing"],
        [*quantize, "--precision", "thing"],
        ["build", model, "--board", "thing", "--out", "o"],
        ["build", model, "--calibration", inputs, "--out", "thing", "--stop-after", "schedule"],
        ["infer", "thing", "--inputs", inputs],
        ["infer", build, "--inputs", inputs, "--port", "thing"],
        ["verify", "thing"],
        ["report", "thing", "--no-open"],
        ["report", build, "thing", "--no-open"],
        ["program", "thing"],
        ["update", "thing", model],
        ["update", build, "thing"],
        ["run", model, "--inputs", inputs, "--engine", "reference", "--out", "thing"],
    ))  # fmt: skip


FILE_KINDS: tuple[Kind, ...] = (model_on_the_wire, huge_claim, sample_file, no_file)
