"""C header of a build for a microcontroller: ``python -m onnx_hw_link.c_header BUILD > digits.h``.

It is used with ``c/onnx_hw_link.h``, and holds the digest, the sizes, and for every stream a function that writes a
frame, from floats where the host quantizes, or one that reads results.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from onnx_hw_link.errors import LinkError
from onnx_hw_link.host_model import HostModel, NotOurs
from onnx_hw_link.link import LinkPort

__all__ = ["c_header", "main"]


def c_header(model: HostModel) -> str:
    """Return the text of the header.

    Raises:
        LinkError: a stream carries single bits, or the host does more before the hardware than quantize by one scale.
    """
    link, data = model.link, model.data
    name = re.sub(r"\W", "_", model.name.lower(), flags=re.ASCII)
    digest = ", ".join(f"0x{byte:02x}" for byte in link.digest)
    parts = [
        f"/* Of `{name}`, by onnx-hw: for one build alone. */",
        f"#ifndef {name.upper()}_H\n#define {name.upper()}_H\n",
        '#include "onnx_hw_link.h"\n',
        f"#define {name.upper()}_INPUT_BYTES {link.input_bytes}",
        f"#define {name.upper()}_OUTPUT_BYTES {link.output_bytes}\n",
        f"static const uint8_t {name}_digest[16] = {{{digest}}};\n",
    ]
    ats = _ats(link.inputs, link.input_turns)
    for stream, port, at in zip(data["streams_in"], link.inputs, ats, strict=True):
        kind, argument, convert = _of_host(model, stream["value"])
        parts += _function(name, port, at, np.array(stream["places"]), kind, _plain(argument), convert)
    for value in data["values_out"]:
        port = link.outputs[value["stream"]]
        at = _ats(link.outputs, link.output_turns)[value["stream"]]
        which = _plain(value["value"])
        size = _bytes(port)
        places = np.array(value["places"])
        where = at[places // port.width] + places % port.width * size
        table = _table(f"{name}_{which}_at", where)
        parts += [
            table,
            f"/* The {len(places)} integers of `{which}`, of a frame's results. */",
            f"static void {name}_leave_{which}(const uint8_t *results, int32_t *values) {{",
            f"    for (size_t k = 0; k < {len(places)}; k++)",
            f"        values[k] = onnx_hw_link_get(results + {name}_{which}_at[k], {size}, {int(port.signed)});",
            "}\n",
        ]
    return "\n".join([*parts, "#endif"]) + "\n"


def _bytes(port: LinkPort) -> int:
    """Return the bytes of an integer of a stream.

    Raises:
        LinkError: the integer is a bit, or wider than C's 32 bits.
    """
    if port.bits == 1 or port.bits > 32:
        raise NotOurs(f"a stream must carry integers of 2 to 32 bits; `{port.name}` has {port.bits}")
    return port.place_bits // 8


def _ats(ports: tuple[LinkPort, ...], turns: tuple[tuple[int, int], ...]) -> list[np.ndarray]:
    """Return the offset of each beat in a frame, by stream."""
    offsets: list[list[int]] = [[] for _ in ports]
    at = 0
    for k, count in turns:
        for _ in range(count):
            offsets[k].append(at)
            at += ports[k].beat_bytes
    return [np.array(beats) for beats in offsets]


def _function(
    name: str, port: LinkPort, at: np.ndarray, places: np.ndarray, kind: str, which: str, convert: str
) -> Iterator[str]:
    size = _bytes(port)
    where = (at[:, None] + np.arange(port.width) * size).reshape(-1)
    used = places >= 0
    count = int(used.sum())
    yield _table(f"{name}_{which}_at", where[used])
    yield _table(f"{name}_{which}_from", places[used])
    yield f"/* A frame's part of `{which}`, row by row as the model has it; the rest of the frame is to be 0. */"
    yield f"static void {name}_enter_{which}(const {kind} *values, uint8_t *frame) {{"
    yield f"    for (size_t k = 0; k < {count}; k++) {{"
    yield f"        {kind} x = values[{name}_{which}_from[k]];"
    yield f"        onnx_hw_link_put(frame + {name}_{which}_at[k], {convert}, {size});"
    yield "    }\n}\n"


def _of_host(model: HostModel, value: str) -> tuple[str, str, str]:
    """Return (C type, input of the model, C expression of the integer of an element x) for a value that is sent.

    Raises:
        LinkError: see ``c_header``.
    """
    producer_of = {step["output"]: step for step in model.data["head"]}
    convert = "(int32_t)x"
    kind = "int32_t"
    while value in producer_of:
        step = producer_of[value]
        constants = [model.data["constants"][name] for name in step["inputs"][1:] if name]
        if step["op"] == "QuantizeLinear" and kind == "int32_t" and len(constants[0]["data"]) == 1:
            (scale,), (zero,) = constants[0]["data"], constants[1]["data"]
            limits = np.iinfo(constants[1]["dtype"])
            kind = "float"
            literal = np.format_float_scientific(np.float32(scale), trim="0")  # which reads as this very number
            convert = f"onnx_hw_link_quantize(x, {literal}f, {zero}, {limits.min}, {limits.max})"
        elif step["op"] not in ("Identity", "Reshape", "Flatten"):
            raise NotOurs(f"C must quantize an input by one scale, and no more; the host has {step['op']} of it")
        value = step["inputs"][0]
    argument = next((x for x in model.inputs if x.name == value), None)
    if argument is None or (kind == "float") != (argument.dtype == np.float32):
        raise NotOurs(f"C must make a stream of an input of the model; `{value}` is something else")
    return kind, value, convert


def _table(name: str, values: Any) -> str:
    kind = "uint16_t" if int(values.max(initial=0)) < 1 << 16 else "uint32_t"
    listed = ", ".join(map(str, values.tolist()))
    return f"static const {kind} {name}[{len(values)}] = {{{listed}}};"


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def main(arguments: list[str]) -> int:
    """Write the header of a build's folder to standard output; return 2 where there is no build."""
    if len(arguments) != 1:
        sys.stderr.write("one argument: the folder of a build\n")
        return 2
    try:
        sys.stdout.write(c_header(HostModel.read(Path(arguments[0]))))
    except LinkError as error:
        sys.stderr.write(f"error[{error.code}]: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
