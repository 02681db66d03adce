"""Texts for a designer who instantiates the circuit: ``verilog/README.md`` and ``verilog/instantiation.v``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx_hw.export import verilog
from onnx_hw.export.test_vectors import VectorStream, streams
from onnx_hw.ir.design import Design
from onnx_hw.messages.text import printable
from onnx_hw.report.collect.design_sections import describe_ports
from onnx_hw.report.model import PortSection
from onnx_hw.timing.frame_times import Frames

_FRAMES_AHEAD = 3


def ends(design: Design) -> list[VectorStream]:
    """Return the streams that enter or leave the circuit."""
    return [stream for stream in streams(design) if stream.direction != "inner"]


def instantiation(module: str, outer: Sequence[VectorStream]) -> str:
    """Return Verilog to copy, a wire for every port and the instance; ``outer`` are the streams of the circuit."""
    wires = {}
    for stream in outer:
        wires[f"{stream.name}_payload"] = f"wire [{stream.lanes * stream.bits - 1}:0] {stream.name}_payload;"
        wires |= {f"{stream.name}_{signal}": f"wire {stream.name}_{signal};" for signal in ("valid", "ready")}
    return verilog.instance(module, wires)


def page(design: Design, module: str) -> str:
    """Return the README."""
    times = Frames(design).times(_FRAMES_AHEAD, interval=0)
    rows = [
        f"| `{s.name}` | {'input' if s.direction == 'in' else 'output'} | {s.lanes * s.bits} | {s.lanes} "
        f"× {'signed' if s.signed else 'unsigned'} {s.bits} bits | {s.beats:,} | {_cell(s.tensor)} |"
        for s in ends(design)
    ]
    values = [row for port in describe_ports(design) for row in _value(port)]
    return _PAGE.format(
        module=module,
        name=printable(design.network.name),
        rows="\n".join(rows),
        values="\n".join(values),
        interval=f"{times.elapsed(_FRAMES_AHEAD - 1, _FRAMES_AHEAD):,}",
        latency=f"{times.latency():,}",
        clock=f"{design.clock_mhz:g}",
    )


def _value(port: PortSection) -> Iterable[str]:
    """Yield the row that says which value of the model a stream carries, in which order and with which scale."""
    nest = " of ".join(f"{loop.turns:,} turns of step {loop.step:,}" for loop in port.loops)
    shape = " × ".join(map(str, port.shape)) or "one number"
    scale = f"{port.scale[0]:.9g} × (n − {port.zero_point[0]:g})" if len(port.scale) == 1 else "see report.json"
    yield f"| `{port.stream}` | {_cell(port.name)} | {shape} | {nest or 'see orders.json'} | {scale} |"


def _cell(name: str) -> str:
    """Return a name as a cell of a Markdown table."""
    return f"`{printable(name).replace('`', ' ').replace('|', ' ')}`"


_PAGE = """# {module}

`{module}.v` is the network `{name}` as one file of Verilog-2005, without vendor cells. `instantiation.v` is a template
to copy. `../cocotb/` is a test bench for it, which needs cocotb, numpy, pytest and a simulator.

## Ports

* `clk`: the clock;
* `rst`: the reset, active high, synchronous to `clk`, for one cycle or more;
* `<stream>_payload`, `<stream>_valid` and `<stream>_ready` for every stream:

| stream | direction | payload bits | integers per beat | beats per frame | tensor |
|---|---|---|---|---|---|
{rows}

* Lane 0 is in the lowest bits. Signed integers are in two's complement.
* A beat is transferred in every cycle in which `valid` and `ready` are both high. Once `valid` is high, `valid` and
  `payload` must not change until the beat is transferred.
* The last beat of a pixel may have more lanes than the pixel has channels left: these lanes may hold anything.
* Nothing marks the end of a frame: frames have a fixed length, and the circuit counts beats. The first beat after a
  reset is the first one of a frame.
* Keep `valid` low while `rst` is high and for one more cycle: `ready` may be high already.
* Pauses at either end, in any pattern, never change a value.

## Meaning of the integers

| stream | value of the model | shape | order on the stream, over the flat value | real number |
|---|---|---|---|---|
{values}

The order is a loop nest, the outermost loop first; n is the integer on the stream.

## Timing

At full rate the circuit takes a new frame every {interval} cycles. The last beat of the first frame leaves {latency}
cycles after its first beat was offered. The circuit was designed for {clock} MHz.
"""
