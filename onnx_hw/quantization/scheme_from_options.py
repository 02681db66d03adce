"""Quantization scheme from the options of the command line, and the precision file with the bits of single layers and
values.

[weights]
"conv1" = 4

[data]
"relu1" = 10
"power" = "exact"

Weights are named by their node, or by its output if the node has no name; data by the names of values. An exact value
has no integers of its own (``exact_values.py``).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from onnx_hw.messages.errors import Problem, UserError, user_error
from onnx_hw.messages.near_paths import hint_for_missing_file
from onnx_hw.messages.toml import quoted, read_toml
from onnx_hw.quantization.goal import Goal
from onnx_hw.quantization.scheme import DEFAULT, MAX_BITS, Precision, Scheme
from onnx_hw.runtime.options import QuantizeOptions

EXACT = "exact"
"""Entry of a precision file for a value without integers of its own."""

MAX_FILE_BYTES = 1 << 22
"""Greatest size of a precision file, in bytes."""


def scheme_from_options(options: QuantizeOptions) -> Scheme | None:
    """Return the scheme that the options ask for; None where they ask for nothing.

    Raises:
        UserError: a number of bits is out of range; every problem of the file.
    """
    if options == QuantizeOptions():
        return None
    weights, data = (
        default if bits is None else replace(default, bits=bits)
        for default, bits in ((DEFAULT.weights, options.weights), (DEFAULT.data, options.data))
    )
    goal = None
    if options.sqnr is not None or options.accuracy_loss is not None:
        goal = Goal(options.sqnr, options.accuracy_loss)
    overrides, exact = {"weights": dict[str, int](), "data": dict[str, int]()}, frozenset[str]()
    if options.precision is not None:
        overrides, exact = read_precision_file(options.precision)
    return Scheme(
        data=data,
        weights=weights,
        output=options.output or DEFAULT.output,
        data_overrides={name: replace(data, bits=bits) for name, bits in overrides["data"].items()},
        weight_overrides={name: replace(weights, bits=bits) for name, bits in overrides["weights"].items()},
        exact=exact,
        goal=goal,
        widen=options.data is None and options.weights is None and options.precision is None and goal is None,
    )


def format_precision_file(scheme: Scheme) -> str:
    """Return the text of the precision file that repeats a scheme."""
    lines = []
    for table, overrides in (("weights", scheme.weight_overrides), ("data", scheme.data_overrides)):
        lines += [f"[{table}]", *(f"{quoted(name)} = {precision.bits}" for name, precision in overrides.items()), ""]
    lines[-1:] = [*(f'{quoted(name)} = "{EXACT}"' for name in sorted(scheme.exact)), ""]
    return "\n".join(lines)


def read_precision_file(path: Path) -> tuple[dict[str, dict[str, int]], frozenset[str]]:
    """Return the bits that a file gives, by table and name, and the names of exact values.

    Raises:
        UserError: every problem of the file.
    """
    stored = read_toml(path, MAX_FILE_BYTES, lambda must_be: _unreadable(path, must_be))
    widths = {"weights": dict[str, int](), "data": dict[str, int]()}
    problems, exact = [], set[str]()
    for table, entries in stored.items():
        if table not in widths or not isinstance(entries, dict):
            problems.append(_problem(path, "there must be tables [weights] and [data], and nothing else"))
            continue
        minimum, other = _least(table), f', or "{EXACT}"' if table == "data" else ""
        for name, bits in entries.items():
            if bits == EXACT and table == "data":
                exact.add(name)
            elif not isinstance(bits, int) or isinstance(bits, bool) or not minimum <= bits <= MAX_BITS:
                problems.append(
                    _problem(path, f"the bits of `{name}` in [{table}] must be {minimum} to {MAX_BITS}{other}")
                )
            else:
                widths[table][name] = bits
    if problems:
        raise UserError(*problems)
    return widths, frozenset(exact)


def _least(table: str) -> int:
    default: Precision = getattr(DEFAULT, table)
    return 1 + default.symmetric


def _problem(path: Path, message: str) -> Problem:
    return Problem("precision-file", message, str(path), stage="arguments")


def _unreadable(path: Path, must_be: str) -> UserError:
    otherwise = "docs/quantization.md shows one; a build with --sqnr or --accuracy-loss writes one, too: precision.toml"
    return user_error(
        "precision-file",
        f"the precision file must be {must_be}",
        where=str(path),
        hint=hint_for_missing_file(path, otherwise),
        stage="arguments",
    )
