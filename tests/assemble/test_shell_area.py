"""What a board's shell takes is counted in its circuit: parts of known circuits, and shells of drawn streams."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import memory
from amaranth.lib.wiring import Component, In, Out

from onnx_hw.assemble import shell_area
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.elaborate import to_rtlil
from onnx_hw.assemble.netlist import Netlist, shell_of
from onnx_hw.assemble.netlist_demand import GATES, INPUTS, demand_of_netlist
from onnx_hw.assemble.shell_area import cells_of_shell, shell_cells
from onnx_hw.schedule.schedule_for_board import full_budget, target_budget
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.demand import Adder, Demand, Enable, LogicFunction, Memory, Multiplexer, Part, Register
from onnx_hw_boards.families.ecp5.recipes import ECP5
from onnx_hw_boards.families.gowin.recipes import GOWIN
from onnx_hw_boards.families.ice40.recipes import ICE40_UP
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_link.link import Link, LinkPort
from onnx_hw_rtl.link.sender import LinkSender
from support.random_cores import drawn


class Parts(Component):
    """An accumulator that is kept or cleared; one of three signals; a memory; a table."""

    def __init__(self, bits: int, words: int) -> None:
        self.bits, self.words = bits, words
        super().__init__({**dict.fromkeys("abc", In(bits)), "select": In(4), "o": Out(bits), "p": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        total, at = Signal(self.bits), Signal(range(self.words))
        m.submodules.memory = ram = memory.Memory(shape=self.bits, depth=self.words, init=[])
        write, read = ram.write_port(), ram.read_port()
        m.d.comb += [write.addr.eq(at), write.data.eq(self.a), write.en.eq(self.select[0]), read.addr.eq(at)]
        m.d.sync += at.eq(at ^ self.a)
        with m.If(self.select[1]):
            m.d.sync += total.eq(total + self.b)
        with m.Elif(self.select[2]):
            m.d.sync += total.eq(0)
        with m.Switch(self.select[2:]):
            for k, value in enumerate((total, self.c, read.data)):
                with m.Case(k):
                    m.d.comb += self.o.eq(value)
        with m.Switch(self.select):
            for k in range(16):
                with m.Case(k):
                    m.d.comb += self.p.eq(k * k * 7 + k)
        return m


@pytest.mark.parametrize(("bits", "words"), [(5, 32), (12, 100), (16, 512)])
def test_parts_are_found(bits: int, words: int) -> None:
    found = demand_of_netlist(to_rtlil(Parts(bits, words)))
    address = (words - 1).bit_length()

    def of(kind: type[Part]) -> dict[Part, int]:
        return {part: count for part, count in found.all(kind) if ICE40_UP.cost(Demand.of(part)) != Cells()}

    assert of(Memory) == {Memory(bits, words): 1} and of(Adder) == {Adder(bits): 1}
    assert sum(part.bits for part, _ in found.all(Register)) == bits + address
    chosen: list[int] = [part.bits for part in of(Multiplexer)]
    assert sum(chosen) == bits  # what is kept, cleared or looked up is not chosen
    tables = ICE40_UP.cost(found).lut - ICE40_UP.cost(Demand.of(Adder(bits), Multiplexer(3, bits))).lut
    assert 8 <= tables <= 2 * bits + 8  # a table of sixteen words is one look-up table a bit


class Repeated(Component):
    """Registers that take the sum of two words of eight bits where these are alike; sum and comparison are written out
    for each, and the condition of two bits around them.
    """

    def __init__(self, count: int, *, resets: bool) -> None:
        self.count, self.resets = count, resets
        super().__init__({"a": In(8), "b": In(8), "when": In(2), "o": Out(8 * count)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for k in range(self.count):
            held = Signal(8, name=f"held{k}", reset_less=not self.resets)
            with m.If(self.when[0] | (self.a == self.b)), m.If(self.when[1]):
                m.d.sync += held.eq(self.a + self.b)
            m.d.comb += self.o.word_select(k, 8).eq(held)
        return m


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("count", [1, 4])
def test_what_is_written_again_is_there_once(count: int, resets: bool) -> None:
    found = demand_of_netlist(to_rtlil(Repeated(count, resets=resets)))
    assert [number for part, number in found.all(Adder) if part == Adder(8)] == [1]
    assert [(part, number) for part, number in found.all(Enable) if part.inputs] == [(Enable(2, resets), 1)]
    assert sum(part.bits for part, _ in found.all(Register)) == 8 * count
    gates = 15 + 1  # whether eight bits are like eight others, or another bit is set
    assert sum(part.bits for part, _ in found.all(LogicFunction) if part.inputs == INPUTS) == -(-gates // GATES)


def test_what_one_bit_enables_is_no_look_up_table_but_on_ice40() -> None:
    """An iCE40's flip-flops are reset while they are enabled, and no other ones."""
    for inputs, resets, tables in ((0, True, 0), (1, False, 0), (1, True, 1), (2, True, 1), (4, False, 1)):
        demand = Demand.of(Enable(inputs, resets))
        assert ICE40_UP.cost(demand).lut == tables
        assert ECP5.cost(demand).lut == GOWIN.cost(demand).lut == (inputs > 1)


