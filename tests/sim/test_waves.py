"""A waveform shows the requested window, at the documented times."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnx_hw_sim import stalls
from onnx_hw_sim.circuit import Stimulus
from onnx_hw_sim.compiled import CompiledSimulator
from onnx_hw_sim.decoded_waves import WaveScope, decode
from onnx_hw_sim.waves import CYCLE_NS, write_vcd
from support.simulated_circuits import Adder

ADDER = Adder(lanes=1, bits=8, is_signed=False, depth=2)
STIMULUS = Stimulus(
    tokens={"a": np.arange(60)[:, None], "b": np.full((60, 1), 100)},
    offers={"a": stalls.random_offers(60, 0.6, seed=1), "b": stalls.at_once(60)},
    ready={"sum": stalls.random_ready(200, 0.6, seed=2)},
    expected={"sum": 60},
    cycles=1000,
)


def values_in(vcd: str, signal: str) -> dict[int, int]:
    """Return time -> value of a signal, at every time in the file; 0 where it has no value."""
    key = re.search(rf"\$var wire +\d+ (\S+) {signal}(?: \[\d+:0\])? \$end", vcd)
    assert key is not None, f"{signal} is not in the file"
    value, values = 0, {}
    for moment in vcd.split("$enddefinitions $end")[1].split("\n#")[1:]:
        time, *changes = moment.splitlines()
        for change in changes:
            if change.startswith("b") and change.split()[1] == key[1]:
                value = int(change.split()[0][1:].replace("x", "0"), 2)
            elif change[:1] in ("0", "1") and change[1:] == key[1]:
                value = int(change[0])
        values[int(time)] = value
    return values


def test_the_window_and_nothing_else_is_written(compiled_in: Path, tmp_path: Path) -> None:
    file = tmp_path / "waves.vcd"
    seen = write_vcd(ADDER.circuit(), STIMULUS, file, compiled_in, first=20, last=49)
    assert seen.cycles == 50
    vcd = file.read_text()
    assert re.search(r"\$timescale\s+1ns\s+\$end", vcd)
    clock, payload, valid, ready = (values_in(vcd, s) for s in ("clk", "sum_payload", "sum_valid", "sum_ready"))
    assert min(clock) == 20 * CYCLE_NS
    assert max(clock) == 49 * CYCLE_NS + CYCLE_NS // 2
    assert [clock[t] for t in sorted(clock)] == [0, 1] * 30
    # valid and ready, sampled while the clock is low, make a transfer
    transfers = {t // CYCLE_NS: payload[t] for t in clock if t % CYCLE_NS == 0 and valid[t] and ready[t]}
    sums = zip(seen.cycles_of["sum"].tolist(), seen.tokens["sum"][:, 0].tolist(), strict=True)
    assert transfers == {cycle: value for cycle, value in sums if cycle >= 20}
    assert "word0" in vcd  # inner signals are there under their own names


def test_what_was_decoded_is_what_was_recorded(compiled_in: Path, tmp_path: Path) -> None:
    """Check negative integers, too, and that a token without an expected value has no golden value next to it."""
    circuit, file = Adder(lanes=1, bits=8, is_signed=True, depth=2).circuit(), tmp_path / "waves.vcd"
    stimulus = replace(STIMULUS, tokens={"a": np.arange(-30, 30)[:, None], "b": np.full((60, 1), -7)})
    seen = write_vcd(circuit, stimulus, file, compiled_in, first=0, last=59)
    scopes = [WaveScope("an adder.1", [("add", "add")], [("o", "sum")])]
    sums = seen.tokens["sum"]
    decode(file, seen, scopes, {"sum": sums[:-1] + 1}, cycle_ns=CYCLE_NS, first=10, last=59)
    vcd = file.read_text()
    assert "$scope module an_adder_1 $end" in vcd
    lane, wanted, token = (values_in(vcd, f"o_{kind}") for kind in ("lane0", "golden0", "token"))
    for number, (cycle, value) in enumerate(zip(seen.cycles_of["sum"], sums[:, 0], strict=True)):
        if cycle >= 10:
            at = int(cycle) * CYCLE_NS
            assert (lane[at] - (1 << 64) if lane[at] >> 63 else lane[at]) == value and token[at] == number
            if number + 1 < len(sums):
                assert (wanted[at] - (1 << 64) if wanted[at] >> 63 else wanted[at]) == value + 1
    fires = values_in(vcd, "add_fires")
    assert [t // CYCLE_NS for t in fires if fires[t] and not t % CYCLE_NS] == [c for c in seen.fires["add"] if c >= 10]
    # The circuit's own signals are unchanged.
    assert values_in(vcd, "sum_valid")[int(seen.cycles_of["sum"][0]) * CYCLE_NS] == 1


def test_a_library_without_waveforms_says_so(compiled_in: Path, tmp_path: Path) -> None:
    simulator = CompiledSimulator.build(ADDER.circuit(), compiled_in)
    with pytest.raises(ValueError, match="compiled without waveforms"):
        simulator.run(STIMULUS, wave=tmp_path / "waves.vcd")


def test_a_file_that_cannot_be_written_is_an_error(compiled_in: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_vcd(ADDER.circuit(), STIMULUS, tmp_path / "no" / "waves.vcd", compiled_in, first=0, last=9)
