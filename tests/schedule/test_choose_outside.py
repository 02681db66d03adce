"""Choice of the weights that lie outside the chip, and designs for a board with a flash."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import onnx_hw_boards
from onnx_hw.assemble.netlist import netlist_of
from onnx_hw.commands.weights_outside import with_weights_outside
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.tensor import Tensor
from onnx_hw.runtime.options import MemoryChoice
from onnx_hw.runtime.schedule_request import ScheduleRequest, WeightPlace
from onnx_hw.schedule import schedule_for_board as schedule_for_board_module
from onnx_hw.schedule.choose_outside import all_outside, put_outside, put_outside_what_does_not_fit
from onnx_hw.schedule.link_bandwidth import most_frames_a_second
from onnx_hw.schedule.schedule_for_board import most_frames_from_memory, schedule_for_board
from onnx_hw_boards.memory import WeightMemory
from support.taped_designs import perceptron

ULX3S = onnx_hw_boards.board("ulx3s")


def network_of(*sizes: int) -> Network:
    return perceptron(sizes, [(1, 1)] * (len(sizes) - 1), taped=False).network


def outside(network: Network) -> list[str]:
    return [node.name for node in network.nodes if node.operator.taped_bits]


def test_named_nodes_are_put_outside() -> None:
    network = network_of(8, 16, 32, 4)
    assert all_outside(network) == {"product0": 1, "product1": 1, "product2": 1}
    assert outside(put_outside(network, {"product1": 1})) == ["product1"]


def test_a_weight_that_is_used_several_times_a_frame_comes_once_a_tile() -> None:
    product = network_of(8, 4).nodes[0].operator
    assert isinstance(product, MatMul) and product.tape_tiles() == (1,)
    row = replace(product, operand=Tensor((1, 6, 8), product.operand.dtype))
    assert row.tape_tiles() == (1, 2, 3, 6)
    assert [tiled.taped_bits // row.taped_size for t in (1, 2, 3, 6) if (tiled := row.on_tape(t))] == [6, 3, 2, 1]


def test_auto_puts_nothing_outside_that_fits() -> None:
    network = network_of(64, 32, 16)
    assert put_outside_what_does_not_fit(ULX3S, network, ScheduleRequest()) is not None
    assert outside(put_outside_what_does_not_fit(ULX3S, network, ScheduleRequest())) == []


def test_a_network_that_fits_has_no_trace_of_a_tape() -> None:
    """With --memory auto its circuit is the same text as without, and nothing in it deals or reads words."""

    def circuit(network: Network, request: ScheduleRequest) -> str:
        return netlist_of(schedule_for_board(ULX3S, network, replace(request, fps=1000))[0]).rtlil

    network, choice = network_of(8, 16, 4), MemoryChoice.AUTO
    alone = circuit(network, ScheduleRequest())
    assert circuit(*with_weights_outside(choice, ULX3S, network, ScheduleRequest(), lambda _: None)) == alone
    traces = re.compile("deal|flash|sdram|tape")
    assert not traces.search(alone)
    assert traces.search(circuit(put_outside(network, all_outside(network)), ScheduleRequest()))


def test_auto_puts_outside_what_brings_the_least_traffic() -> None:
    """The smaller one of two layers that are too large together."""
    network = network_of(1024, 320, 768, 16)
    assert outside(put_outside_what_does_not_fit(ULX3S, network, ScheduleRequest())) == ["product1"]


def test_few_designs_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the network as it is, one to see what is left, and the one that is chosen, of 2^5 choices."""
    calls = []

    def counted(name: str) -> None:
        function = getattr(schedule_for_board_module, name)

        def called(*arguments: object, **named: object) -> object:
            calls.append(name)
            return function(*arguments, **named)

        monkeypatch.setattr(schedule_for_board_module, name, called)

    for name in ("has_slow_design", "fold_for"):
        counted(name)
    network = network_of(512, 512, 512, 384, 512, 16)
    assert outside(put_outside_what_does_not_fit(ULX3S, network, ScheduleRequest()))
    assert calls in (["fold_for", "has_slow_design"], ["has_slow_design", "fold_for", "has_slow_design"])


