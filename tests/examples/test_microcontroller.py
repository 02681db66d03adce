"""The C example for microcontrollers: compiled, at the port of a simulated chip."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from onnx_hw.assemble.elaborate import to_rtlil
from onnx_hw_link.c_header import c_header
from onnx_hw_link.greeting import PROTOCOL
from onnx_hw_link.host_model import FORMAT, HostModel
from onnx_hw_link.link import Link, LinkPort
from onnx_hw_rtl.shells.shell import Shell
from onnx_hw_rtl.shells.uart_shell import UartShell
from onnx_hw_sim.pseudo_terminal import PseudoTerminal
from onnx_hw_sim.serial_line import SerialChip
from onnx_hw_tools import tools
from support.c_driver import HEADERS, compile_c
from support.fixture_paths import EXAMPLES
from support.link_bench import Sums, sums

SOURCES = EXAMPLES / "microcontroller"
LINK = Link(bytes(range(16)), (LinkPort("e0", 64, 1, 8),), (LinkPort("e1", 10, 1, 8),), 10**6)
"""The sizes of digits; the network at the other end is a sum, whose results stand for the scores."""

SCALE = 1 / 16


def host() -> HostModel:
    """Return what the host knows of such a build: 64 floats in, ten integers out."""
    constants = {
        "scale": {"dtype": "float32", "shape": [], "data": [SCALE]},
        "zero": {"dtype": "int8", "shape": [], "data": [-8]},
    }
    quantize = {"op": "QuantizeLinear", "inputs": ["image", "scale", "zero"], "output": "q", "attributes": {}}
    stream = {"beats": 64, "width": 1, "bits": 8, "signed": True, "name": "e0", "value": "q", "places": list(range(64))}
    out = {"beats": 10, "width": 1, "bits": 8, "signed": True, "name": "e1"}
    value = {"value": "scores_int8", "stream": 0, "places": list(range(10)), "shape": [1, 10], "dtype": "int8"}
    return HostModel.of(
        {
            "format": FORMAT, "protocol": PROTOCOL, "name": "digits", "digest": LINK.digest.hex(), "clock_hz": 10**6,
            "baud": 250_000, "input_buffer": 128, "output_buffer": 128, "elsewhere": [], "constants": constants,
            "head": [quantize], "tail": [],
            "inputs": [{"name": "image", "dtype": "float32", "shape": [1, 1, 8, 8]}],
            "outputs": ["scores_int8"],
            "streams_in": [stream], "streams_out": [out], "turns_in": [[0, 64]], "turns_out": [[0, 10]],
            "values_out": [value],
        }
    )  # fmt: skip


def test_images_go_to_the_chip_and_digits_come_back(tmp_path: Path) -> None:
    (tmp_path / "digits_link.h").write_text(c_header(host()))
    files = [a for name in ("main_posix.c", "digits.c", "hal_posix.c") for a in ("-x", "c", str(SOURCES / name))]
    options = ("-std=c99", "-D_DEFAULT_SOURCE", "-Wno-unused-function", "-O1", f"-I{tmp_path}")
    try:
        compile_c(*options, f"-I{SOURCES}", *files, "-x", "none", "-o", "digits", "-lm", folder=tmp_path)
    except tools.ToolMissing as missing:
        pytest.skip(str(missing))
    # Integers with a sum of 120 .. 127: the result that is the last before 127 + 1 becomes -128 is the greatest one.
    images = [np.array([16] * 15 + [8 + k] + [8] * 48) * SCALE for k in range(8)]
    text = "\n".join(" ".join(map(str, image)) for image in images)
    wanted = []
    for image in images:
        frame = np.clip(np.rint(image / SCALE) - 8, -128, 127).astype(np.int8).tobytes()
        wanted.append(str(np.frombuffer(sums(LINK, frame), np.int8).argmax()))
    assert wanted == list("76543210")
    command = tmp_path / "digits"
    chip = SerialChip(to_rtlil(Shell(UartShell(Sums(LINK), LINK, 4))), 4, tmp_path)
    with PseudoTerminal(chip) as port:
        done = subprocess.run([command, port.path], input=text, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout.split(), done.stderr) == (0, wanted, "")
    gone = subprocess.run([command, tmp_path / "no"], capture_output=True, text=True, timeout=10, check=False)
    assert gone.returncode == 1 and "No such file" in gone.stderr


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="apt-get install gcc-arm-none-eabi libnewlib-dev")
def test_it_compiles_for_a_cortex_m0(tmp_path: Path) -> None:
    (tmp_path / "digits_link.h").write_text(c_header(host()))
    options = ["-mcpu=cortex-m0plus", "-mthumb", "-Os", "-std=c99", "-Wall", "-Wextra", "-Werror"]
    options += ["-Wno-unused-function", "-idirafter", "/usr/include/newlib", f"-I{tmp_path}", f"-I{HEADERS}"]
    subprocess.run(["arm-none-eabi-gcc", *options, "-c", SOURCES / "digits.c", "-o", tmp_path / "digits.o"], check=True)
    sizes = subprocess.run(["arm-none-eabi-size", tmp_path / "digits.o"], capture_output=True, text=True, check=True)
    text, data, bss = map(int, sizes.stdout.splitlines()[1].split()[:3])
    assert text < 4096 and data + bss < 1024
