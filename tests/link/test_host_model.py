"""``model.json``: a host without the compiler sends what golden would, and understands what comes back."""

from __future__ import annotations

import json

import numpy as np
import pytest

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
