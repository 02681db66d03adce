"""``model.json``: a host without the compiler sends what golden would, and understands what comes back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from onnx import TensorProto, helper
from onnx_hw import flow
from onnx_hw.assemble.elaborate import edge_names
from onnx_hw.assemble.host_model_file import host_model
from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.quantization.ranges.assume import assume_ranges
from onnx_hw.quantization.scheme import Precision, Scheme
from onnx_hw_link.c_header import c_header
from onnx_hw_link.errors import LinkError
from onnx_hw_link.frames import from_transfers, in_turns, out_of_turns, to_transfers
from onnx_hw_link.host_model import HostModel
from onnx_hw_link.link import Link, LinkPort
from support.fixture_paths import EXAMPLES


def link_of(design: Design) -> Link:
    names, edges = edge_names(design), {edge.tensor: edge for edge in design.edges()}

    def port(tensor: str) -> LinkPort:
        kind = edges[tensor].type.dtype
        return LinkPort(names[tensor], edges[tensor].beats, edges[tensor].width, kind.bits, kind.signed)

    inputs, outputs = ((port(b.tensor) for b in side) for side in (design.network.inputs, design.network.outputs))
    return Link(bytes(range(16)), tuple(inputs), tuple(outputs), 10**7)


@pytest.mark.parametrize("multipliers", [3, 40])
def test_digits_as_golden_has_them(multipliers: int) -> None:
    network = flow.quantize(flow.read(EXAMPLES / "digits" / "digits.onnx"))
    design = flow.schedule(network, multipliers=multipliers)
    link = link_of(design)
    model = HostModel.of(json.loads(host_model(design, link, 10**6)))
    assert model.link == link
    images = np.load(EXAMPLES / "digits" / "digits_test.npz")["image"][:8].reshape(-1, 1, 1, 8, 8)
    wanted = golden.run(network, {"image": images})
    entering = golden.integers_of(network, {"image": images})
    leaving = golden.trace(network, entering)
    edges = {edge.tensor: edge for edge in design.edges()}
    (into,), (out,) = network.inputs, network.outputs
    for k, image in enumerate(images):
        data, values = model.entering({"image": image})
        beats = edges[into.tensor].order.to_beats(entering[into.tensor][k : k + 1])
        assert data == in_turns(link.inputs, link.input_turns, [beats])
        results = in_turns(
            link.outputs, link.output_turns, [edges[out.tensor].order.to_beats(leaving[out.tensor][k : k + 1])]
        )
        found = model.leaving(results, values)
        assert list(found) == list(wanted)
        assert all(
            np.array_equal(found[name], wanted[name][k]) and found[name].dtype == wanted[name].dtype for name in found
        )
    with pytest.raises(LinkError, match=r"`image` must be float32\[1, 1, 8, 8\], not nothing"):
        model.entering({})


@pytest.mark.parametrize("bits", [1, 3, 4, 10])
def test_a_float_model_in_integers_of_other_widths(bits: int) -> None:
    """The driver clips and quantizes by itself, as the head of the network does."""
    read = flow.read(EXAMPLES / "digits" / "digits_float.onnx")
    network = flow.quantized(read, assume_ranges, Scheme(data=Precision(bits))).network
    design = flow.schedule(network, multipliers=4)
    model = HostModel.of(json.loads(host_model(design, link := link_of(design), 10**6)))
    assert not model.elsewhere
    assert c_header(model)
    (boundary,) = network.inputs
    image = np.random.default_rng(bits).normal(0, 2, (1, 1, 8, 8)).astype(np.float32)
    order = {edge.tensor: edge for edge in design.edges()}[boundary.tensor].order
    wanted = order.to_beats(golden.integers_of(network, {"image": image[None]})[boundary.tensor])
    assert model.entering({"image": image})[0] == in_turns(link.inputs, link.input_turns, [wanted])


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("bits", [1, 3, 8, 11, 16, 17, 24, 31, 32])
def test_integers_there_and_back(bits: int, signed: bool) -> None:
    port = LinkPort("p", 6, 3, bits, signed)
    low = -(1 << (bits - 1)) if signed else 0
    beats = np.random.default_rng(bits).integers(low, low + (1 << bits), (6, 3))
    beats[0] = low, low + (1 << bits) - 1, 0
    data = to_transfers(port, beats)
    assert len(data) == port.beats * port.transfer_bytes
    assert np.array_equal(from_transfers(port, data), beats)
    others = LinkPort("q", 2, 1, 3, False)
    ports, turns = (port, others), ((1, 1), (0, 4), (1, 1), (0, 2))
    words = [
        [int(n) % (1 << bits) for n in stream.reshape(-1)] for bits, stream in ((bits, beats), (3, np.array([5, 2])))
    ]
    wanted, at = 0, 0
    for word, size in ((words[1][:1], 3), (words[0][:12], bits), (words[1][1:], 3), (words[0][12:], bits)):
        for n in word:
            wanted, at = wanted | n << at, at + size
    frame = in_turns(ports, turns, [beats, np.array([[5], [2]])])
    assert frame == wanted.to_bytes(-(-at // 8), "little")
    back = out_of_turns(ports, turns, frame)
    assert np.array_equal(back[0], beats) and back[1].reshape(-1).tolist() == [5, 2]


@pytest.mark.parametrize(
    ("labels", "other"), [(["ant", "bee", "cat"], "_Unused"), ([7, 5, 9], -1), ([0, 1, 2], None)], ids=str
)
def test_labels_of_a_classifier(labels: list[str] | list[int], other: str | int | None, tmp_path: Path) -> None:
    """What the host looks up behind the number of a class; a number that is its own label needs no list."""
    generator, kind = np.random.default_rng(4), "strings" if isinstance(labels[0], str) else "ints"
    classifier = helper.make_node(
        "LinearClassifier", ["x"], ["label", "p"], domain="ai.onnx.ml", intercepts=[0.1, 0.0, -0.2],
        coefficients=generator.uniform(-3, 3, 12).tolist(), **{f"classlabels_{kind}": labels},
    )  # fmt: skip
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    made = helper.make_tensor_value_info("label", TensorProto.STRING if kind == "strings" else TensorProto.INT64, [1])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(helper.make_graph([classifier], "g", [given], [made]), opset_imports=opsets, ir_version=8)
    path = tmp_path / "classifier.onnx"
    path.write_bytes(model.SerializeToString())
    network = flow.quantize(flow.read(path), generator.normal(0, 1, (40, 4)).astype(np.float32))
    design = flow.schedule(network, multipliers=4)
    (value,) = json.loads(host_model(design, link_of(design), 10**6))["values_out"]
    assert (value.get("labels"), value.get("other_label")) == ((labels, other) if other is not None else (None, None))
