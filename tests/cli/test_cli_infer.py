"""``onnx-hw infer``: a build behind a simulated port, compared with golden; and what it says where that cannot be."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
import tty
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serial import Serial

from onnx_hw import flow
from onnx_hw.assemble.host_link import link_of
from onnx_hw.assemble.host_model_file import host_model
from onnx_hw_link.host_model import HostModel
from onnx_hw_link.link import FromChip, FromHost
from onnx_hw_link.packets import mirrored_cobs, uncobs, with_crc, without_crc
from support.cli_runner import call
from support.fixture_paths import EXAMPLES
from support.small_model import small_model

DIGITS = EXAMPLES / "digits"


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Three images with their labels."""
    with np.load(DIGITS / "digits_test.npz") as stored:
        np.savez(tmp_path / "x.npz", image=stored["image"][:3], labels=stored["labels"][:3])
    return tmp_path / "x.npz"


@pytest.mark.slow
@pytest.mark.parametrize("board", ["icebreaker", "icebreaker_spi"])
def test_digits_through_the_pins(board: str, inputs: Path, tmp_path: Path) -> None:
    out, results = tmp_path / "out", tmp_path / "y.npz"
    model = DIGITS / "digits.onnx"
    done = call("build", model, "--board", board, "--stop-after", "assemble", "--out", out)
    assert done.exit_code == 0, done.output
    done = call("infer", out, "--inputs", inputs, "--port", "sim", "--check", "--out", results)
    assert done.exit_code == 0, done.output
    assert "3 frames, each equal to golden" in done.output and "port: simulated" in done.output
    assert "accuracy: 100.00% of 3 samples" in done.output
    done = call("infer", out, "--self-test", "--port", "sim")
    assert done.exit_code == 0, done.output
    assert "PASS: 40 of 40 frames as golden" in done.output and "cycles for a frame alone, as predicted" in done.output
    assert f"digits on {board}, design" in done.output
    with np.load(results) as written:
        assert written["probabilities"].shape == (3, 1, 10)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the ``model.json`` of a build."""
    design = flow.schedule(flow.quantize(flow.read(DIGITS / "digits.onnx")), multipliers=3)
    folder = tmp_path_factory.mktemp("built")
    (folder / "model.json").write_text(host_model(design, link_of(design, 24), 10**6))
    return folder


def test_no_board(built: Path, inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx_hw_link.transport.SerialTransport.ports", lambda transport: [])
    for port, said in (
        ("/dev/nowhere", "the port /dev/nowhere must be there and free"),
        ("auto", "this machine has none: name it with --port"),
    ):
        done = call("infer", built, "--inputs", inputs, "--port", port)
        assert done.exit_code == 3
        assert said in " ".join(done.output.split())
        assert "`--port sim` simulates the whole chip" in done.output


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOENT, "nothing is there: is the board connected?"),
        (errno.EACCES, "this user may not open it; those of its group may, which on Linux is mostly `dialout`"),
        (errno.EIO, "could not open port"),
    ],
)
def test_a_port_that_the_system_does_not_open(
    number: int, said: str, built: Path, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, opened = "/dev/ttyUSB7", os.open

    def opens(path: str, *more: Any) -> int:
        if path == port:
            raise OSError(number, "not opened")
        return opened(path, *more)

    monkeypatch.setattr(os, "open", opens)
    done = call("infer", built, "--inputs", inputs, "--port", port)
    assert done.exit_code == 3
    assert said in " ".join(done.output.split())


def test_no_build_and_another_format(inputs: Path, tmp_path: Path) -> None:
    done = call("infer", tmp_path, "--inputs", inputs)
    assert done.exit_code == 1
    assert "error[no-build]: the folder must be that of a build" in done.output
    for described, said in (
        (
            {"format": 1, "protocol": 1},
            "must be of format 2, not 1: build the model again with this version of onnx-hw",
        ),
        ({"format": 3}, "must be of format 2, not 3: use the onnx-hw that wrote it"),
        ({"format": 2, "protocol": 1}, "with version 2 of the protocol, not 1: build the model again"),
    ):
        (tmp_path / "model.json").write_text(json.dumps(described))
        done = call("infer", tmp_path, "--inputs", inputs)
        assert done.exit_code == 3 and said in " ".join(done.output.split())
    done = call("infer", tmp_path / "report.json", "--inputs", inputs)
    assert "error[no-build]" in done.output


def test_a_build_that_was_begun_again(built: Path, inputs: Path, tmp_path: Path) -> None:
    """What the board holds is of the earlier build, and the design of the later one: they are not compared."""
    out = tmp_path / "out"
    again = call("build", small_model(tmp_path / "small.onnx"), "--board", "icebreaker", "--out", out, *SCHEDULE)
    assert again.exit_code == 0, again.output
    (out / "model.json").write_bytes((built / "model.json").read_bytes())
    told = "infer", out, "--inputs", inputs, "--port", "/dev/nowhere"
    for more, code, said in (((), 3, "nothing is there"), (("--check",), 1, "must have come to a netlist")):
        done = call(*told, *more)
        assert done.exit_code == code and said in " ".join(done.output.split()), done.output


def test_a_silent_board_is_reported_before_the_design_is_read(built: Path, inputs: Path, tmp_path: Path) -> None:
    """What a comparison needs takes a while to read, and is of no use without an answer."""
    out = tmp_path / "out"
    assert call("build", small_model(tmp_path / "small.onnx"), "--out", out, *SCHEDULE).exit_code == 0
    report = json.loads((out / "report.json").read_text())
    (out / "report.json").write_text(json.dumps({**report, "files": {**report["files"], "model": "model.json"}}))
    (out / "model.json").write_bytes((built / "model.json").read_bytes())
    (out / "design.npz").write_bytes(b"damaged")
    done = call("infer", out, "--inputs", inputs, "--port", "/dev/nowhere", "--check")
    assert done.exit_code == 3 and "nothing is there" in " ".join(done.output.split()), done.output


SCHEDULE = ("--stop-after", "schedule", "--multipliers", "2")


@pytest.mark.parametrize(
    ("board", "until", "said"),
    [
        ("ecp5", "schedule", "the build must be for a board with a serial port; `ecp5` has none"),
        ("verilog_axi_stream", "schedule", "with a serial port; `verilog_axi_stream` has none"),
        ("icebreaker", "quantize", "the build must have come to a netlist"),
    ],
)
def test_a_build_without_a_serial_port(board: str, until: str, said: str, tmp_path: Path) -> None:
    """The samples are not even looked for."""
    model, out = small_model(tmp_path / "small.onnx"), tmp_path / "out"
    done = call("build", model, "--board", board, "--stop-after", until, "--out", out)
    assert done.exit_code == 0, done.output
    for port in ("auto", "sim"):
        done = call("infer", out, "--inputs", tmp_path / "none.npz", "--port", port)
        assert done.exit_code == 1
        assert said in " ".join(done.output.split())


def test_a_build_behind_spi(built: Path, tmp_path: Path) -> None:
    """It has no baud of its own: a controller drives the clock."""
    data = json.loads((built / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps({**data, "baud": 0}))
    for port in ("auto", "sim"):
        done = call("infer", tmp_path, "--inputs", tmp_path / "none.npz", "--port", port)
        assert done.exit_code == 1
        assert "the build must be for a board with a link; this one is Verilog behind SPI" in " ".join(
            done.output.split()
        )


class Somebody(threading.Thread):
    """At the other end of a port: answers what comes, as it is told to."""

    def __init__(self, answer: Callable[[bytes], bytes | None]) -> None:
        super().__init__(daemon=True)
        self.answer, (self.master, self.slave) = answer, os.openpty()
        self.open = [self.master, self.slave]
        tty.setraw(self.slave)
        self.port = os.ttyname(self.slave)
        self.start()

    def run(self) -> None:
        came = b""
        while (data := self._heard()) is not None:
            *packets, came = (came + data).split(b"\0")
            for packet in filter(None, packets):
                answer = self.answer(without_crc(uncobs(packet) or b"") or b"")
                if answer is None:
                    self.unplug()
                    return
                with suppress(OSError):  # nobody is there any more
                    os.write(self.master, answer)

    def _heard(self) -> bytes | None:
        try:
            return os.read(self.master, 4096)
        except OSError:
            return None

    def unplug(self) -> None:
        """Close both ends; the thread first comes to its end, or it would read from the next file of this number."""
        if self.open:
            os.close(self.open.pop())
        if threading.current_thread() is not self:
            self.join(10)
        while self.open:
            os.close(self.open.pop())


def greets(greeting: bytes) -> Callable[[bytes], bytes | None]:
    """A chip that says what it is; and then somebody pulls the plug."""

    def answer(packet: bytes) -> bytes | None:
        if packet[0] != FromHost.HELLO:
            return None
        return mirrored_cobs(with_crc(bytes((FromChip.HELLO, 0, packet[1], 0)) + greeting)) + b"\0"

    return answer


SAID = {
    "silence": (
        3,
        "a chip must answer at PORT within 1.5 s; nothing came: is the board connected and powered, and its bitstream "
        "loaded (onnx-hw program)?",
    ),
    "another speed": (
        3,
        "PORT must answer in packets; 9 bytes came, and no packet: is 1,000,000 baud what the chip was built for, and "
        "is it the port of the board?",
    ),
    "another design": (
        1,
        "the chip at PORT must hold the design DIGEST; it holds ffffffffffffffffffffffffffffffff: load the bitstream "
        "of this build (onnx-hw program)",
    ),
    "an older chip": (
        1,
        "the chip at PORT must speak version 2 of the protocol; it speaks version 1: build its bitstream again with "
        "this version of onnx-hw, and load it",
    ),
    "a newer chip": (1, "it speaks version 3: use the version of onnx-hw that built its bitstream"),
    "no weights": (3, "the chip at PORT must be ready for frames; its weights are not loaded"),
    "unplugged": (3, "PORT must stay connected; it went away: "),
    "somebody else": (3, "the port PORT must be there and free; another process uses it"),
}


@pytest.mark.parametrize("what", SAID)
def test_what_is_wrong_with_a_port_is_said_in_a_sentence_and_soon(what: str, built: Path, inputs: Path) -> None:
    link = HostModel.read(built).link
    answers: dict[str, Callable[[bytes], bytes | None]] = {
        "another speed": lambda packet: b"\x80\xf8\0",  # three times, once for each greeting
        "another design": greets(replace(link.greeting, digest=b"\xff" * 16).to_bytes()),
        "an older chip": greets(b"\1" + bytes(32)),
        "a newer chip": greets(b"\3"),
        "no weights": greets(replace(link.greeting, status=2).to_bytes()),
        "unplugged": greets(link.greeting.to_bytes()),
    }
    somebody = Somebody(answers.get(what, lambda packet: b""))
    with Serial(somebody.port, exclusive=True) if what == "somebody else" else nullcontext():
        begun = time.monotonic()
        done = call("infer", built, "--inputs", inputs, "--port", somebody.port)
        seconds = time.monotonic() - begun
    somebody.unplug()
    code, sentence = SAID[what]
    said = " ".join(done.output.split()).replace(somebody.port, "PORT").replace(link.digest.hex(), "DIGEST")
    assert (done.exit_code, sentence in said) == (code, True), said
    assert seconds < 2 + 1.5  # for a machine that is busy
