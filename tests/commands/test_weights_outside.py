"""Build of a network whose weights come from the flash of a board."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import onnx
import onnx_hw
from onnx import TensorProto, helper, numpy_helper
from onnx_hw.assemble.design_file import read_design
from onnx_hw.assemble.elaborate import tape_contents
from onnx_hw.assemble.netlist import netlist_of
from onnx_hw.commands.stage_messages import bitstream_warning, netlist_warning, schedule_fact
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from onnx_hw.prove.circuit.gate_level import NotSimulated
from onnx_hw.report.collect.sections import describe_plan
from onnx_hw.report.core_table import core_table
from onnx_hw.runtime.schedule_request import ScheduleRequest

SIZES = (16, 24, 12, 4)
SAMPLES = np.random.default_rng(1).normal(size=(12, 1, SIZES[0])).astype(np.float32)


def perceptron_model() -> onnx.ModelProto:
    """Return x[1,16] → Gemm, Relu → Gemm, Relu → Gemm → y[1,4], with random floats."""
    random, nodes, constants, tensor = np.random.default_rng(0), [], [], "x"
    for k, (inputs, outputs) in enumerate(pairwise(SIZES)):
        last = k == len(SIZES) - 2
        matrix = (random.normal(size=(inputs, outputs)) / np.sqrt(inputs)).astype(np.float32)
        constants += [numpy_helper.from_array(matrix, f"w{k}")]
        constants += [numpy_helper.from_array(random.normal(size=outputs).astype(np.float32) / 9, f"b{k}")]
        nodes.append(helper.make_node("Gemm", [tensor, f"w{k}", f"b{k}"], ["y" if last else f"s{k}"], f"dense{k}"))
        if not last:
            nodes.append(helper.make_node("Relu", [f"s{k}"], [tensor := f"h{k}"], f"relu{k}"))
    graph = helper.make_graph(
        nodes,
        "perceptron",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, SIZES[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, SIZES[-1]])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> onnx_hw.Build:
    return onnx_hw.build(
        perceptron_model(),
        board="ulx3s",
        calibration=SAMPLES,
        memory="flash",
        stop_after="simulate",
        witness=False,
        out=tmp_path_factory.mktemp("taped"),
    )


def test_every_value_and_every_firing_agrees(built: onnx_hw.Build) -> None:
    """The flash and its reader are simulated with the circuit."""
    simulation = built.report.simulation
    assert simulation is not None and (simulation.mismatches, simulation.firing_mismatches) == (0, 0)
    assert simulation.values_compared > 1000 and simulation.firings_compared > 10_000


def test_the_interval_is_a_pass_of_the_flash(built: onnx_hw.Build) -> None:
    design = read_design(built.folder).design
    assert design.tape is not None and design.flash is not None
    assert design.interval == design.flash.pass_cycles(design.tape.size) == built.report.design.interval_cycles  # type: ignore[union-attr]
    assert design.tape.used_bytes == sum(a * b for a, b in pairwise(SIZES))


def test_the_schedule_says_what_the_memory_takes(built: onnx_hw.Build) -> None:
    design = read_design(built.folder).design
    said = schedule_fact(describe_plan(design, ScheduleRequest()), design, "", "")
    assert said.endswith("; the memory sets the pace; memory: 3 layers, 0.7 kB × 19,531.2/s = 14.06 of 15.00 MB/s")


def test_no_core_is_marked_where_the_flash_sets_the_pace(built: onnx_hw.Build) -> None:
    planned = built.report.design
    assert planned is not None and planned.memory_cycles == planned.interval_cycles
    assert planned.pacing_core is None and not any(row.is_bottleneck for row in core_table(planned).rows)
    alone = replace(planned, memory_cycles=0)
    assert alone.pacing_core is alone.bottleneck and any(row.is_bottleneck for row in core_table(alone).rows)


def test_the_netlist_reads_the_flash_of_the_board(built: onnx_hw.Build) -> None:
    netlist = netlist_of(read_design(built.folder).design)
    assert "USRMCLK" in netlist.rtlil, "the only way to the clock of an ECP5's flash"
    for pad, pin in {"cs": "R2", "copi": "W2", "cipo": "V2", "wp": "Y2", "hold": "W1"}.items():
        assert f'LOCATE COMP "spi_flash_0__{pad}__io" SITE "{pin}";' in netlist.constraints


def test_the_tape_holds_the_weights_of_golden(built: onnx_hw.Build) -> None:
    """Read back byte by byte: each layer's weights lie in its groups, row after row."""
    design = read_design(built.folder).design
    assert design.tape is not None
    contents, at = tape_contents(design), 0
    seen: dict[int, list[int]] = {}
    for which, groups in design.tape.runs:
        port = design.tape.ports[which]
        count = groups * port.group_words * port.word_bytes
        seen.setdefault(which, []).extend(contents[at : at + count])
        at += count
    for which, port in enumerate(design.tape.ports):
        matrix = design.network.node(port.node).operator.constants  # type: ignore[attr-defined]
        assert port.word_bytes == 1, "one lane"
        np.testing.assert_array_equal(np.array(seen[which], np.uint8).astype(np.int8).reshape(matrix.shape), matrix)


