"""What QONNX and scikit-learn put before the hardware, without the compiler: by the driver and in C."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from onnx import TensorProto
from onnx_hw import flow
from onnx_hw.assemble.host_link import link_of
from onnx_hw.assemble.host_model_file import host_model
from onnx_hw.ir import golden
from onnx_hw.onnx.operators import lookup
from onnx_hw_link.c_header import c_header
from onnx_hw_link.errors import LinkError
from onnx_hw_link.frames import in_turns
from onnx_hw_link.host_model import HostModel
from onnx_hw_link.host_operators import KNOWN
from onnx_hw_tools import tools
from support.c_driver import compile_c
from support.fixture_paths import EXAMPLES
from support.onnx_files import model, tensor, value, write

EDGES = np.array([0.0, -0.0, 1e30, -1e30, np.inf, -np.inf, 1e-30], np.float32)


def linear(folder: Path, before: str, **attributes: Any) -> Path:
    """A product of six features behind an operator of ``ai.onnx.ml``."""
    weights = np.random.default_rng(2).normal(size=(6, 3)).astype(np.float32)
    nodes = [
        make_node(before, ["x"], ["features"], "before", domain="ai.onnx.ml", **attributes),
        make_node("MatMul", ["features", "w"], ["y"]),
    ]
    sides = {"inputs": [value("x", (1, 6))], "outputs": [value("y", (1, 3))]}
    opset = {"": 17, "ai.onnx.ml": 3}
    made = model(nodes, constants=[tensor("w", TensorProto.FLOAT, (6, 3), weights.reshape(-1))], opset=opset, **sides)
    return write(folder, made)


def assert_heads_agree(path: Path, frames: np.ndarray, calibrated: bool, folder: Path) -> None:
    """The bytes of frames by the driver and by the compiled header are golden's integers."""
    read = flow.read(path)
    (given,) = read.graph.inputs
    network = flow.quantize(read, {given.name: frames} if calibrated else None)
    design = flow.schedule(network)
    host = HostModel.of(json.loads(host_model(design, link_of(design, 24), 10**6)))
    assert not host.elsewhere
    (folder / "net.h").write_text(c_header(host))
    name, which = host.name.lower(), given.name
    enter = f"void enter(const float *x, uint8_t *f) {{ {name}_enter_{which}(x, f); }}"
    (folder / "net.c").write_text(f'#include "net.h"\n{enter}\n')
    options = ("-std=c99", "-fPIC", "-shared", "-Wno-unused-function", "-Wno-missing-prototypes")
    compile_c("-x", "c", *options, "-o", "net.so", "net.c", "-lm", folder=folder)
    c = ctypes.CDLL(str(folder / "net.so"))
    integers = golden.integers_of(network, {given.name: frames})
    (into,) = network.inputs
    order = next(edge.order for edge in design.edges() if edge.tensor == into.tensor)
    for k, frame in enumerate(frames):
        wanted = in_turns(host.link.inputs, host.link.input_turns, [order.to_beats(integers[into.tensor][k : k + 1])])
        assert host.entering({given.name: frame})[0] == wanted
        sent = (ctypes.c_uint8 * host.link.input_bytes)()
        c.enter(np.ascontiguousarray(frame).ctypes.data_as(ctypes.c_void_p), sent)
        assert bytes(sent) == wanted


@pytest.fixture(autouse=True)
def compiler() -> None:
    try:
        tools.find("c++")
    except tools.ToolMissing as missing:
        pytest.skip(str(missing))


def test_brevitas(tmp_path: Path) -> None:
    """Quant, and the count of its steps, on images and on numbers far outside of its range."""
    with np.load(EXAMPLES / "brevitas_qat" / "test.npz") as stored:
        images = next(iter(stored.values()))[:3].reshape(3, 1, 1, 8, 8).astype(np.float32)
    images[2].reshape(-1)[: EDGES.size] = EDGES
    assert_heads_agree(EXAMPLES / "brevitas_qat" / "digits_4_bits.onnx", images, False, tmp_path)


@pytest.mark.parametrize("count", [1, 6])
def test_scaler(count: int, tmp_path: Path) -> None:
    """One number for all features, or one for each."""
    draw = np.random.default_rng(count)
    offset, scale = draw.normal(size=count).tolist(), draw.uniform(0.01, 30, count).tolist()
    samples = draw.normal(0, 3, (20, 1, 6)).astype(np.float32)
    assert_heads_agree(linear(tmp_path, "Scaler", offset=offset, scale=scale), samples, True, tmp_path)


def test_the_driver_s_quant_is_the_reference_s() -> None:
    draw = np.random.default_rng(0)
    for _ in range(60):
        bits, signed, narrow = int(draw.integers(2, 17)), int(draw.integers(2)), int(draw.integers(2))
        scale = np.float32(draw.uniform(1e-3, 2))
        zero = np.float32(draw.integers(-3, 4))
        steps = draw.integers(-(1 << bits), 1 << bits, 200) / 2  # ties among them
        x = np.concatenate([(steps * scale).astype(np.float32), EDGES]).reshape(1, -1)
        inputs = [np.array(number, np.float32) for number in (scale, zero, bits)]
        reference = lookup("qonnx.custom_op.general", "Quant", 2).function
        wanted = reference(x, *inputs, signed=signed, narrow=narrow)
        found = KNOWN["Quant"][1](x, *inputs, signed=signed, narrow=narrow)
        assert found.dtype == wanted.dtype and np.array_equal(found, wanted)


def test_an_operator_that_c_lacks_is_named_with_what_to_do(tmp_path: Path) -> None:
    network = flow.quantize(
        flow.read(linear(tmp_path, "Normalizer", norm="L2")),
        {"x": np.random.default_rng(1).normal(size=(9, 1, 6)).astype(np.float32)},
    )
    design = flow.schedule(network)
    host = HostModel.of(json.loads(host_model(design, link_of(design, 24), 10**6)))
    with pytest.raises(LinkError, match="has to compute Normalizer `before`: leave it out of the model and compute it"):
        c_header(host)
