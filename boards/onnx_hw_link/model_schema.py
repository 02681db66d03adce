"""Schema of ``model.json``: what must hold of the object before anything is computed with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from onnx_hw_link.host_operators import KNOWN, MAX_ELEMENTS

__all__ = ["WrongField", "require_schema"]

MAX_BITS = 64
"""Bits of an integer of a stream."""

DTYPES = frozenset(
    {"bool", "float16", "float32", "float64"} | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
"""numpy's names of the element types of arrays."""


class WrongField(ValueError):
    """A field of the file is missing, or is not what it must be."""


def require_schema(data: Mapping[str, Any]) -> None:
    """Check all fields of a ``model.json`` but those that ``Link`` checks: the digest's length, buffers and turns.

    Raises:
        WrongField: the first field that is wrong, by its path.
    """
    top = _Object(data, "")
    top.text("name")
    top.hexadecimal("digest")
    for field, low, high in (("clock_hz", 1, 10**11), ("baud", 0, 10**10)):
        top.whole(field, low, high)
    for field in ("input_buffer", "output_buffer"):
        top.whole(field, 1, 1 << 30)
    if "link" in data:
        top.text("link")
    if "load" in data:
        load = _Object(data["load"], "load")
        for field in ("size", "address_bits", "word_bytes"):
            load.whole(field, 1, 1 << 30)
        load.hexadecimal("digest")
        load.text("file")
    if "batch" in data:
        top.whole("batch", 1, MAX_ELEMENTS)
    names = {_argument(one) for one in top.objects("inputs", least=1)}
    for name, one in top.mapping("constants").items():
        _constant(_Object(one, f"constants.{name}"))
        names.add(name)
    elsewhere = bool(top.texts("elsewhere"))
    names |= _steps(top.objects("head"), names, elsewhere=elsewhere)
    for stream in top.objects("streams_in", least=1):
        size = _stream(stream)
        stream.text("value")
        stream.places("places", size, -1, MAX_ELEMENTS - 1)
    sizes = [_stream(stream) for stream in top.objects("streams_out", least=1)]
    for side in ("turns_in", "turns_out"):
        for k, turn in enumerate(top.entries(side)):
            if not isinstance(turn, list) or len(turn) != 2 or not all(_is_whole(n, 0, MAX_ELEMENTS) for n in turn):
                top.wrong(f"{side}[{k}]", "a stream and its beats", turn)
    for value in top.objects("values_out"):
        names.add(value.text("value"))
        shape = value.shape("shape")
        stream_number = value.whole("stream", 0, len(sizes) - 1)
        value.places("places", prod(shape), 0, sizes[stream_number] - 1)
        value.dtype("dtype")
        if "labels" in value.data:
            _labels(value)
    names |= _steps(top.objects("tail"), names, elsewhere=elsewhere)
    for k, name in enumerate(top.texts("outputs")):
        if name not in names and not elsewhere:
            top.wrong(f"outputs[{k}]", "the name of a value", name)


def _argument(one: _Object) -> str:
    one.dtype("dtype")
    one.shape("shape")
    return one.text("name")


def _stream(stream: _Object) -> int:
    """Check a stream, and return the number of its integers in a frame."""
    stream.text("name")
    beats, width = (stream.whole(field, 1, MAX_ELEMENTS) for field in ("beats", "width"))
    stream.whole("bits", 1, MAX_BITS)
    if not isinstance(stream.field("signed"), bool):
        stream.wrong("signed", "true or false")
    if beats * width > MAX_ELEMENTS:
        stream.wrong("beats", f"at most {MAX_ELEMENTS:,} with all lanes of `width`")
    return beats * width


def _constant(one: _Object) -> None:
    one.dtype("dtype")
    shape, data = one.shape("shape"), one.entries("data")
    if prod(shape) != len(data):
        one.wrong("shape", f"that of {len(data):,} elements")
    if not all(isinstance(number, int | float) for number in data):
        one.wrong("data", "numbers", "something else")


def _labels(value: _Object) -> None:
    """Check the labels of classes: all of them texts, or integers of 64 bits."""
    other = value.field("other_label")
    for label in (other, *value.entries("labels")):
        if not (isinstance(label, str) if isinstance(other, str) else _is_whole(label, -(1 << 63), (1 << 63) - 1)):
            value.wrong("labels", "texts, or integers of 64 bits, as `other_label` is", label)


