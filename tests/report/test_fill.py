"""Sections of the report on the bundled example, whose numbers are known."""

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.exact.integers import Int
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.tensor import Tensor
from onnx_hw.report.collect import sections
from onnx_hw.report.collect.design_sections import describe_ports
from onnx_hw.runtime.schedule_request import ScheduleRequest
from support.fixture_paths import EXAMPLES
from support.hand_built_designs import alone

DIGITS = EXAMPLES / "digits"
WEIGHTS = (9 + 1) * 8 + (9 * 8 + 1) * 16 + (64 + 1) * 10
MACS = 8 * 8 * 9 * 8 + 4 * 4 * 9 * 8 * 16 + 64 * 10


@pytest.mark.parametrize("name", ["digits.onnx", "digits_float.onnx"])
def test_scales_and_zero_points_are_no_parameters(name):
    assert sections.parameters(flow.read(DIGITS / name)) == WEIGHTS == 1898


@pytest.fixture(scope="module")
def design():
    return flow.schedule(flow.quantize(flow.read(DIGITS / "digits.onnx")), multipliers=8)


def test_the_model(design):
    described = sections.describe_model(flow.read(DIGITS / "digits.onnx"), design.network)
    assert (described.name, described.macs, described.parameters) == ("digits", MACS, WEIGHTS)


def test_the_plan_is_consistent(design):
    plan = sections.describe_plan(design, ScheduleRequest())
    assert plan.macs == MACS
    assert plan.lanes == plan.multipliers.dsp + plan.multipliers.lut <= 8
    assert plan.mac_efficiency == pytest.approx(plan.macs / (plan.lanes * plan.interval_cycles))
    assert plan.interval_cycles >= plan.bottleneck.cycles == max(core.cycles for core in plan.nodes)
    assert {fifo.edge for fifo in plan.fifos} == {edge.tensor for edge in design.edges() if edge.producer}
    assert all(fifo.live_depth <= fifo.rate_depth for fifo in plan.fifos)
    assert plan.host.head and plan.host.tail[-1].startswith("Softmax")


def test_the_streams_of_the_outside(design):
    image, scores = describe_ports(design)
    assert (image.name, image.direction, image.shape) == ("image_int8", "input", (1, 1, 8, 8))
    assert image.lanes * image.beats_per_frame >= 64
    assert (scores.name, scores.direction, scores.dtype, scores.layout) == ("scores_int8", "output", "i8", "0,1")
    assert len(scores.scale) == len(scores.zero_point) == 1


def test_products_that_accumulate_nothing_are_no_mac_multipliers():
    """They take hardware multipliers, which stand beside their core and in the total of what the chip needs."""
    image = Tensor((2, 2, 4), Int(8))
    product = alone(Multiply(image, image), (2, 2), 3)
    plan = sections.describe_plan(product, ScheduleRequest())
    assert (plan.lanes, plan.multipliers.dsp, plan.multipliers.lut, plan.mac_efficiency) == (0, 0, 0, 0)
    assert [core.dsp for core in plan.nodes] == [product.resources().dsp] == [2]
    sums = alone(MatMul(image, np.ones((3, 4), np.int64)), (2, 3), 3)
    assert (
        sections.describe_plan(sums, ScheduleRequest()).multipliers.dsp
        == sections.describe_plan(sums, ScheduleRequest()).lanes
        == 6
    )
