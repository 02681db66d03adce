"""The command of a build is read by the command line as the options that it was made of."""

from __future__ import annotations

import json
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.messages.errors import user_error
from onnx_hw.report.build_command import build_command
from onnx_hw.report.build_request import flat
from onnx_hw.runtime.options import (
    BuildOptions,
    MemoryChoice,
    OutputKind,
    QuantizeOptions,
    ReadOptions,
    Resize,
    WeightStorage,
)
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.runtime.stage import Stage
from support.cli_runner import Instead, call

PATHS = st.sampled_from([Path("x.npz").absolute(), Path("/data/my samples/x.npz"), Path("a'b").absolute()])
NAMES = st.sampled_from(["a", "conv/out:0", "mit Leerzeichen", "ü"])


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


READING = st.builds(
    ReadOptions,
    dimensions=st.dictionaries(NAMES, st.integers(1, 9), max_size=2),
    cut_at=st.lists(NAMES, max_size=2).map(tuple),
    **dict.fromkeys(("strict", "lenient", "newer"), st.booleans()),
)
QUANTIZING = st.one_of(
    st.builds(
        QuantizeOptions,
        output=optional(st.sampled_from(OutputKind)),
        weights=optional(st.integers(2, 16)),
        data=optional(st.integers(2, 16)),
        precision=optional(PATHS),
    ),
    st.builds(QuantizeOptions, sqnr=st.sampled_from([12.5, 30.0])),
    st.builds(QuantizeOptions, accuracy_loss=st.sampled_from([0.25, 1.0])),
)
STORAGE = st.sampled_from(
    [(WeightStorage.LOADABLE, MemoryChoice.NONE), *((WeightStorage.FIXED, memory) for memory in MemoryChoice)]
)


def with_storage(options: BuildOptions, storage: tuple[WeightStorage, MemoryChoice]) -> BuildOptions:
    weights, memory = storage
    return options.but(weights=weights, memory=memory)


UNSTORED = st.builds(
    BuildOptions,
    model=PATHS,
    board=st.sampled_from(["ecp5", "icebreaker"]),
    out=optional(PATHS),
    inputs=optional(PATHS),
    calibration=optional(PATHS),
    resize=optional(st.sampled_from(Resize)),
    folding=optional(PATHS),
    scheduling=st.builds(
        ScheduleRequest,
        multipliers=optional(st.integers(1, 999)),
        fps=optional(st.sampled_from([0.5, 1234.5, 30.0])),
        clock_mhz=optional(st.sampled_from([24.0, 62.5])),
    ),
    stop_after=st.sampled_from(list(Stage)[list(Stage).index(Stage.SIMULATE) :]),
    witness=st.booleans(),
    gate_level=st.booleans(),
    bitstream_check=st.booleans(),
    seed=st.integers(1, 99),
    store=optional(PATHS),
    waves=st.booleans(),
    reading=READING,
    quantizing=QUANTIZING,
)
OPTIONS = st.builds(with_storage, UNSTORED, STORAGE)


def asked_by(command: str) -> BuildOptions:
    """The options that the command line makes of a command."""

    def stopped(*_: Any) -> Any:
        raise user_error("no-port", "far enough")

    by = Instead(build=stopped)
    done = call(*shlex.split(command)[1:], by=by)
    assert by.asked, done.output
    options: BuildOptions = by.asked[0]
    return options


@given(OPTIONS)
def test_the_command_asks_for_the_same_build(options: BuildOptions) -> None:
    stored = json.loads(json.dumps(flat(options)))  # as report.json has them
    assert flat(asked_by(build_command(stored))) == flat(options)


def test_scales_of_random_numbers_and_fields_that_are_left_out() -> None:
    options = BuildOptions(model=Path("m.onnx"), random_calibration=True, stop_after=Stage.ROUTE)
    assert build_command(flat(options)) == "onnx-hw build m.onnx --stop-after route --random-calibration"
    assert build_command(flat(options), without=("stop_after",)) == "onnx-hw build m.onnx --random-calibration"


def test_every_field_is_drawn_above() -> None:
    """A new option must stand in the command, too."""
    builds = getattr(UNSTORED, "wrapped_strategy", UNSTORED)
    drawn = {*builds.kwargs, "weights", "memory"}
    assert {field.name for field in fields(BuildOptions)} - drawn == {"random_calibration"}


@pytest.mark.parametrize("lacking", ["resize", "quantizing", "waves"])
def test_options_of_an_older_report(lacking: str) -> None:
    options = flat(BuildOptions(model=Path("m.onnx")))
    del options[lacking]
    assert build_command(options) == "onnx-hw build m.onnx"