def test_an_open_link_has_a_hint_that_helps() -> None:
    for _, hint in (netlist_warning(NotSimulated("a cell")), bitstream_warning("a cell")):
        assert hint == "please report it with the model"


@pytest.mark.slow
def test_the_whole_chip_computes_as_golden(built: onnx_hw.Build) -> None:
    """Let frames pass the simulated link, with weights from the simulated flash."""
    network = read_design(built.folder).design.network
    result = onnx_hw.infer(built.folder, SAMPLES, port="sim")
    np.testing.assert_array_equal(result["y"], golden.run(network, {"x": SAMPLES})["y"])


@pytest.mark.slow
def test_a_damaged_tape_is_told_in_a_sentence(built: onnx_hw.Build) -> None:
    """What the simulated flash holds is the file: with one bit flipped no result comes."""
    file = built.folder / "weights.tape"
    tape = file.read_bytes()
    try:
        file.write_bytes(tape[:99] + bytes([tape[99] ^ 16]) + tape[100:])
        with pytest.raises(UserError, match="its flash holds damaged weights, or those of another build: write them"):
            onnx_hw.infer(built.folder, SAMPLES, port="sim")
    finally:
        file.write_bytes(tape)


def test_a_board_without_a_known_flash_is_refused() -> None:
    with pytest.raises(UserError, match="`icebreaker` has none that onnx-hw knows"):
        onnx_hw.build(
            perceptron_model(),
            board="icebreaker",
            calibration=SAMPLES,
            memory="flash",
            witness=False,
            stop_after="schedule",  # the programs for an iCE40 need not be there
        )


def test_weights_are_loadable_or_outside() -> None:
    with pytest.raises(UserError, match="not both"):
        onnx_hw.build(perceptron_model(), board="ulx3s", calibration=SAMPLES, memory="auto", weights="loadable")


@pytest.fixture(scope="module")
def from_sdram(tmp_path_factory: pytest.TempPathFactory) -> onnx_hw.Build:
    return onnx_hw.build(
        perceptron_model(),
        board="ulx3s",
        calibration=SAMPLES,
        memory="sdram",
        clock_mhz=100,
        stop_after="simulate",
        witness=False,
        out=tmp_path_factory.mktemp("sdram"),
    )


def test_every_firing_agrees_where_an_sdram_holds_the_weights(from_sdram: onnx_hw.Build) -> None:
    """The SDRAM and the flash that fills it are simulated with the circuit; the rate is what the law says."""
    simulation, design = from_sdram.report.simulation, read_design(from_sdram.folder).design
    assert simulation is not None and (simulation.mismatches, simulation.firing_mismatches) == (0, 0)
    assert simulation.values_compared > 1000 and simulation.firings_compared > 10_000
    assert design.tape is not None and design.sdram is not None and design.flash is None
    assert design.interval == simulation.interval_cycles == design.sdram.pass_cycles(design.tape.size)
    said = schedule_fact(describe_plan(design, ScheduleRequest()), design, "", "")
    assert "the memory sets the pace; memory: 3 layers, 1.4 kB" in said and said.endswith("of 200.00 MB/s")


def test_the_netlist_has_the_pins_of_the_sdram(from_sdram: onnx_hw.Build) -> None:
    netlist = netlist_of(read_design(from_sdram.folder).design)
    assert "USRMCLK" in netlist.rtlil and "ODDRX1F" in netlist.rtlil
    pads = {"clk__io": "F19", "ras__io": "R20", "dq__io[15]": "J17", "a__io[12]": "G19", "ba__io[1]": "N20"}
    for pad, pin in pads.items():
        assert f'LOCATE COMP "sdram_0__{pad}" SITE "{pin}";' in netlist.constraints


@pytest.mark.slow
def test_a_whole_chip_with_an_sdram_computes_as_golden(from_sdram: onnx_hw.Build) -> None:
    network = read_design(from_sdram.folder).design.network
    result = onnx_hw.infer(from_sdram.folder, SAMPLES, port="sim")
    np.testing.assert_array_equal(result["y"], golden.run(network, {"x": SAMPLES})["y"])
