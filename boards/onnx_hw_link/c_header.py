"""C header of a build for a microcontroller: ``python -m onnx_hw_link.c_header BUILD > digits.h``.

It is used with ``c/onnx_hw_link.h``, and holds the digest, the sizes, and for every stream a function that writes a
frame, from floats where the host quantizes, or one that reads results; where these are numbers of classes with labels,
one that returns the label of a number.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from onnx_hw_link.errors import LinkError
from onnx_hw_link.greeting import PROTOCOL
from onnx_hw_link.host_model import HostModel, NotOurs
from onnx_hw_link.host_operators import limits_of, quant_bounds
from onnx_hw_link.link import LinkPort

__all__ = ["c_header", "main"]


def c_header(model: HostModel) -> str:
    """Return the text of the header.

    Raises:
        LinkError: a stream has integers of more than 32 bits, or the host computes more before the hardware than C can:
            scaling of features, clipping, and quantization by one scale, as ONNX or QONNX has it.
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
        made = _of_host(model, stream["value"])
        if made.result != "int32_t" and made.result != "float":
            raise _refused("numbers that are no integers")
        parts += made.tables
        parts += _function(name, port, at, np.array(stream["places"]), made)
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
        if "labels" in value:
            parts += _labels(f"{name}_{which}", value["labels"], value["other_label"])
    return "\n".join([*parts, "#endif"]) + "\n"


def _labels(name: str, labels: list[Any], other: Any) -> Iterator[str]:
    """Yield a function from the number of a class to its label, a text or an integer."""
    texts = isinstance(other, str)
    kind, constant, written = (
        ("const char *", "const char *const ", _text) if texts else ("int64_t ", "const int64_t ", _integer)
    )
    yield f"/* The label of a class, of its number as `{name}` has it. */"
    yield f"static {kind}{name}_label(int32_t number) {{"
    yield f"    static {constant}labels[{len(labels)}] = {{{', '.join(map(written, labels))}}};"
    yield f"    return number >= 0 && number < {len(labels)} ? labels[number] : {written(other)};"
    yield "}\n"


def _text(text: str) -> str:
    """Return the literal in C of a text, in UTF-8; all but letters, digits and spaces are written as octal numbers."""
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,:"
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'


def _integer(number: int) -> str:
    """Return the literal in C of an integer of 64 bits; the least one is no literal."""
    return "INT64_MIN" if number == -(1 << 63) else f"{number}LL"


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


def _function(name: str, port: LinkPort, at: np.ndarray, places: np.ndarray, made: _Expression) -> Iterator[str]:
    which, kind = _plain(made.argument), made.kind
    where = (at[:, None] + np.arange(port.width) * _bits(port)).reshape(-1)
    used = places >= 0
    count = int(used.sum())
    yield _table(f"{name}_{which}_at", where[used])
    yield _table(f"{name}_{which}_from", places[used])
    yield f"/* A frame's part of `{which}`, row by row as the model has it; the rest of the frame is to be 0. */"
    yield f"static void {name}_enter_{which}(const {kind} *values, uint8_t *frame) {{"
    yield f"    for (size_t i = 0; i < {count}; i++) {{"
    yield f"        const size_t k = {name}_{which}_from[i];"
    yield f"        const {kind} x = values[k];"
    yield f"        onnx_hw_link_put(frame, {name}_{which}_at[i], {made.text}, {_bits(port)});"
    yield "    }\n}\n"


@dataclass(frozen=True)
class _Expression:
    """Expression in C for an element of a value that the host makes of an input.

    Attributes:
        argument: name of the input.
        kind: type of its elements in C.
        result: type of the expression, ``float``, ``double`` or ``int32_t``.
        text: the expression, of the element ``x``; its place in the input is ``k``.
        tables: definitions in C that the expression needs.
    """

    argument: str
    kind: str
    result: str
    text: str
    tables: tuple[str, ...] = ()

    def but(self, result: str, text: str, *tables: str) -> _Expression:
        """Return another expression of the same element."""
        return replace(self, result=result, text=text, tables=(*self.tables, *tables))


