"""Types of the arguments of the Python functions: numbers of numpy are taken, anything else is refused by name."""

from __future__ import annotations

import inspect
import operator
import os
from collections.abc import Callable, Mapping
from functools import wraps
from numbers import Real
from typing import Any, ParamSpec, TypeVar

import numpy as np

from onnx_hw.messages.errors import user_error

_P = ParamSpec("_P")
_R = TypeVar("_R")


def check_arguments(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function that converts its arguments to the types of ``ARGUMENTS`` before it runs, by their names.

    None stays where it is the default. An argument of another type is a ``UserError``.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*args: _P.args, **named: _P.kwargs) -> _R:
        try:
            bound = signature.bind(*args, **named)
        except TypeError:
            return function(*args, **named)  # Python says which name is wrong, and which one is near
        for name in ARGUMENTS.keys() & bound.arguments.keys():
            given = bound.arguments[name]
            if given is not None or signature.parameters[name].default is not None:
                bound.arguments[name] = _converted(name, given)
        return function(*bound.args, **bound.kwargs)

    return checked


def _converted(name: str, given: Any) -> Any:
    wanted, convert, example = ARGUMENTS[name]
    try:
        return convert(given)
    except (TypeError, ValueError, OverflowError):
        message = f"`{name}` must be {wanted}, not {given!r:.80}"
        raise user_error("argument", message, where=name, hint=f"{name}={example}", stage="arguments") from None


def whole_number(given: Any) -> int:
    """Return a whole number, of Python or numpy, as an int. Raises TypeError for anything else, as for True."""
    if isinstance(given, bool | np.bool_):
        raise TypeError
    return operator.index(given)


def _real_number(given: Any) -> float:
    if isinstance(given, bool | np.bool_) or not isinstance(given, Real):
        raise TypeError
    return float(given)


def _flag(given: Any) -> bool:
    if not isinstance(given, bool | np.bool_):
        raise TypeError
    return bool(given)


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError
    return given


def _path(given: Any) -> str:
    return _text(os.fspath(given))


def _build(given: Any) -> Any:
    return given if isinstance(getattr(given, "folder", None), os.PathLike) else _path(given)


def names_of_tensors(given: Any) -> tuple[str, ...]:
    """Return one name or several as a tuple. Raises TypeError for anything else."""
    return (given,) if isinstance(given, str) else tuple(map(_text, given))


def _progress(given: Any) -> Any:
    return given if isinstance(given, bool) or callable(getattr(given, "stage", None)) else _flag(given)


def _sizes(given: Any) -> dict[str, int]:
    if not isinstance(given, Mapping):
        raise TypeError
    return {_text(name): whole_number(size) for name, size in given.items()}


_FLAGS = "random_calibration witness gate_level bitstream_check waves streaming strict lenient newer check"
_PATHS = {"board": '"icebreaker"', "out": '"folder"', "store": '"folder"', "folding": '"folding.toml"',
          "precision": '"precision.toml"'}  # fmt: skip

ARGUMENTS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "multipliers": ("a whole number", whole_number, "16"),
    "seed": ("a whole number", whole_number, "1"),
    "fps": ("a number", _real_number, "30"),
    "latency_us": ("a number", _real_number, "100"),
    "clock_mhz": ("a number", _real_number, "24"),
    "sqnr": ("a number", _real_number, "30"),
    "accuracy_loss": ("a number", _real_number, "0.5"),
    "dimensions": ("sizes by the names of dimensions", _sizes, '{"batch": 1}'),
    "cut_at": ("names of tensors", names_of_tensors, '"name", or cut_at=["a", "b"]'),
    "build": ("the result of `onnx_hw.build`, or the folder of a build", _build, '"folder"'),
    "progress": ("True, False or an object that receives the progress", _progress, "True"),
    "port": ("a text", _text, '"sim"'),
    "fastest": ("a text", _text, '"rate"'),
    **{name: ("a name or a path", _path, example) for name, example in _PATHS.items()},
    **dict.fromkeys(_FLAGS.split(), ("True or False", _flag, "True")),
}
"""Arguments whose types are checked: what they must be in words, a function that converts them, and an example."""
