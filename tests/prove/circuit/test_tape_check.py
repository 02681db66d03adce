"""Tapes read back: those that are right, and those of writers that are broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnx_hw.assemble import tape_file
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.elaborate import tape_contents
from onnx_hw.assemble.tape_file import TAPE_FILE, tape_image, write_tape
from onnx_hw.commands.weights_outside import write_checked_tape
from onnx_hw.ir.design import Design
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.ops.tape import Tape
from onnx_hw.ops.tape import packed_words as pack
from onnx_hw.prove.circuit.tape_check import check_tape
from onnx_hw.report.collect import sections
from onnx_hw.report.model import Report
from onnx_hw.report.recorder import Recorder
from onnx_hw.runtime.build_folder import BuildFolder, opened
from onnx_hw.runtime.progress import Silent
from onnx_hw.schedule import write_tape as writer
from onnx_hw_link.flash_tape import CRC_BYTES, DIGEST_BYTES
from onnx_hw_link.flash_tape import tape_image as flash_image
from support.taped_designs import FAST_FLASH, SMALL_SDRAM, perceptron

LAYERS = ((12, 9, 8, 5), ((4, 3), (3, 2), (2, 1)))


def written(layers: tuple[tuple[int, ...], tuple[tuple[int, int], ...]] = LAYERS) -> Design:
    return writer.write_tape(perceptron(*layers, flash=FAST_FLASH))


@pytest.mark.parametrize(
    "layers", [LAYERS, ((7, 5), ((3, 2),)), ((6, 8, 8), ((2, 1), (1, 4))), ((5, 3, 2), ((5, 3), (3, 2)))]
)
def test_a_tape_has_the_weights_of_its_network(
    layers: tuple[tuple[int, ...], tuple[tuple[int, int], ...]], tmp_path: Path
) -> None:
    design = written(layers)
    write_tape(tmp_path, design)
    check = check_tape(tmp_path / TAPE_FILE, design)
    assert (check.wrong, check.difference) == (0, "")
    assert check.weights == sum(a * b for a, b in zip(layers[0], layers[0][1:], strict=False))
    assert check.size == (tmp_path / TAPE_FILE).stat().st_size


def swapped_words(tape: Tape, contents: bytes) -> bytes:
    """Exchange the first two words of the first core."""
    size = tape.ports[0].word_bytes
    return contents[size : 2 * size] + contents[:size] + contents[2 * size :]


def another_weight(tape: Tape, contents: bytes) -> bytes:
    return bytes([contents[0] ^ 1]) + contents[1:]


def highest_bit_first(tape: Tape, contents: bytes) -> bytes:
    return bytes(int(f"{byte:08b}"[::-1], 2) for byte in contents)


def a_byte_too_late(tape: Tape, contents: bytes) -> bytes:
    return b"\0" + contents[:-1]


@pytest.mark.parametrize("broken", [swapped_words, another_weight, highest_bit_first, a_byte_too_late])
def test_a_writer_that_is_broken_is_seen(
    broken: Callable[[Tape, bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digest and its CRC are right: only the weights are not those of the network."""
    design = written()
    monkeypatch.setattr(
        tape_file, "tape_image", lambda design: design.tape.image(broken(design.tape, tape_contents(design)))
    )
    write_tape(tmp_path, design)
    check = check_tape(tmp_path / TAPE_FILE, design)
    assert check.wrong and check.difference.startswith("`product")
    assert " on the tape, and " in check.difference


def test_lanes_in_another_order_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The packing itself is broken, which the circuit's own simulation takes its words from, too."""
    design = written()
    monkeypatch.setattr("onnx_hw.ops.tape.packed_words", lambda lanes, bits: pack(lanes[:, ::-1], bits))
    write_tape(tmp_path, design)
    assert check_tape(tmp_path / TAPE_FILE, design).wrong


def test_runs_in_another_order_are_seen(tmp_path: Path) -> None:
    """The tape is that of another table of runs."""
    design = written()
    assert design.tape is not None
    turned = replace(design.tape, runs=(*design.tape.runs[1:], design.tape.runs[0]))
    write_tape(tmp_path, replace(design, tape=turned))
    check = check_tape(tmp_path / TAPE_FILE, design)
    assert check.difference == "the digest in front is not that of the weights and their order"
    assert check.wrong > 10


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda image: image[:-32], "the file has"),
        (lambda image: image[:-1] + bytes([image[-1] ^ 1]), "the CRC at the end"),
        (lambda image: bytes([image[0] ^ 128]) + image[1:], "the CRC at the end"),
    ],
)
def test_damaged_files_are_seen(damage: Callable[[bytes], bytes], said: str, tmp_path: Path) -> None:
    design = written()
    (tmp_path / TAPE_FILE).write_bytes(damage(tape_image(design)))
    check = check_tape(tmp_path / TAPE_FILE, design)
    assert check.wrong and check.difference.startswith(said)


def test_a_build_ends_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    design = written()
    recorder = Recorder(
        Silent(), Report(sections.empty_model(Path("m.onnx")), sections.describe_board(find_board("ulx3s")))
    )
    with opened(tmp_path / "out") as folder:
        assert isinstance(folder, BuildFolder)
        write_checked_tape(folder, recorder, design)
        assert recorder.report.files["tape"] == TAPE_FILE and len(recorder.report.tape_sha256) == 64
        weights = design.taped_beats()
        assert np.any(weights["product0 (weights)"][0] != weights["product0 (weights)"][1])
        broken = lambda design: design.tape.image(swapped_words(design.tape, tape_contents(design)))  # noqa: E731
        monkeypatch.setattr(tape_file, "tape_image", broken)
        with pytest.raises(
            UserError, match=r"must be those of the network; `product0`: weight \[0, 0, 0\] is"
        ) as raised:
            write_checked_tape(folder, recorder, design)
    assert raised.value.exit_code is ExitCode.MISMATCH


def in_sdram(word_bytes: int) -> Design:
    return writer.write_tape(perceptron(*LAYERS, sdram=replace(SMALL_SDRAM, word_bytes=word_bytes)))


@pytest.mark.parametrize("word_bytes", [2, 4])
def test_a_tape_for_an_sdram_has_the_weights_of_its_network(word_bytes: int, tmp_path: Path) -> None:
    design = in_sdram(word_bytes)
    write_tape(tmp_path, design)
    check = check_tape(tmp_path / TAPE_FILE, design)
    assert (check.wrong, check.difference, check.weights) == (0, "", 12 * 9 + 9 * 8 + 8 * 5)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (3, "the check sum behind the rows of the SDRAM is not that of their words"),
        (-1, "there must be zeros behind the rows of the SDRAM"),
    ],
)
def test_damaged_rows_of_an_sdram_are_seen(place: int, said: str, tmp_path: Path) -> None:
    """The CRC of the flash is right: only what the SDRAM gets is not. A byte of the check sum, and one behind it."""
    design = in_sdram(2)
    assert design.tape is not None and design.sdram is not None
    contents = bytearray(tape_image(design)[DIGEST_BYTES:-CRC_BYTES])
    contents[design.tape.size + place if place > 0 else place] ^= 1
    image = flash_image(tape_image(design)[:DIGEST_BYTES], bytes(contents))
    (tmp_path / TAPE_FILE).write_bytes(image)
    check = check_tape(tmp_path / TAPE_FILE, design)
    assert (check.wrong, check.difference) == (1, said)