def _of_host(model: HostModel, value: str) -> _Expression:
    """Return the expression of an element of a value that is sent.

    Raises:
        LinkError: see ``c_header``.
    """
    step = next((step for step in model.data["head"] if step["output"] == value), None)
    if step is None:
        return _of_input(model, value)
    made = _of_host(model, step["inputs"][0])
    constants = [model.data["constants"].get(name) for name in step["inputs"][1:]]
    scalars = all(constant is None or len(constant["data"]) == 1 for constant in constants)
    numbers: list[Any] = [None if constant is None else constant["data"][0] for constant in constants]
    given = all(constant is not None for name, constant in zip(step["inputs"][1:], constants, strict=True) if name)
    op, attributes = step["op"], step["attributes"]
    if op in ("Identity", "Reshape", "Flatten"):
        return made
    if op == "Scaler":
        return _scaled(model, made, value, attributes)
    if not scalars or not given:
        raise _refused(f"{op} with a number for each channel, or of two values")
    if op == "Clip":
        low, high, *_ = (*numbers, None, None)
        return _clipped(made, -np.inf if low is None else low, np.inf if high is None else high)
    if op == "QuantizeLinear" and made.result == "float":
        low, high = limits_of(np.dtype(constants[1]["dtype"]), attributes.get("bits", 0))
        return made.but(
            "int32_t", f"onnx_hw_link_quantize({made.text}, {_float(numbers[0])}, {numbers[1]}, {low}, {high})"
        )
    if op == "Quant" and made.result == "float":
        least, greatest = quant_bounds(numbers[2], attributes.get("signed", 1), attributes.get("narrow", 0))
        scale, zero = _float(numbers[0]), _float(numbers[1])
        return made.but("float", f"onnx_hw_link_quant({made.text}, {scale}, {zero}, {least}, {greatest})")
    if op == "Cast":
        result = {1: "float", 11: "double"}.get(attributes["to"], "int32_t")
        return made.but(result, f"({result})({made.text})")
    if op == "Round" and made.result != "int32_t":
        return made.but(made.result, f"{'rintf' if made.result == 'float' else 'rint'}({made.text})")
    if op in ("Sub", "Div") and made.result != "int32_t":
        number = _float(numbers[0]) if made.result == "float" else _double(numbers[0])
        return made.but(made.result, f"({made.text} {'-' if op == 'Sub' else '/'} {number})")
    raise _refused(f"{op} of {made.result}")


def _of_input(model: HostModel, value: str) -> _Expression:
    """Return the expression of an input's own element."""
    argument = next((x for x in model.inputs if x.name == value), None)
    if argument is None:
        elsewhere = ", ".join(model.elsewhere)
        raise _refused(elsewhere or f"something else that makes `{value}`")
    if argument.dtype == np.float32:
        return _Expression(value, "float", "float", "x")
    if argument.dtype.kind in "iub":
        return _Expression(value, "int32_t", "int32_t", "(int32_t)x")
    raise NotOurs(f"an input must be of float32 or integers for C; `{value}` is {argument.dtype}")


def _scaled(model: HostModel, made: _Expression, value: str, attributes: Mapping[str, Any]) -> _Expression:
    """Return the expression behind a Scaler, with tables of its numbers where there is one per column."""
    offset, scale = ([float(np.float32(number)) for number in attributes[name]] for name in ("offset", "scale"))
    if made.result != "float":
        made = made.but("float", f"(float)({made.text})")
    if len(scale) == 1:
        return made.but("float", f"onnx_hw_link_scale({made.text}, {_float(offset[0])}, {_float(scale[0])})")
    columns = next(x.shape[-1] for x in model.inputs if x.name == made.argument)
    names = [_plain(f"{model.name.lower()}_{value}_{what}") for what in ("offset", "scale")]
    tables = (
        f"static const float {name}[{len(numbers)}] = {{{', '.join(map(_float, numbers))}}};"
        for name, numbers in zip(names, (offset, scale), strict=True)
    )
    at = f"k % {columns}"
    return made.but("float", f"onnx_hw_link_scale({made.text}, {names[0]}[{at}], {names[1]}[{at}])", *tables)


def _clipped(made: _Expression, low: float, high: float) -> _Expression:
    if made.result == "float":
        return made.but("float", f"onnx_hw_link_clip({made.text}, {_float(low)}, {_float(high)})")
    if made.result == "int32_t":
        low, high = max(low, -(1 << 31)), min(high, (1 << 31) - 1)
        return made.but("int32_t", f"onnx_hw_link_clip_integer({made.text}, {int(low)}, {int(high)})")
    raise _refused("Clip of double")


def _refused(what: str) -> NotOurs:
    """Return the error for operators that C does not have, with what to do instead."""
    return NotOurs(
        f"C can scale, clip, quantize and round an input; the host has to compute {what}: leave it out of the model "
        "and compute it in your program, or send frames from Python with onnx-hw infer"
    )


def _float(number: float) -> str:
    """Return the literal in C that reads as exactly this float32."""
    if np.isinf(number):
        return "-INFINITY" if number < 0 else "INFINITY"
    return f"{np.format_float_scientific(np.float32(number), trim='0')}f"


def _table(name: str, values: Any) -> str:
    kind = "uint16_t" if int(values.max(initial=0)) < 1 << 16 else "uint32_t"
    listed = ", ".join(map(str, values.tolist()))
    return f"static const {kind} {name}[{len(values)}] = {{{listed}}};"


def _double(number: float) -> str:
    """Return the literal in C that reads as exactly this float64."""
    return float(number).hex()


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
