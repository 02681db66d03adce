"""Text of ``shell/README.md``, for a designer who instantiates a network with its shell."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_hw_boards.verilog_board import ShellKind
from onnx_hw_link.link import TRAILER, Link, LinkPort

_PROTOCOLS = {
    ShellKind.AXI_STREAM: """\
Each stream of the network is an AXI4-Stream with one beat per transfer; `tlast` comes with the last beat of a frame. An
integer takes the fewest whole bytes, little-endian, sign-extended; integers of one bit are packed, eight in a byte.
A frame that is too short is filled up with zeros, the rest of a frame that is too long is dropped, and `wrong` has a
bit for each input that says whether this has happened.""",
    ShellKind.WISHBONE: """\
Wishbone, classic cycles of 32 bits, little-endian. The addresses are in bytes, each part has {window:,} of them:

| address | access | meaning |
|---|---|---|
| 0, 4 | read | bytes of an input frame ({bytes_in:,}), and of its results ({bytes_out:,}) without the times |
| 8 | read | status; bit 0: the input window may be written; 1: the output window has results; 2: a write was refused |
| 12 | write | control; bit 0: the frame in the window is complete; 1: the results have been read; 2: restart |
| 16 to 31 | read | digest of the design |
| {window:,} | write | input window: a frame |
| {twice:,} | read | output window: its results, and {trailer} bytes of times |

In a frame, each integer takes its own bits, the lowest first, beat after beat, and zeros fill up the last byte. Each
window is double buffered: while a frame is computed, the next one may be written. `irq` is bit 1 of the
status.""",
    ShellKind.SPI: """\
An SPI target, mode 0, that exchanges packets: `onnx_hw_link` is the host's side, and docs/link.md of onnx-hw describes
the protocol. A frame is {bytes_in:,} bytes in and {bytes_out:,} out, in which each integer takes its own bits. SCK may
be up to 1.6 times as fast as `clk`; while `irq` is high, the controller has bytes to read. Drive the pad of CIPO while
`cipo_oe` is high.""",
}

_PAGE = """\
# {module}

{protocol}

| port | direction | bits |
|---|---|---|
| `clk`, `rst` | to the network | 1 |
{ports}

`rst` is active high and synchronous to `clk`. The design was made for {clock} MHz.

| stream | beats per frame | {size} per beat | integers per beat |
|---|---|---|---|
{streams}

`shell.json` has the same facts for programs.

* `{module}.v`: the module, Verilog-2005 without vendor cells; `instantiation.v`: a template to copy;
* `test_shell.py`, `bench.py`, `frames.npz`: a test bench that compares frames with the golden model, with one frame cut
  short: `pip install -r requirements.txt && pytest`, with Icarus Verilog.
"""


def shell_page(
    module: str, shell: ShellKind, link: Link, ports: Mapping[str, tuple[str, int]], clock_mhz: float
) -> str:
    """Return the README; ``ports`` has "in" or "out", and bits, of each port but clock and reset."""
    window = 1 << ports["wb_adr_i"][1] if shell is ShellKind.WISHBONE else 0
    protocol = _PROTOCOLS[shell].format(
        window=window, twice=2 * window, bytes_in=link.input_bytes, bytes_out=link.output_bytes, trailer=TRAILER
    )
    return _PAGE.format(
        module=module,
        protocol=protocol,
        ports="\n".join(
            f"| `{name}` | {'to' if flow == 'in' else 'from'} the network | {width} |"
            for name, (flow, width) in ports.items()
        ),
        clock=f"{clock_mhz:g}",
        size="bytes" if shell is ShellKind.AXI_STREAM else "bits",
        streams="\n".join(_row(port, shell) for port in (*link.inputs, *link.outputs)),
    )


def _row(port: LinkPort, shell: ShellKind) -> str:
    size = port.transfer_bytes if shell is ShellKind.AXI_STREAM else port.beat_bits
    integers = f"{port.width} × {'signed' if port.signed else 'unsigned'} {port.bits} bits"
    return f"| `{port.name}` | {port.beats:,} | {size:,} | {integers} |"
