"""What tensors hold for samples, counted once more; and values in a notebook."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.commands.build import Build
from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.prove.circuit.prove import Proof
from onnx_hw.prove.circuit.run_comparison import Difference, Run
from onnx_hw.report.build_request import describe_build_request
from onnx_hw.report.collect.design_sections import describe_quantization
from onnx_hw.report.value_statistics import MAX_FRAMES, value_statistics
from onnx_hw.runtime.options import BuildOptions
from support.fixture_paths import EXAMPLES
from support.sample_report import FULL

HOSTILE = "<b>&\"'</script>\x1b[2J"
DIGITS = EXAMPLES / "digits"


@pytest.fixture(scope="module")
def design() -> Design:
    return flow.schedule(flow.quantize(flow.read(DIGITS / "digits.onnx")), multipliers=8)


def test_every_tensor_is_counted(design: Design) -> None:
    network = design.network
    images = np.load(DIGITS / "digits_test.npz")["image"]
    found = value_statistics(network, {"image": images})
    assert set(found) == set(network.tensors)
    values = golden.trace(network, golden.integers_of(network, {"image": images[:MAX_FRAMES]}))
    for name, seen in found.items():
        array, grid = values[name], network.grids.get(name)
        dtype = network.tensors[name].dtype
        ends = (grid.low, grid.high) if grid else (dtype.min, dtype.max)
        assert (seen.frames, seen.low, seen.high) == (MAX_FRAMES, array.min(), array.max())
        shares = [sum(value == end for value in array.ravel().tolist()) / array.size for end in ends]
        assert [seen.at_low, seen.at_high] == pytest.approx(shares, abs=1e-6)
        width = (ends[1] - ends[0] + 1) / 16
        used = {min(15, int((value - ends[0] + 0.5) / width)) for value in array.ravel().tolist()}
        assert [digit != "0" for digit in seen.histogram] == [k in used for k in range(16)]
        assert "9" in seen.histogram
    relu = found["conv1_int8"]
    assert relu.at_low > 0.2 and relu.at_high < 0.05  # what was negative
    assert value_statistics(network, None) == {}


@pytest.mark.parametrize("limit", ["MAX_MACS", "MAX_VALUES"])
def test_of_a_large_network_fewer_frames_are_looked_at(
    design: Design, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = np.load(DIGITS / "digits_test.npz")["image"]
    sizes = {"MAX_MACS": 23_680, "MAX_VALUES": sum(t.size for t in design.network.tensors.values())}
    monkeypatch.setattr(f"onnx_hw.report.value_statistics.{limit}", 3 * sizes[limit] + 1)
    assert {seen.frames for seen in value_statistics(design.network, {"image": images}).values()} == {3}


def test_a_file_that_cannot_be_read_is_somebody_else_s_to_complain_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    options = BuildOptions(model=DIGITS / "digits.onnx", folding=DIGITS)
    assert set(describe_build_request(options).sha256) == {"model"}
    monkeypatch.setattr("pathlib.Path.open", refuse)
    assert describe_build_request(options).sha256 == {}


def test_noise_stands_beside_the_tensor_that_holds_the_value() -> None:
    images = np.load(DIGITS / "digits_calibration.npz")["image"]
    network = flow.quantize(flow.read(DIGITS / "digits_float.onnx"), {"image": images})
    told = {t.name: t.sqnr_db for t in describe_quantization(network, None, {"image": 40.5, "nothing": 1.0}).tensors}
    assert [name for name, db in told.items() if db is not None] == ["image/int8"] and told["image/int8"] == 40.5


def run(**changes: object) -> Run:
    return replace(Run("none", 900, 3, 4_000, 0, 500, 0, None, 256, 800), **changes)


def html(value: object) -> str:
    text = value._repr_html_()  # type: ignore[attr-defined]
    root = ElementTree.fromstring(text)
    assert root.get("class") == "onnx-hw note" and "http" not in text
    return " ".join("".join(root.itertext()).split())


def test_values_in_a_notebook(design: Design) -> None:
    model = flow.read(DIGITS / "digits.onnx")
    network = design.network
    for value in (model, network, design):
        assert "conv1" in html(value) and "digits" in html(value)
    assert "QuantizeLinear" in html(model) and "Softmax" in html(network) and "80 MHz" in html(design)
    assert all(node.name in html(design) for node in network.nodes)
    good, bad = run(), run(mismatches=1, difference=Difference(HOSTILE, 7))
    assert "fires as predicted" in html(Proof("compiled", 4, (good,)))
    assert "differs" in html(Proof("compiled", 4, (good, bad))) and "<b>" in html(Proof("compiled", 4, (good, bad)))
    assert "Core by core" in html(Build(DIGITS, FULL))
