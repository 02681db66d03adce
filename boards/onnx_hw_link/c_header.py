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
from onnx_hw_link.greeting import PROTOCOL
from onnx_hw_link.host_model import HostModel, NotOurs
from onnx_hw_link.host_operators import limits_of
from onnx_hw_link.link import LinkPort

__all__ = ["c_header", "main"]


def c_header(model: HostModel) -> str:
    """Return the text of the header.

    Raises:
        LinkError: a stream has integers of more than 32 bits, or the host does more before the hardware than clip, and
            quantize by one scale.
    """
    link, data = model.link, model.data
    name = re.sub(r"\W", "_", model.name.lower(), flags=re.ASCII)
    digest = ", ".join(f"0x{byte:02x}" for byte in link.digest)
    parts = [
        f"/* Of `{name}`, by onnx-hw: for one build alone. */",
        f"#ifndef {name.upper()}_H\n#define {name.upper()}_H\n",
        '#include "onnx_hw_link.h"\n',
        f"#if ONNX_HW_LINK_PROTOCOL != {PROTOCOL}",
        f'#error "onnx_hw_link.h must speak version {PROTOCOL} of the protocol: take the one of this onnx-hw"',
        "#endif\n",
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
        places = np.array(value["places"])
        where = at[places // port.width] + places % port.width * _bits(port)
        table = _table(f"{name}_{which}_at", where)
        parts += [
            table,
            f"/* The {len(places)} integers of `{which}`, of a frame's results. */",
            f"static void {name}_leave_{which}(const uint8_t *results, int32_t *values) {{",
            f"    for (size_t k = 0; k < {len(places)}; k++)",
            f"        values[k] = onnx_hw_link_get(results, {name}_{which}_at[k], {_bits(port)}, {int(port.signed)});",
            "}\n",
        ]
    return "\n".join([*parts, "#endif"]) + "\n"


def _bits(port: LinkPort) -> int:
    """Return the bits of an integer of a stream on the link; raise ``LinkError`` for more than C's 32."""
    if port.bits > 32:
        raise NotOurs(f"a stream must carry integers of 1 to 32 bits; `{port.name}` has {port.bits}")
    return port.bits


def _ats(ports: tuple[LinkPort, ...], turns: tuple[tuple[int, int], ...]) -> list[np.ndarray]:
    """Return the offset of each beat in a frame, in bits, by stream."""
    offsets: list[list[int]] = [[] for _ in ports]
    at = 0
    for k, count in turns:
        for _ in range(count):
            offsets[k].append(at)
            at += ports[k].beat_bits
    return [np.array(beats) for beats in offsets]


def _function(
    name: str, port: LinkPort, at: np.ndarray, places: np.ndarray, kind: str, which: str, convert: str
) -> Iterator[str]:
    where = (at[:, None] + np.arange(port.width) * _bits(port)).reshape(-1)
    used = places >= 0
    count = int(used.sum())
    yield _table(f"{name}_{which}_at", where[used])
    yield _table(f"{name}_{which}_from", places[used])
    yield f"/* A frame's part of `{which}`, row by row as the model has it; the rest of the frame is to be 0. */"
    yield f"static void {name}_enter_{which}(const {kind} *values, uint8_t *frame) {{"
    yield f"    for (size_t k = 0; k < {count}; k++) {{"
    yield f"        {kind} x = values[{name}_{which}_from[k]];"
    yield f"        onnx_hw_link_put(frame, {name}_{which}_at[k], {convert}, {_bits(port)});"
    yield "    }\n}\n"


def _of_host(model: HostModel, value: str) -> tuple[str, str, str]:
    """Return (C type, input of the model, C expression of the integer of an element x) for a value that is sent.

    Raises:
        LinkError: see ``c_header``.
    """
    step = next((step for step in model.data["head"] if step["output"] == value), None)
    if step is None:
        argument = next((x for x in model.inputs if x.name == value), None)
        if argument is None or not (argument.dtype.kind in "iub" or argument.dtype == np.float32):
            raise NotOurs(f"C must make a stream of an input of the model; `{value}` is something else")
        return ("float", value, "x") if argument.dtype == np.float32 else ("int32_t", value, "(int32_t)x")
    kind, which, inner = _of_host(model, step["inputs"][0])
    constants = [model.data["constants"].get(name) for name in step["inputs"][1:]]
    is_float = kind == "float" and "quantize" not in inner
    if step["op"] in ("Identity", "Reshape", "Flatten"):
        return kind, which, inner
    if step["op"] == "Clip" and all(constant is None or len(constant["data"]) == 1 for constant in constants):
        least, greatest, *_ = (*constants, None, None)
        low, high = least["data"][0] if least else -np.inf, greatest["data"][0] if greatest else np.inf
        if is_float:
            return kind, which, f"onnx_hw_link_clip({inner}, {_float(low)}, {_float(high)})"
        low, high = max(low, -(1 << 31)), min(high, (1 << 31) - 1)
        return kind, which, f"onnx_hw_link_clip_integer({inner}, {int(low)}, {int(high)})"
    if step["op"] == "QuantizeLinear" and is_float and constants[0] and len(constants[0]["data"]) == 1:
        (scale,), zero = constants[0]["data"], constants[1]
        low, high = limits_of(np.dtype(zero["dtype"]), step["attributes"].get("bits", 0))
        return kind, which, f"onnx_hw_link_quantize({inner}, {_float(scale)}, {zero['data'][0]}, {low}, {high})"
    raise NotOurs(f"C must clip an input and quantize it by one scale, and no more; the host has {step['op']} of it")


def _float(number: float) -> str:
    """Return the literal in C that reads as exactly this float32."""
    if np.isinf(number):
        return "-INFINITY" if number < 0 else "INFINITY"
    return f"{np.format_float_scientific(np.float32(number), trim='0')}f"


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
