"""``verilog/README.md`` and the template beside it: what somebody needs to know who puts the circuit in a design."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx_hw.export.test_vectors import VectorStream, streams
from onnx_hw.ir.design import Design
from onnx_hw.messages.text import printable
from onnx_hw.report.collect.design_sections import describe_ports
from onnx_hw.report.model import PortSection
from onnx_hw.timing.frame_times import Frames

_FRAMES_AHEAD = 3


def ends(design: Design) -> list[VectorStream]:
    """What enters and what leaves."""
    return [stream for stream in streams(design) if stream.direction != "inner"]


def instantiation(module: str, those: Sequence[VectorStream]) -> str:
    """Text to copy: a wire for every port, and the instance."""
    wires, ports = [], [".clk(clk)", ".rst(rst)"]
    for stream in those:
        width = stream.lanes * stream.bits
        wires.append(f"wire [{width - 1}:0] {stream.name}_payload;")
        wires += [f"wire {stream.name}_{signal};" for signal in ("valid", "ready")]
        ports += [f".{stream.name}_{signal}({stream.name}_{signal})" for signal in ("payload", "valid", "ready")]
    listed = ",\n  ".join(ports)
    lines = "\n".join(wires)
    head = "// clk and rst are yours: rst is active high, and belongs to clk."
    return f"{head}\n{lines}\n\n{module} network (\n  {listed}\n);\n"


def page(design: Design, module: str) -> str:
    """The page."""
    those = ends(design)
    about = Frames(design).times(_FRAMES_AHEAD, interval=0)
    rows = [
        f"| `{s.name}` | {'into the circuit' if s.direction == 'in' else 'out of it'} | {s.lanes * s.bits} | {s.lanes} "
        f"× {'signed' if s.signed else 'unsigned'} {s.bits} bits | {s.beats:,} | {_cell(s.tensor)} |"
        for s in those
    ]
    values = [row for port in describe_ports(design) for row in _value(port)]
    return _PAGE.format(
        module=module,
        name=printable(design.network.name),
        rows="\n".join(rows),
        values="\n".join(values),
        interval=f"{about.elapsed(_FRAMES_AHEAD - 1, _FRAMES_AHEAD):,}",
        latency=f"{about.latency():,}",
        clock=f"{design.clock_mhz:g}",
    )


def _value(port: PortSection) -> Iterable[str]:
    """How the integers of a stream are those of a value of the model, as a row."""
    nest = " of ".join(f"{loop.turns:,} turns of step {loop.step:,}" for loop in port.loops)
    shape = " × ".join(map(str, port.shape)) or "one number"
    scale = f"{port.scale[0]:.9g} × (n − {port.zero_point[0]:g})" if len(port.scale) == 1 else "see report.json"
    yield f"| `{port.stream}` | {_cell(port.name)} | {shape} | {nest or 'see orders.json'} | {scale} |"


def _cell(name: str) -> str:
    """A name in a table."""
    return f"`{printable(name).replace('`', ' ').replace('|', ' ')}`"


_PAGE = """# {module}

The network `{name}` as one file of Verilog-2005, `{module}.v`, without cells of any vendor. `instantiation.v` has text
to copy. `../cocotb/` is a bench of it that needs cocotb, numpy, pytest and a simulator.

## Ports

`clk`; `rst`, active high, of the clock's own domain, for one cycle or more; and of every stream `<stream>_payload`,
`<stream>_valid`, `<stream>_ready`.

| stream | | payload bits | integers in a beat | beats of a frame | tensor |
|---|---|---|---|---|---|
{rows}

* Lane 0 is in the lowest bits. Signed integers are in two's complement.
* A beat is taken in every cycle in which `valid` and `ready` are both high. A `valid` beat stays until it is taken.
* A beat ends with the channels of its pixel: lanes beyond them may hold anything.
* There is no mark at the end of a frame: frames have a fixed length, and the circuit counts. After a reset, the next
  beat is the first one of a frame.
* Keep `valid` low while `rst` is high and one cycle longer: `ready` may be up already.
* No pattern of pauses, at either end, changes a value.

## What the integers are

| stream | value of the model | shape | order on the stream, over the flat value | real number |
|---|---|---|---|---|
{values}

A nest of loops is read from the outside in; n is the integer on the stream.

## When

At full rate a frame takes {interval} cycles, and the last beat of the first one leaves {latency} cycles after its first
beat was offered. The circuit was made for {clock} MHz.
"""