@pytest.mark.parametrize("name", ["icebreaker", "ulx3s", "tang_nano_9k"])
def test_a_shell_grows_with_its_streams(name: str) -> None:
    board = find_board(name)
    clock, narrow, wide = board.default_clock_mhz, (1, 8), (6, 24)

    def link(width: int, bits: int) -> Link:
        return Link(bytes(16), (LinkPort("x", 40, 1, 8),), (LinkPort("y", 30, width, bits),), round(clock * 1e6))

    small, large = (cells_of_shell(link(*stream), board, clock) for stream in (narrow, wide))
    assert (small.bram, large.bram) == (2, 2) and small.dsp == large.dsp == 0
    more = wide[0] * wide[1] - narrow[0] * narrow[1]  # a register holds a beat while it is taken apart
    assert more <= large.ff - small.ff <= more + 16 and large.lut - small.lut >= more
    rtlil = shell_of(link(*wide), board, clock).rtlil
    widths = re.findall(r"cell \$dff .*\n    parameter .WIDTH (\d+)", rtlil)
    assert large.ff == sum(map(int, widths))


def test_the_cells_of_a_shell_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the user's cache, by all that they depend on; not those of another board of the same name."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[str] = []
    shell = shell_of

    def noted(link: Link, board: LinkedBoard, clock: float) -> Netlist:
        made.append(board.name)
        return shell(link, board, clock)

    monkeypatch.setattr(shell_area, "shell_of", noted)
    cells_now = cells_of_shell.__wrapped__
    board = find_board("icebreaker")
    assert isinstance(board, LinkedBoard)
    clock, link = (
        board.default_clock_mhz,
        Link(bytes(16), (LinkPort("x", 40, 1, 8),), (LinkPort("y", 30, 1, 8),), 10**6),
    )
    first = cells_now(link, board, clock)
    assert made == ["icebreaker"] and first.lut > 0
    assert cells_now(link, board, clock) == first and len(made) == 1
    wider = replace(link, outputs=(LinkPort("y", 30, 4, 8),))
    assert cells_now(wider, board, clock) != first and len(made) == 2
    assert cells_now(link, board, 30.0) and len(made) == 3
    assert cells_now(link, replace(board), clock) == first and len(made) == 4
    for file in (tmp_path / "onnx-hw" / "shells").iterdir():
        file.write_text(file.read_text(encoding="utf-8")[:-3], encoding="utf-8")  # a process that came to an end
    assert cells_now(link, board, clock) == first and len(made) == 5
    monkeypatch.setattr(shell_area, "_sources", lambda: "others")
    assert cells_now(link, board, clock) == first and len(made) == 6


def test_what_a_chip_says_of_itself_takes_no_look_up_table() -> None:
    """It stands in the memory of the results, where that has room."""
    sent = LinkPort("x", 40, 1, 8)
    links = (
        Link(bytes(16), (sent,), (LinkPort("y", 1, width, 8),), 10**6) for width in (19, 23)
    )  # of 32 less a trailer's
    free, full = (ICE40_UP.cost(demand_of_netlist(to_rtlil(LinkSender(link)))) for link in links)
    assert free.lut + 8 <= full.lut and free.bram == full.bram == 1


def test_a_network_has_the_rest_of_the_chip() -> None:
    network, board = drawn("window", 1, 0).design.network, find_board("icebreaker")
    shell = shell_cells(network, board, board.default_clock_mhz)
    assert shell.lut > 400 and shell_cells(network, find_board("up5k"), 12.0) == Cells()
    for budget in (target_budget, full_budget):
        some, every = budget(board, None, shell), budget(board, None)
        assert (every.bram - some.bram, every.logic > some.logic) == (2, True)  # type: ignore[operator]
    nothing = full_budget(board, None, board.cells * 2)
    assert (nothing.lut, nothing.ff, nothing.bram, nothing.logic) == (0, 0, 0, 0)
