"""The folding as a text that people edit: TOML, one line per node; and per FIFO whose depth is not to be computed.

[folding]
"conv1" = { in_lanes = 9, out_lanes = 4 }
"requantize1" = { lanes = 1, steps = 7 }
"conv2" = { in_lanes = 9, out_lanes = 4, multiplier = "logic" }

[fifo]
"y" = 17

The names are the fields of the operator's folding type. ``steps`` are the cycles per beat of a core that may take its
time; 1 where nothing is said. ``multiplier`` says what products are made of, of the chip's own multipliers where
nothing is said. A depth belongs to the stream of a tensor, in tokens; the lanes above decide what a token
is, and which streams there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import Problem, UserError, user_error
from onnx_hw.messages.near_paths import hint_for_missing_file
from onnx_hw.messages.text import did_you_mean
from onnx_hw.messages.toml import quoted, read_toml
from onnx_hw.ops.folding import Folding, MultiplierKind
from onnx_hw.schedule.cut_products import forked

MAX_FILE_BYTES = 1 << 24
"""Bytes of a file at most; that of a large network has some hundred thousand."""

MAX_NUMBER = 1 << 31
"""Bound of all numbers; no lanes, steps or depths come near it."""


def to_text(design: Design, chosen: Mapping[str, Folding]) -> str:
    """Write the file for the foldings of a design's nodes, gearboxes left out: they follow from the others.

    FIFO depths stand there as comments: a changed folding needs new ones.
    """
    lines = [
        "# Integers per beat of each core's streams (in and out, where they differ), steps per beat. Read it back with",
        '# --folding. Where there are products, multiplier = "logic" makes them of look-up tables.',
        "[folding]",
    ]
    for node in design.network.nodes:
        if node.name in chosen:
            fold = chosen[node.name]
            cycles = node.operator.cycles(fold)
            comment = f"{node.operator!r}, {cycles} cycles"
            said = ", ".join(f"{name} = {_written(value)}" for name, value in fold.said().items())
            lines.append(f"{quoted(node.name)} = {{ {said} }}  # {comment}")
    lines += [
        "",
        "# Tokens each FIFO holds. They are computed; take away a # to keep one. With fewer than `live` the circuit",
        "# comes to a stop, with fewer than `rate` it is slower.",
        "[fifo]",
    ]
    for tensor, size in design.fifos.items():
        lines.append(f"# {quoted(tensor)} = {size.depth}  # live {size.live_depth}, rate {size.rate_depth}")
    return "\n".join(lines) + "\n"


def read_foldings(path: Path, network: Network) -> tuple[dict[str, Folding], dict[str, int]]:
    """Read the foldings of every node of a network (with forks, and products cut as the names say), and the given FIFO
    depths.

    Which tensors have a FIFO follows from the foldings: ``size_fifos`` checks their names.

    Raises:
        UserError: everything that is wrong with the file, at once.
    """
    stored = read_toml(path, MAX_FILE_BYTES, lambda must_be: _unreadable(path, must_be))
    table = stored.get("folding")
    if not isinstance(table, dict):
        raise user_error("folding-file", "the folding file must have a table [folding]", where=str(path))
    problems: list[Problem] = []
    foldings: dict[str, Folding] = {}
    network = forked(network, table)
    names = [node.name for node in network.nodes]
    for name in table:
        if name not in names:
            problems.append(
                _problem("folding-node", f"there is no core `{name}`", str(path), did_you_mean(name, names))
            )
    for node in network.nodes:
        where = f"{path} [folding] {quoted(node.name)}"
        entry = table.get(node.name)
        if entry is None:
            problems.append(_problem("folding-missing", f"the core `{node.name}` must have a folding", where))
            continue
        kind = node.operator.folding_type
        values = entry if isinstance(entry, dict) else {}
        whole = all(_is_kind(value) if name == "multiplier" else _is_count(value) for name, value in values.items())
        if not set(kind.required()) <= set(values) <= set(kind.names()) or not whole:
            problems.append(
                _problem("folding-entry", f"this folding must be {_form(kind)}, not {_shown(entry)}", where)
            )
            continue
        folding = kind(**{name: MultiplierKind(v) if name == "multiplier" else v for name, v in values.items()})
        reason = node.operator.illegal(folding)
        if reason:
            problems.append(_problem("folding-lanes", f"{reason}, not {folding!r}", where))
        foldings[node.name] = folding
    depths = stored.get("fifo", {})
    if not isinstance(depths, dict):
        problems.append(_problem("fifo-table", "the FIFO depths must be a table [fifo]", str(path)))
        depths = {}
    for tensor, depth in depths.items():
        if not _is_count(depth) or depth < 1:
            where = f"{path} [fifo] {quoted(tensor)}"
            problems.append(_problem("fifo-depth", f"a FIFO must hold 1 token or more, not {_shown(depth)}", where))
    problems += [
        _problem("folding-table", f"there is no table [{table}]", str(path), did_you_mean(table, ("folding", "fifo")))
        for table in stored
        if table not in ("folding", "fifo")
    ]
    if problems:
        raise UserError(*problems)
    return foldings, depths


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < MAX_NUMBER


def _is_kind(value: object) -> bool:
    return value in [kind.value for kind in MultiplierKind]


def _written(value: int | MultiplierKind) -> str:
    return str(value) if isinstance(value, int) else quoted(value.value)


def _shown(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # an integer of more digits than Python writes out
        return "an integer of thousands of digits"


def _form(kind: type[Folding]) -> str:
    """Return the form of an entry: ``{ lanes = N }, optionally with steps = N``."""
    kinds = " or ".join(_written(kind) for kind in MultiplierKind)
    optional = [name for name in kind.names() if name not in kind.required()]
    options = [f"{name} = {kinds if name == 'multiplier' else 'N'}" for name in optional]
    needed = ", ".join(f"{name} = N" for name in kind.required())
    return f"{{ {needed} }}" + (f", optionally with {', '.join(options)}" if options else "")


def _problem(code: str, message: str, where: str, hint: str = "") -> Problem:
    return Problem(code, message, where, hint, "schedule")


def _unreadable(path: Path, must_be: str) -> UserError:
    hint = hint_for_missing_file(path, "each build writes one that is right: folding.toml in its folder")
    return user_error(
        "folding-file", f"the folding file must be {must_be}", where=str(path), hint=hint, stage="schedule"
    )
