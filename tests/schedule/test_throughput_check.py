"""The parts of a design, asked one by one, know what the whole does; and few are asked where little has changed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.ir.design import Design
from onnx_hw.schedule.size_fifos import RateByParts
from onnx_hw.timing.frame_times import Frames
from support.random_designs import chains, residuals

SETTLED, FRAMES = 8, 32


def test_as_the_whole_network() -> None:
    slow = fast = 0

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(st.one_of(chains(8, 120), residuals(6, 120)), st.data())
    def every_design(design: Design, data: st.DataObject) -> None:
        nonlocal slow, fast
        made = [edge for edge in design.edges() if edge.producer]
        ample = {edge.tensor: FRAMES * edge.beats + 33 for edge in made}
        likely = st.sampled_from([2, 3, 5, 9, 33, None, None, None])
        deep = {edge.tensor: data.draw(likely) for edge in made}
        depths = {tensor: depth for tensor, depth in deep.items() if depth}
        parts = RateByParts(design, design.schedules(), SETTLED, FRAMES, ample)
        whole = Frames(design).sustains(design.interval, SETTLED, FRAMES, {**ample, **depths})
        assert parts.keeps(design.interval, depths) == whole
        slow, fast = slow + (not whole), fast + whole
        kept: dict[str, int] = {}
        for tensor, depth in depths.items():
            tried = kept | {tensor: depth}
            if parts.keeps(design.interval, tried, [tensor]):
                assert parts.may_keep(design.interval, tried, tensor)
                kept = tried
        assert Frames(design).sustains(design.interval, SETTLED, FRAMES, {**ample, **kept})

    every_design()
    assert slow > 5
    assert fast > 5