def _steps(steps: Sequence[_Object], known: set[str], *, elsewhere: bool) -> set[str]:
    """Check steps of the host, and return the names of their results; ``elsewhere``, the compiler computes others."""
    made: set[str] = set()
    for step in steps:
        if (op := step.text("op")) not in KNOWN:
            step.wrong("op", "an operator of the host", op)
        for k, name in enumerate(step.texts("inputs")):
            if name and name not in known | made and not elsewhere:
                step.wrong(f"inputs[{k}]", "the name of a value that is known by then", name)
        allowed = _keywords(KNOWN[op][1])
        for key, value in step.mapping("attributes").items():
            if key not in allowed or isinstance(value, Mapping) or value is None:
                step.wrong(f"attributes.{key}", f"an attribute of {op}", value)
        if "bits" in step.data["attributes"] and not _is_whole(step.data["attributes"]["bits"], 0, MAX_BITS):
            step.wrong("attributes.bits", f"0 .. {MAX_BITS}", step.data["attributes"]["bits"])
        made.add(step.text("output"))
    return made


def _keywords(function: Callable[..., Any]) -> set[str]:
    """Return the names of a function's keywords; none for numpy's own functions."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return set()
    return {one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY} - {"out", "where", "dtype"}


def _is_whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


class _Object:
    """Object of the file, with its path; each method returns a field after it has been checked."""

    def __init__(self, data: Any, path: str) -> None:
        self.data, self.path = data, path
        if not isinstance(data, Mapping):
            raise WrongField(f"`{path}` must be an object, not {_short(data)}")

    def wrong(self, field: str, must_be: str, found: object = ...) -> None:
        """Raise the error of a field."""
        found = self.data.get(field) if found is ... else found
        raise WrongField(f"`{self._place(field)}` must be {must_be}, not {_short(found)}")

    def _place(self, field: str) -> str:
        return f"{self.path}.{field}" if self.path else field

    def field(self, field: str) -> Any:
        if field not in self.data:
            raise WrongField(f"`{self._place(field)}` must be there")
        return self.data[field]

    def text(self, field: str) -> str:
        value = self.field(field)
        if not isinstance(value, str):
            self.wrong(field, "a text")
        return str(value)

    def hexadecimal(self, field: str) -> None:
        text = self.text(field)
        if len(text) % 2 or not text.isascii() or not all(digit in "0123456789abcdef" for digit in text.lower()):
            self.wrong(field, "hexadecimal digits")

    def whole(self, field: str, low: int, high: int) -> int:
        value = self.field(field)
        if not _is_whole(value, low, high):
            self.wrong(field, f"a whole number in {low:,} .. {high:,}")
        return int(value)

    def dtype(self, field: str) -> None:
        if self.text(field) not in DTYPES:
            self.wrong(field, "an element type of numpy")

    def entries(self, field: str) -> list[Any]:
        value = self.field(field)
        if not isinstance(value, list):
            self.wrong(field, "a list")
        return list(value)

    def mapping(self, field: str) -> Mapping[str, Any]:
        return dict(_Object(self.field(field), self._place(field)).data)

    def objects(self, field: str, least: int = 0) -> list[_Object]:
        values = self.entries(field)
        if len(values) < least:
            self.wrong(field, "a list with one entry or more")
        return [_Object(one, f"{self._place(field)}[{k}]") for k, one in enumerate(values)]

    def texts(self, field: str) -> list[str]:
        values = self.entries(field)
        if not all(isinstance(value, str) for value in values):
            self.wrong(field, "a list of texts")
        return values

    def shape(self, field: str) -> list[int]:
        lengths = self.entries(field)
        if not all(_is_whole(length, 0, MAX_ELEMENTS) for length in lengths) or prod(lengths) > MAX_ELEMENTS:
            self.wrong(field, f"lengths whose product is at most {MAX_ELEMENTS:,}")
        return lengths

    def places(self, field: str, count: int, low: int, high: int) -> None:
        places = self.entries(field)
        if len(places) != count or not all(_is_whole(place, low, high) for place in places):
            self.wrong(field, f"{count:,} whole numbers in {low:,} .. {high:,}", "others")


def _short(value: object) -> str:
    text = "what is nested" if _is_deep(value) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_deep(value: object) -> bool:
    """Return whether a list or an object holds others, which may take a long text to show."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(isinstance(one, list | Mapping) for one in inner)
