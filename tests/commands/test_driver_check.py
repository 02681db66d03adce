"""Driver and C header on a simulated chip: each fault that no frame shows ends ``infer --check``."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnx_hw
import onnx_hw_sim
from onnx import TensorProto, helper
from onnx_hw.assemble.design_file import read_design
from onnx_hw.commands import c_host
from onnx_hw.commands.c_host import CHostCheck, check_c_host
from onnx_hw.commands.driver_check import require_working_driver
from onnx_hw.commands.simulated_board import simulated_board
from onnx_hw.messages.errors import ExitCode
from onnx_hw.runtime.build_folder import BuildFolder
from onnx_hw.runtime.progress import Silent
from onnx_hw.samples.samples import stack_outputs
from onnx_hw.timing.link_times import BehindALink
from onnx_hw_link import c_header, transport
from onnx_hw_link.chip import Chip
from onnx_hw_link.device import Device
from onnx_hw_link.errors import LinkError
from onnx_hw_link.host_model import HostModel
from onnx_hw_link.spi_transport import SpiTransport
from support.fixture_paths import CHECKOUT
from support.qdq_models import Sketch

FRAMES = np.random.default_rng(4).normal(0, 3, (7, 1, 2, 4, 4)).round(2).astype(np.float32)


def network() -> Any:
    """Return a model whose inputs and results have four bits; the host quantizes to an offset of -2."""
    sketch, draw = Sketch(21), np.random.default_rng(11)
    for name, offset in (("into", -2), ("out", 1)):
        sketch.constants.append(helper.make_tensor(name, TensorProto.INT4, [], [offset]))
    weights = sketch.dequantized(draw.integers(-99, 99, (3, 2, 3, 3), dtype=np.int8), 0.01)
    value = "x"
    for zero, scale in (("into", 0.5), ("out", 0.8)):
        step = sketch.constant(np.float32(scale))
        value = sketch.node("DequantizeLinear", sketch.node("QuantizeLinear", value, step, zero), step, zero)
        value = sketch.node("Conv", value, weights) if zero == "into" else value
    return sketch.model((1, 2, 4, 4), TensorProto.FLOAT, value, 4, TensorProto.FLOAT)


@dataclass(frozen=True)
class AnsweringChip:
    """A simulated chip, and what the driver made of ``FRAMES`` with it."""

    model: HostModel
    port: str
    folder: Path
    outputs: Mapping[str, np.ndarray]
    results: Sequence[bytes]
    latency: int

    def check_driver(self, timeout: float = 60.0) -> None:
        require_working_driver(self.model, self.port, timeout, samples(), self.outputs)

    def check_c(self) -> CHostCheck:
        return check_c_host(self.folder, self.model, samples(), self.results, self.port, self.latency)


def samples() -> list[dict[str, np.ndarray]]:
    return [{"x": frame} for frame in FRAMES]


@pytest.fixture(scope="module")
def answering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnsweringChip]:
    folder = tmp_path_factory.mktemp("build")
    made = onnx_hw.build(network(), board="icebreaker", out=folder, stop_after="assemble", witness=False)
    model, design = HostModel.read(made.folder), read_design(Path(made.folder)).design
    with simulated_board(design, model, BuildFolder(Path(made.folder)), Silent()) as port:
        with Device.of(model, port, timeout=60.0) as device:
            outputs = stack_outputs(list(device.stream(samples())))
        beats, latency = [result.beats for result in device.results], BehindALink(design, model.link).latency
        yield AnsweringChip(model, port, folder / "in_c", outputs, beats, latency)


def test_sound_hosts_pass(answering: AnsweringChip) -> None:
    answering.check_driver()
    assert answering.check_c() == CHostCheck(len(FRAMES))


def test_what_keeps_the_header_from_being_tried_is_said(
    answering: AnsweringChip, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(model: object) -> str:
        raise c_header.NotOurs("C can only scale")

    monkeypatch.setattr(c_host, "c_header", refuse)
    assert answering.check_c() == CHostCheck(obstacle="C can only scale")


def half_rate(patch: pytest.MonkeyPatch) -> None:
    usual = transport.SerialTransport.open
    patch.setattr(
        transport.SerialTransport,
        "open",
        lambda self, port, timeout: usual(transport.SerialTransport(self.baud // 2), port, timeout),
    )


def with_two_stop_bits(patch: pytest.MonkeyPatch) -> None:
    usual = transport.SerialTransport.open

    def opened(self: transport.SerialTransport, port: str, timeout: float) -> Any:
        wire = usual(self, port, timeout)
        wire.stopbits = 2
        return wire

    patch.setattr(transport.SerialTransport, "open", opened)


def any_design(patch: pytest.MonkeyPatch) -> None:
    usual = Chip.__init__
    patch.setattr(Chip, "__init__", lambda self, port, **facts: usual(self, port, **{**facts, "digest": None}))


def the_first_for_all(patch: pytest.MonkeyPatch) -> None:
    usual = Device.run
    patch.setattr(
        Device,
        "run",
        lambda self, arrays: usual(self, {name: np.repeat(x[:1], len(x), 0) for name, x in arrays.items()}),
    )


DRIVER: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], type[Exception], str]] = {
    "half the rate": (half_rate, LinkError, "nothing came|is 6,000,000 baud what"),
    "two stop bits": (with_two_stop_bits, onnx_hw.UserError, "it opens the port with stopbits = 2"),
    "any design is taken": (any_design, onnx_hw.UserError, "it takes the chip with the design"),
    "the first frame for all": (the_first_for_all, onnx_hw.UserError, "of 2 frames in one array"),
}


@pytest.mark.parametrize("fault", DRIVER)
def test_a_fault_of_the_driver_is_named(fault: str, answering: AnsweringChip, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in, kind, named = DRIVER[fault]
    put_in(monkeypatch)
    with pytest.raises(kind, match=named) as caught:
        answering.check_driver(2.0 if kind is LinkError else 60.0)
    assert kind is LinkError or caught.value.exit_code is ExitCode.MISMATCH


C: dict[str, tuple[str, str, str, str]] = {
    "ties away from zero": ("onnx_hw_link_frame.h", "rintf(x / scale)", "roundf(x / scale)", "of frame"),
    "no sign": ("onnx_hw_link_frame.h", "bits < 32 && n", "bits < 2 && n", "integer"),
    "bits that another integer has": ("onnx_hw_link_frame.h", "~(mask << from)", "0", "of frame"),
    "saturation one below": (
        "onnx_hw_link_frame.h",
        "(int32_t)n : high : low",
        "(int32_t)n : high - 1 : low",
        "of frame",
    ),
    "another CRC": ("onnx_hw_link.h", "x << 12", "x << 11", "ends with the status"),
    "times lost": ("onnx_hw_link.h", "= payload[k];\n    }", "= 0;\n    }", "a frame alone takes"),
    "numbers of packets modulo 255": ("onnx_hw_link.h", "l->wanted++;", "l->wanted = 0;", "over a good wire"),
    "never asks again": (
        "onnx_hw_link.h",
        "if (now_ms - l->news > l->patience)",
        "if (0)",
        "over a wire that hits bytes ends with the status",
    ),
}


@pytest.mark.parametrize("fault", C)
def test_a_fault_of_the_c_headers_is_named(
    fault: str, answering: AnsweringChip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, old, new, named = C[fault]
    shutil.copytree(CHECKOUT / "boards" / "onnx_hw_link" / "c", tmp_path / "c")
    text = (tmp_path / "c" / file).read_text()
    assert old in text
    (tmp_path / "c" / file).write_text(text.replace(old, new))
    monkeypatch.setattr(c_host, "HEADERS", (tmp_path / "c", Path(onnx_hw_sim.__file__).parent))
    monkeypatch.setattr(c_host, "TIMEOUT_MS", 2_000)
    with pytest.raises(onnx_hw.UserError, match=named) as caught:
        answering.check_c()
    assert caught.value.problems[0].code == "c-header-differs" and caught.value.exit_code is ExitCode.MISMATCH


@pytest.mark.parametrize(
    ("place", "wrong", "named"),
    [
        ("_table", lambda usual: lambda name, at: usual(name, at[::-1]), "integer"),
        ("_float", lambda usual: lambda number: usual(2 * number), "of frame"),
    ],
)
def test_a_fault_of_what_writes_c_is_named(
    place: str, wrong: Callable[..., Any], named: str, answering: AnsweringChip, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(c_header, place, wrong(getattr(c_header, place)))
    with pytest.raises(onnx_hw.UserError, match=named):
        answering.check_c()


def test_a_controller_in_another_mode_hears_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller of a simulated chip is set up as a real one is."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = f"socket://127.0.0.1:{server.getsockname()[1]}"
        usual = SpiTransport._controlled

        def in_mode_3(self: SpiTransport, spi: Any) -> Any:
            made = usual(self, spi)
            spi.mode = 3
            return made

        monkeypatch.setattr(SpiTransport, "_controlled", in_mode_3)
        wire = SpiTransport(1_000_000).open(port, 1.0)
        wire.write(b"ab")
        assert wire.read(2) == b"\xff\xff"
        wire.close()
