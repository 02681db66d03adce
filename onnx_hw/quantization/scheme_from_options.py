"""The scheme that a user's options ask for, and the file with the bits of single layers and values.

[weights]
"conv1" = 4

[data]
"relu1" = 10

Weights go by the name of their node, or of its output if it has none; data by the names of values.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from onnx_hw.messages.errors import Problem, UserError, user_error
from onnx_hw.messages.toml import quoted, read_toml
from onnx_hw.quantization.goal import Goal
from onnx_hw.quantization.scheme import DEFAULT, MAX_BITS, Precision, Scheme
from onnx_hw.runtime.options import QuantizeOptions

LARGEST = 1 << 22
"""Bytes of a file."""


def scheme_from_options(asked: QuantizeOptions) -> Scheme | None:
    """None where nothing is asked for.

    Raises:
        UserError: a number of bits that cannot be; everything that is wrong with the file.
    """
    if asked == QuantizeOptions():
        return None
    weights, data = (
        usual if bits is None else replace(usual, bits=bits)
        for usual, bits in ((DEFAULT.weights, asked.weights), (DEFAULT.data, asked.data))
    )
    goal = None
    if asked.sqnr is not None or asked.accuracy_loss is not None:
        goal = Goal(asked.sqnr, asked.accuracy_loss)
    single = {"weights": dict[str, int](), "data": dict[str, int]()}
    if asked.precision is not None:
        single = read_precision_file(asked.precision)
    return Scheme(
        data=data,
        weights=weights,
        output=asked.output or DEFAULT.output,
        data_overrides={name: replace(data, bits=bits) for name, bits in single["data"].items()},
        weight_overrides={name: replace(weights, bits=bits) for name, bits in single["weights"].items()},
        goal=goal,
    )


def format_precision_file(scheme: Scheme) -> str:
    """The file with which a scheme is repeated."""
    lines = []
    for table, overrides in (("weights", scheme.weight_overrides), ("data", scheme.data_overrides)):
        lines += [f"[{table}]", *(f"{quoted(name)} = {one.bits}" for name, one in overrides.items()), ""]
    return "\n".join(lines)


def read_precision_file(path: Path) -> dict[str, dict[str, int]]:
    """The bits that a file gives, by its tables.

    Raises:
        UserError: everything that is wrong with the file.
    """
    stored = read_toml(path, LARGEST, lambda must_be: _unreadable(path, must_be))
    found = {"weights": dict[str, int](), "data": dict[str, int]()}
    problems = []
    for table, entries in stored.items():
        if table not in found or not isinstance(entries, dict):
            problems.append(_problem(path, "there must be tables [weights] and [data], and nothing else"))
            continue
        least = _least(table)
        for name, bits in entries.items():
            if not isinstance(bits, int) or isinstance(bits, bool) or not least <= bits <= MAX_BITS:
                problems.append(_problem(path, f"the bits of `{name}` in [{table}] must be {least} to {MAX_BITS}"))
            else:
                found[table][name] = bits
    if problems:
        raise UserError(*problems)
    return found


def _least(table: str) -> int:
    usual: Precision = getattr(DEFAULT, table)
    return 1 + usual.symmetric


def _problem(path: Path, message: str) -> Problem:
    return Problem("precision-file", message, str(path), stage="arguments")


def _unreadable(path: Path, must_be: str) -> UserError:
    return user_error("precision-file", f"the precision file must be {must_be}", where=str(path), stage="arguments")
