"""``shell/README.md``: what somebody needs to know who puts a network in its shell into a design."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_hw_boards.verilog_board import ShellKind
from onnx_hw_link.link import TRAILER, Link, LinkPort

_TOLD = {
    ShellKind.AXI_STREAM: """\
Each stream of the network is an AXI4-Stream, a beat in each transfer; `tlast` stands with the last beat of a frame.
A frame that comes in too short is filled up with zeros, of one that is too long the rest is dropped, and `wrong` says
of each input whether that has happened.""",
    ShellKind.WISHBONE: """\
Classic cycles of 32 bits, little-endian. With {window:,} bytes in each part:

| address | | |
|---|---|---|
| 0, 4 | read | bytes of a frame in ({bytes_in:,}), and out ({bytes_out:,}) without its times |
| 8 | read | bit 0: the input's window may be written; 1: the output's holds results; 2: something was refused |
| 12 | write | bit 0: the frame in the window is complete; 1: the results have been read; 2: forget everything |
| 16 to 31 | read | digest of the design |
| {window:,} | write | a frame in |
| {twice:,} | read | its results, and {trailer} bytes of times |

Either window is two: while a frame passes, the next one may be written. `irq` is bit 1 of the status.""",
    ShellKind.SPI: """\
A target of SPI, mode 0, that speaks in packets: `onnx_hw_link` is the host's side, and docs/link.md of onnx-hw the
protocol. A frame is {bytes_in:,} bytes in and {bytes_out:,} out. SCK may be 1.6 times as fast as `clk`; while `irq` is
high there are bytes for the controller. Whoever owns the pad of CIPO drives it while `cipo_oe` is high.""",
}

_PAGE = """\
# {module}

{told}

| port | | bits |
|---|---|---|
| `clk`, `rst` | to the network | 1 |
{ports}

`rst` is active high and belongs to `clk`; {clock} MHz is what the design was planned for.

| stream | beats of a frame | bytes of a beat | integers of a beat |
|---|---|---|---|
{streams}

An integer takes the fewest whole bytes, little-endian, sign-extended; of single bits eight take a byte. `shell.json`
says the same to programs.

* `{module}.v`: the module, Verilog-2005 without cells of any vendor; `instantiation.v`: text to copy;
* `test_shell.py`, `bench.py`, `frames.npz`: a bench, which compares frames with the golden model, one that is cut short
  among them: `pip install -r requirements.txt && pytest`, with Icarus Verilog.
"""


def shell_page(
    module: str, shell: ShellKind, link: Link, ports: Mapping[str, tuple[str, int]], clock_mhz: float
) -> str:
    """The page.

    Args:
        ports: "in" or "out", and bits, of each but clock and reset.
    """
    window = 1 << ports["wb_adr_i"][1] if shell is ShellKind.WISHBONE else 0
    told = _TOLD[shell].format(
        window=window, twice=2 * window, bytes_in=link.input_bytes, bytes_out=link.output_bytes, trailer=TRAILER
    )
    return _PAGE.format(
        module=module,
        told=told,
        ports="\n".join(
            f"| `{name}` | {'to' if flow == 'in' else 'from'} the network | {width} |"
            for name, (flow, width) in ports.items()
        ),
        clock=f"{clock_mhz:g}",
        streams="\n".join(map(_row, (*link.inputs, *link.outputs))),
    )


def _row(port: LinkPort) -> str:
    integers = f"{port.width} × {'signed' if port.signed else 'unsigned'} {port.bits} bits"
    return f"| `{port.name}` | {port.beats:,} | {port.beat_bytes:,} | {integers} |"
