"""What is a build's own, in C: frames and results as the driver makes and reads them."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_hw_link.c_header import c_header, main
from onnx_hw_link.errors import LinkError
from onnx_hw_link.frames import in_turns, out_of_turns
from onnx_hw_link.greeting import PROTOCOL
from onnx_hw_link.host_model import FORMAT, HostModel
from onnx_hw_tools import tools
from support.c_driver import compile_c

CONSTANTS = {
    "scale": {"dtype": "float32", "shape": [], "data": [0.037]},
    "zero": {"dtype": "uint8", "shape": [], "data": [7]},
}
HEAD = [
    {"op": "Reshape", "inputs": ["x", ""], "output": "flat", "attributes": {}},
    {"op": "QuantizeLinear", "inputs": ["flat", "scale", "zero"], "output": "q", "attributes": {}},
]


def model() -> dict[str, Any]:
    """Two inputs, the beats of which travel in turns, places left over; 12 bits come back in another order."""
    return {
        "format": FORMAT, "protocol": PROTOCOL, "name": "My net", "digest": bytes(range(16)).hex(),
        "clock_hz": 10**6, "baud": 10**6,
        "input_buffer": 128, "output_buffer": 128, "elsewhere": [], "constants": CONSTANTS,
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": [1, 2, 3]}, {"name": "n", "dtype": "int32", "shape": [2]},
        ],
        "outputs": ["y"],
        "streams_in": [
            {"name": "e0", "beats": 2, "width": 4, "bits": 8, "signed": False, "value": "q",
             "places": [5, 3, 1, -1, 0, 2, 4, -1]},
            {"name": "e1", "beats": 2, "width": 1, "bits": 20, "signed": True, "value": "n", "places": [1, 0]},
        ],
        "streams_out": [{"name": "e2", "beats": 2, "width": 2, "bits": 12, "signed": True}],
        "turns_in": [[0, 1], [1, 2], [0, 1]], "turns_out": [[0, 2]],
        "values_out": [{"value": "y", "stream": 0, "places": [3, 0, 1], "shape": [1, 3], "dtype": "int64"}],
        "head": HEAD[1:], "tail": [],
    }  # fmt: skip


def written(folder: Path, data: dict) -> Path:
    (folder / "model.json").write_text(json.dumps(data))
    return folder


def test_frames_and_results_are_the_driver_s(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = model()
    data["head"][0] = {**HEAD[1], "inputs": ["x", "scale", "zero"]}
    assert main([str(written(tmp_path, data))]) == 0
    (tmp_path / "net.h").write_text(capsys.readouterr().out)
    (tmp_path / "net.c").write_text(
        '#include "net.h"\n'
        "void enter(const float *x, const int32_t *n, uint8_t *f) { my_net_enter_x(x, f); my_net_enter_n(n, f); }\n"
        "void leave(const uint8_t *r, int32_t *y) { my_net_leave_y(r, y); }\n"
        "int size(void) { return MY_NET_INPUT_BYTES + 100 * MY_NET_OUTPUT_BYTES + 10000 * my_net_digest[15]; }\n"
    )
    try:
        options = ("-std=c99", "-fPIC", "-shared", "-Wno-unused-function", "-Wno-missing-prototypes")
        compile_c("-x", "c", *options, "-o", "net.so", "net.c", "-lm", folder=tmp_path)
    except tools.ToolMissing as missing:
        pytest.skip(str(missing))
    c, host = ctypes.CDLL(str(tmp_path / "net.so")), HostModel.read(tmp_path)
    assert c.size() == host.link.input_bytes + 100 * host.link.output_bytes + 150_000
    generator = np.random.default_rng(3)
    x = generator.normal(0, 4, (1, 2, 3)).astype(np.float32)
    n = generator.integers(-(1 << 19), 1 << 19, 2).astype(np.int32)
    frame = (ctypes.c_uint8 * host.link.input_bytes)()
    c.enter(x.ctypes.data_as(ctypes.c_void_p), n.ctypes.data_as(ctypes.c_void_p), frame)
    wanted, values = host.entering({"x": x, "n": n})
    assert bytes(frame) == wanted
    results, y = generator.integers(0, 256, host.link.output_bytes, dtype=np.uint8), (ctypes.c_int32 * 3)()
    c.leave(results.ctypes.data_as(ctypes.c_void_p), y)
    assert list(y) == host.leaving(results.tobytes(), values)["y"].reshape(-1).tolist()


def test_labels_of_classes(tmp_path: Path) -> None:
    """A label per number, as a text or an integer, and that of any other number."""
    texts, integers = ["ant", 'a "b"\\n??/', "Käse\n7", ""], [-(1 << 63), (1 << 63) - 1, 7]
    data = model()
    data["head"][0] = {**HEAD[1], "inputs": ["x", "scale", "zero"]}
    (value,) = data["values_out"]
    data["outputs"] = ["t", "i"]
    data["values_out"] = [
        {**value, "value": "t", "labels": texts, "other_label": "_Unused"},
        {**value, "value": "i", "labels": integers, "other_label": -1},
    ]
    (tmp_path / "net.c").write_text(
        c_header(HostModel.of(data)) + "const uint8_t *digest(void) { return my_net_digest; }\n"
        "const char *text(int32_t n) { return my_net_t_label(n); }\n"
        "int64_t integer(int32_t n) { return my_net_i_label(n); }\n"
    )
    try:
        options = ("-std=c99", "-fPIC", "-shared", "-Wno-unused-function", "-Wno-missing-prototypes")
        compile_c("-x", "c", *options, "-o", "net.so", "net.c", "-lm", folder=tmp_path)
    except tools.ToolMissing as missing:
        pytest.skip(str(missing))
    c = ctypes.CDLL(str(tmp_path / "net.so"))
    c.text.restype, c.integer.restype = ctypes.c_char_p, ctypes.c_int64
    assert [c.text(n).decode() for n in range(-1, 5)] == ["_Unused", *texts, "_Unused"]
    assert [c.integer(n) for n in range(-1, 4)] == [-1, *integers, -1]


@pytest.mark.parametrize(("labels", "other"), [(["ant", 1], "_Unused"), ([1 << 63], -1), ([1], True), ("ant", "_")])
def test_wrong_labels_are_refused(labels: Any, other: Any) -> None:
    data = model()
    data["head"][0] = {**HEAD[1], "inputs": ["x", "scale", "zero"]}
    data["values_out"][0] |= {"labels": labels, "other_label": other}
    with pytest.raises(LinkError, match=r"labels` must be"):
        HostModel.of(data)


WIDTHS = [(bits, signed) for bits in range(1, 17) for signed in (True, False)]


def of_width(bits: int, signed: bool) -> dict[str, Any]:
    """A build whose input and output have this width, as a quantized float model and a QDQ model have them."""
    narrow = bits in (2, 4)
    stored = np.dtype(f"{'' if signed else 'u'}int{8 if bits <= 8 else 16}")
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    zero, scale = (low + high) // 2, 0.25
    constants = {
        "scale": {"dtype": "float32", "shape": [], "data": [scale]},
        "zero": {"dtype": str(stored), "shape": [], "data": [zero]},
        "least": {"dtype": "float32", "shape": [], "data": [(low - zero) * scale]},
        "greatest": {"dtype": "float32", "shape": [], "data": [(high - zero) * scale]},
    }
    clip = {"op": "Clip", "inputs": ["x", "least", "greatest"], "output": "clipped", "attributes": {}}
    quantize = {"op": "QuantizeLinear", "inputs": ["clipped", "scale", "zero"], "output": "q", "attributes": {}}
    if narrow:
        quantize |= {"inputs": ["x", "scale", "zero"], "attributes": {"bits": bits}}
    stream = {"bits": bits, "signed": signed}
    return {
        **model(), "name": f"n{bits}{'s' if signed else 'u'}", "constants": constants,
        "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 5]}],
        "streams_in": [{**stream, "name": "e0", "beats": 4, "width": 3, "value": "q",
                        "places": [9, 7, -1, 5, 3, 1, 0, 2, 4, 6, 8, -1]}],
        "streams_out": [{**stream, "name": "e1", "beats": 3, "width": 2}],
        "turns_in": [[0, 4]], "turns_out": [[0, 3]],
        "values_out": [{"value": "y", "stream": 0, "places": [5, 0, 1, 4], "shape": [4], "dtype": "int64"}],
        "head": [quantize] if narrow else [clip, quantize],
    }  # fmt: skip


def test_every_width_is_the_driver_s(tmp_path: Path) -> None:
    """Frames and results in C, in the driver, and the integers that ONNX says."""
    source, hosts = ["#include <stddef.h>"], {}
    for bits, signed in WIDTHS:
        hosts[bits, signed] = host = HostModel.of(of_width(bits, signed))
        (tmp_path / f"{host.name}.h").write_text(c_header(host))
        source += [
            f'#include "{host.name}.h"',
            f"void enter_{host.name}(const float *x, uint8_t *f) {{ {host.name}_enter_x(x, f); }}",
            f"void leave_{host.name}(const uint8_t *r, int32_t *y) {{ {host.name}_leave_y(r, y); }}",
        ]
    (tmp_path / "all.c").write_text("\n".join(source) + "\n")
    try:
        options = ("-std=c99", "-fPIC", "-shared", "-Wno-unused-function", "-Wno-missing-prototypes")
        compile_c("-x", "c", *options, "-o", "all.so", "all.c", "-lm", folder=tmp_path)
    except tools.ToolMissing as missing:
        pytest.skip(str(missing))
    c, generator = ctypes.CDLL(str(tmp_path / "all.so")), np.random.default_rng(3)
    for (bits, signed), host in hosts.items():
        (into,), (out,) = host.link.inputs, host.link.outputs
        x = generator.normal(0, 1 << bits, (2, 5)).astype(np.float32)  # many of them are clipped
        frame = (ctypes.c_uint8 * host.link.input_bytes)()
        c[f"enter_{host.name}"](x.ctypes.data_as(ctypes.c_void_p), frame)
        sent, values = host.entering({"x": x})
        assert bytes(frame) == sent, (bits, signed)
        low = -(1 << (bits - 1)) if signed else 0
        zero = host.data["constants"]["zero"]["data"][0]
        integers = np.clip(np.rint(x.reshape(-1) / 0.25) + zero, low, low + (1 << bits) - 1)
        places = np.array(host.data["streams_in"][0]["places"])
        wanted = np.where(places < 0, 0, integers[places]).reshape(into.beats, into.width)
        assert np.array_equal(out_of_turns(host.link.inputs, ((0, 4),), sent)[0], wanted), (bits, signed)
        beats = generator.integers(low, low + (1 << bits), (out.beats, out.width))
        beats[0] = low, low + (1 << bits) - 1
        results, y = in_turns(host.link.outputs, ((0, 3),), [beats]), (ctypes.c_int32 * 4)()
        c[f"leave_{host.name}"](results, y)
        assert list(y) == [int(beats.reshape(-1)[k]) for k in (5, 0, 1, 4)]
        assert list(y) == host.leaving(results, values)["y"].tolist(), (bits, signed)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"head": [{**HEAD[0], "op": "Softmax"}, HEAD[1]]}, "the host has to compute Softmax of float"),
        ({"head": []}, "has to compute something else that makes `q`"),
        ({"streams_out": [{**model()["streams_out"][0], "bits": 33}]}, "`e2` has 33"),
    ],
)
def test_what_c_does_not_do_is_a_sentence(
    change: dict, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {**model(), "head": [{**HEAD[1], "inputs": ["x", "scale", "zero"]}], **change}
    assert main([str(written(tmp_path, data))]) == 2
    assert told in capsys.readouterr().err
    assert main([]) == 2
