"""The folding file with FIFO depths: what a build writes may be edited and given back; what cannot be is told."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from onnx_hw.commands.build import Build, build
from onnx_hw.messages.errors import UserError
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.runtime.stage import Stage
from support.fixture_paths import EXAMPLES

DIGITS = EXAMPLES / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Build, str]:
    """A scheduled build and the folding file it wrote."""
    out = tmp_path_factory.mktemp("digits") / "out"
    made = build(
        BuildOptions(model=DIGITS, out=out, stop_after=Stage.SCHEDULE, scheduling=ScheduleRequest(multipliers=40))
    )
    return made, (made.folder / "folding.toml").read_text(encoding="utf-8")


def built_with(text: str, place: Path, **choices: object) -> Build:
    folding = place / "folding.toml"
    folding.write_text(text, encoding="utf-8")
    return build(
        BuildOptions(model=DIGITS, out=place / "out", folding=folding, stop_after=Stage.SCHEDULE).but(**choices)
    )


def depths(made: Build) -> dict[str, int]:
    assert made.report.design is not None
    return {fifo.edge: fifo.depth for fifo in made.report.design.fifos}


def quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def entry(text: str, tensor: str) -> str:
    """The line of one FIFO."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"# {quoted(tensor)} = "))
    return line


def deepest(made: Build) -> str:
    return max(depths(made).items(), key=lambda item: item[1])[0]


def test_every_fifo_is_listed_and_uncommented_it_gives_the_same_design(
    written: tuple[Build, str], tmp_path: Path
) -> None:
    made, text = written
    assert made.report.design is not None
    for fifo in made.report.design.fifos:
        line = f"# {quoted(fifo.edge)} = {fifo.depth}  # live {fifo.live_depth}, rate {fifo.rate_depth}"
        assert entry(text, fifo.edge) == line
    head, tail = text.split("[fifo]\n")
    again = built_with(f"{head}[fifo]\n" + re.sub("^# ", "", tail, flags=re.MULTILINE), tmp_path)
    assert depths(again) == depths(made)
    assert again.report.warnings == made.report.warnings


def test_a_given_depth_is_taken(written: tuple[Build, str], tmp_path: Path) -> None:
    made, text = written
    tensor = deepest(made)
    again = built_with(f"{text}{quoted(tensor)} = 200\n", tmp_path)
    assert depths(again) == {**depths(made), tensor: 200}


def test_a_depth_that_slows_the_circuit_down_is_told(written: tuple[Build, str], tmp_path: Path) -> None:
    made, text = written
    assert made.report.design is not None
    shallow = [fifo for fifo in made.report.design.fifos if fifo.rate_depth > fifo.live_depth]
    given = "".join(f"{quoted(fifo.edge)} = {fifo.live_depth}\n" for fifo in shallow)
    slow = built_with(text + given, tmp_path)
    assert slow.report.design is not None
    cycles, full = slow.report.design.interval_cycles, made.report.design.interval_cycles
    assert cycles > full
    assert any(f"{cycles:,} cycles a frame instead of {full:,}" in warning for warning in slow.report.warnings)
    with pytest.raises(UserError, match="fifo-too-slow") as refused:
        built_with(text + given, tmp_path, fps=made.report.design.clock_mhz * 1e6 / full)
    assert f"`{shallow[0].edge}` holds {shallow[0].live_depth} tokens" in str(refused.value)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('"nothing" = 3', "no FIFO carries a tensor `nothing`"),
        ('"{tensor}" = 0', r'1 token or more, not 0\n  where  .*folding.toml \[fifo\] "'),
        ('"{tensor}" = true', "1 token or more, not True"),
        ('"{tensor}" = "9"', "1 token or more, not '9'"),
        ("[fifos]", "there is no table \\[fifos\\]\n.*\n.*did you mean `fifo`"),
    ],
)
def test_a_wrong_table(written: tuple[Build, str], tmp_path: Path, lines: str, told: str) -> None:
    made, text = written
    with pytest.raises(UserError, match=told):
        built_with(f"{text}{lines.format(tensor=deepest(made))}\n", tmp_path)


def test_fifo_is_a_table(written: tuple[Build, str], tmp_path: Path) -> None:
    _, text = written
    with pytest.raises(UserError, match=r"must be a table \[fifo\]"):
        built_with("fifo = 3\n" + text.replace("[fifo]", ""), tmp_path)