def test_a_design_is_no_wider_than_its_memory_is_fast() -> None:
    network = put_outside(network_of(256, 128, 64), {"product0": 1, "product1": 1})
    design, _ = schedule_for_board(ULX3S, network)
    assert design.tape is not None and design.flash == ULX3S.memory.timing(design.clock_mhz)  # type: ignore[union-attr]
    rate = most_frames_from_memory(ULX3S, network, design.clock_mhz, WeightPlace.FLASH)
    assert design.frames_per_second == rate, "the flash is what is slowest, whole bytes and no gaps"
    assert design.resources().mac_lanes <= 4, "a lane takes a byte a cycle, the flash brings one in four or more"


def test_more_than_the_memory_holds_is_refused() -> None:
    network = put_outside(network_of(256, 128, 64), {"product0": 1})
    taken = 16 + (256 * 128 + 4 + 31) // 32 * 32  # the digest, and rows that end with the CRC
    memory = ULX3S.memory
    assert memory is not None
    just, less = (replace(ULX3S, memory=replace(memory, bytes=memory.offset + taken - k)) for k in (0, 1))
    assert schedule_for_board(just, network)[0].tape is not None
    with pytest.raises(UserError, match=f"need {taken:,} bytes of the {taken - 1:,} that the flash") as refused:
        schedule_for_board(less, network)
    assert refused.value.exit_code is ExitCode.DOES_NOT_FIT


def test_timings_of_the_memory() -> None:
    """Data come at half the clock, or slower where the pads and the flash take longer than a period."""
    memory = WeightMemory(bytes=1 << 24, offset=1 << 20)
    assert [memory.timing(mhz).half_period for mhz in (25, 100, 120, 250)] == [1, 1, 2, 4]
    assert memory.peak_bytes_a_second(100) == 25e6 and memory.room() == 15 << 20


def test_a_design_is_as_wide_as_an_sdram_is_fast() -> None:
    network = put_outside(network_of(256, 128, 64), {"product0": 1, "product1": 1})
    request = ScheduleRequest(memory=WeightPlace.SDRAM, clock_mhz=100)
    design, _ = schedule_for_board(ULX3S, network, request)
    assert ULX3S.sdram is not None and design.flash is None
    assert design.tape is not None and design.sdram == ULX3S.sdram.timing(100)
    rate = most_frames_from_memory(ULX3S, network, 100, WeightPlace.SDRAM)
    assert rate > 5 * most_frames_from_memory(ULX3S, network, 100, WeightPlace.FLASH)
    assert design.frames_per_second >= most_frames_a_second_of(design, network)


def most_frames_a_second_of(design: Design, network: Network) -> float:
    """Return what the link of the board allows, or the memory."""
    return min(
        most_frames_a_second(network, ULX3S.link),  # type: ignore[attr-defined]
        most_frames_from_memory(ULX3S, network, design.clock_mhz, WeightPlace.SDRAM),
    )


def test_the_clock_of_an_sdram_has_a_limit() -> None:
    network = put_outside(network_of(256, 128, 64), {"product0": 1})
    with pytest.raises(UserError, match="133 MHz or less, not 150 MHz: the SDRAM of `ulx3s` has the clock of the chip"):
        schedule_for_board(ULX3S, network, ScheduleRequest(memory=WeightPlace.SDRAM, clock_mhz=150))


@pytest.mark.parametrize(
    ("choice", "fps", "memory"),
    [
        ("flash", None, WeightPlace.FLASH),
        ("sdram", None, WeightPlace.SDRAM),
        ("auto", None, WeightPlace.SDRAM),
        ("auto", 10, WeightPlace.FLASH),
        ("auto", 400, WeightPlace.SDRAM),
    ],
)
def test_auto_takes_the_flash_where_it_is_quick_enough(choice: str, fps: float | None, memory: WeightPlace) -> None:
    request = ScheduleRequest(fps=fps)
    network, chosen = with_weights_outside(
        MemoryChoice(choice), ULX3S, network_of(1024, 320, 768, 16), request, lambda _: None
    )
    assert chosen == replace(request, memory=memory) and outside(network)


def test_auto_takes_the_flash_of_a_board_without_an_sdram() -> None:
    board = replace(ULX3S, sdram=None)
    network = network_of(1024, 320, 768, 16)
    assert (
        with_weights_outside(MemoryChoice.AUTO, board, network, ScheduleRequest(), lambda _: None)[1].memory == "flash"
    )
    with pytest.raises(UserError, match="weights must come from an SDRAM; `ulx3s` has none that onnx-hw knows"):
        with_weights_outside(MemoryChoice.SDRAM, board, network, ScheduleRequest(), lambda _: None)