def test_pixels_are_asked_for_here(written: tuple[Build, str], tmp_path: Path) -> None:
    """Two pixels a cycle where the file says so, a regroup behind them; what is impossible is told."""
    made, text = written
    core, asked = "conv1_sums/Conv/window", "in_pixels = 2, out_pixels = 2"
    line = next(line for line in text.splitlines() if line.startswith(f'"{core}"'))
    again = built_with(text.replace(line, line.replace(" }", f", {asked} }}")), tmp_path)
    assert made.report.design is not None and again.report.design is not None
    before, after = ({node.name: node for node in build.report.design.nodes} for build in (made, again))
    assert 2 * after[core].cycles == before[core].cycles
    assert after[core].folding == {**before[core].folding, "in_pixels": 2, "out_pixels": 2}
    assert [after[name].operator for name in after if name not in before] == ["regroup"]
    with pytest.raises(UserError, match=r"in_pixels must divide out_pixels · 1, .*, not 1×\d, 3 to 2 pixels"):
        built_with(text.replace(line, line.replace(" }", ", in_pixels = 3, out_pixels = 2 }")), tmp_path)


def test_products_are_made_of_look_up_tables_where_the_file_says_so(written: tuple[Build, str], tmp_path: Path) -> None:
    """In the design, the report and the file that the build writes; the cycles are the same."""
    made, text = written
    core = "conv1_sums/Conv"
    line = next(line for line in text.splitlines() if line.startswith(f'"{core}"'))
    asked = text.replace(line, line.replace(" }", ', multiplier = "logic" }'))
    again = built_with(asked, tmp_path)
    assert made.report.design is not None and again.report.design is not None
    before, after = ({node.name: node for node in build.report.design.nodes} for build in (made, again))
    assert after[core] == replace(
        before[core],
        dsp=0,
        multiplier="logic",
        lut=before[core].lut + 72 * before[core].lanes,
        ff=after[core].ff,  # a multiplier's registers are its own, those of look-up tables are not
    )
    assert after[core].ff > before[core].ff
    assert all(after[name] == before[name] for name in before if name != core)
    assert again.report.design.multipliers.lut == before[core].lanes
    assert again.report.design.interval_cycles == made.report.design.interval_cycles
    (line,) = (
        line for line in (again.folder / "folding.toml").read_text().splitlines() if line.startswith(f'"{core}"')
    )
    assert 'multiplier = "logic" }' in line


@pytest.mark.parametrize("wrong", ['"lut"', "1", "true", "[]", '""'])
def test_a_kind_of_multiplier_that_there_is_not(written: tuple[Build, str], tmp_path: Path, wrong: str) -> None:
    """Where there are products, it is told what may stand there; elsewhere nothing may."""
    _, text = written
    for core in ("conv1_sums/Conv", "pool1/MaxPool"):
        line = next(line for line in text.splitlines() if line.startswith(f'"{core}"'))
        with pytest.raises(UserError, match=r"error\[folding-entry\]") as refused:
            built_with(text.replace(line, line.replace(" }", f", multiplier = {wrong} }}")), tmp_path)
        form = 'tile = N, multiplier = "hardware" or "logic", blocks = N, not {'
        assert (form in str(refused.value)) == (core == "conv1_sums/Conv")


@pytest.mark.slow
def test_products_of_look_up_tables_are_proven(written: tuple[Build, str], tmp_path: Path) -> None:
    made, text = written
    assert made.report.design is not None
    for core in [node.name for node in made.report.design.nodes if node.dsp]:
        line = next(line for line in text.splitlines() if line.startswith(f'"{core}" '))
        text = text.replace(line, line.replace(" }", ', multiplier = "logic" }'))
    place = tmp_path / "folding.toml"
    place.write_text(text, encoding="utf-8")
    proven = build(BuildOptions(model=DIGITS, out=tmp_path / "out", folding=place, stop_after=Stage.SIMULATE)).report
    assert proven.design is not None and proven.simulation is not None
    assert proven.design.multipliers.dsp == 0 and proven.design.multipliers.lut > 0
    assert proven.simulation.mismatches == proven.simulation.firing_mismatches == 0 < proven.simulation.values_compared
