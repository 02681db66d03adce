"""Groups of commands and options in ``--help``, and the terms that it uses."""

from __future__ import annotations

import re
from collections.abc import Mapping

import click

WIDEST_HELP = 120
"""Characters of a line of help on a terminal that has them."""

COMMAND_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Begin": ("example", "check", "boards", "doctor"),
    "Build": ("build", "explore"),
    "Look": ("run", "report", "verify"),
    "Board": ("program", "infer", "update"),
    "Tools": ("cache", "ops"),
}
"""Commands by the heading below which they are listed."""

OPTION_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Model": (
        "--board",
        "--chip",
        "--fits",
        "--onnx-only",
        "--cut-at",
        "--state",
        "--streaming",
        "--dim",
        "--strict",
        "--lenient",
        "--newer",
    ),
    "Samples": ("--inputs", "--calibration", "--resize", "--random-calibration", "--frames"),
    "Integers": ("--bits", "--precision", "--sqnr", "--accuracy-loss", "--output-kind"),
    "Speed and size": ("--fps", "--latency", "--fastest", "--multipliers", "--clock", "--folding"),
    "Weights": ("--weights", "--memory"),
    "Search": ("--seeds", "--stop-at", "--budget", "--everything"),
    "Proof": ("--engine", "--stalls", "--no-witness", "--no-gate-level", "--no-bitstream-check", "--waves"),
    "Port": ("--port", "--check", "--self-test", "--flash", "--dry-run"),
    "Output": ("--out", "--stop-after", "--json", "--open", "--verbose"),
    "Tools": ("--seed", "--jobs", "--scheduler", "--store", "--prune", "--help", "--version"),
}
"""Options by the heading below which they are listed. An option has one meaning, so a name is here once."""

OTHER = "Other"

COMMAND_EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "example": ("onnx-hw example digits",),
    "check": ("onnx-hw check digits/digits.onnx",),
    "boards": ("onnx-hw boards", "onnx-hw boards digits/digits.onnx --fits"),
    "doctor": ("onnx-hw doctor",),
    "build": (
        "onnx-hw build digits/digits.onnx --board icebreaker",
        "onnx-hw build digits/digits_float.onnx --bits 6 \\\n    --calibration digits/digits_calibration.npz",
    ),
    "explore": ("onnx-hw explore digits/digits.onnx --multipliers 4,16 \\\n    --stop-after schedule",),
    "run": ("onnx-hw run digits/digits.onnx \\\n    --inputs digits/digits_test.npz",),
    "report": ("onnx-hw report digits-icebreaker",),
    "verify": ("onnx-hw verify digits-icebreaker --frames 500",),
    "program": ("onnx-hw program digits-icebreaker --flash",),
    "infer": (
        "onnx-hw infer digits-icebreaker --self-test --port sim",
        "onnx-hw infer digits-icebreaker --check \\\n    --inputs digits/digits_test.npz",
    ),
    "update": ("onnx-hw update digits-icebreaker digits/digits.onnx",),
    "cache": ("onnx-hw cache", "onnx-hw cache --prune 10G"),
    "ops": ("onnx-hw ops > operators.md",),
}
"""Examples at the end of each command's help. They can be typed one after the other, in this order."""

TERMS: Mapping[str, str] = {
    "lane": "one multiplier and what belongs to it: one product per clock cycle",
    "link": "the way from the host into the chip of a board: a serial line, with packets that are checked",
    "interval": "clock cycles from one frame to the next; the clock divided by it is the rate",
    "folding": "how parallel a core is: more folding means less hardware and more cycles",
}
"""Terms that a help text explains if it uses them; docs/glossary.md has all of them."""


class GroupedCommand(click.Command):
    """Command whose help lists its options below headings, explains the terms that it uses, and ends with examples."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(context):
            record = parameter.get_help_record(context)
            if record is not None and isinstance(parameter, click.Option):
                rows.setdefault(group_of(parameter), []).append(record)
        width = max(len(first) for records in rows.values() for first, _ in records)
        for heading in (*OPTION_GROUPS, OTHER):
            if heading in rows:
                with formatter.section(heading):
                    formatter.write_dl([(first.ljust(width), text) for first, text in rows[heading]])

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(context, formatter)
        write_terms(formatter)
        if examples := COMMAND_EXAMPLES.get(self.name or ""):
            with formatter.section("Examples"):
                for example in examples:
                    formatter.write("".join(f"  {line}\n" for line in example.splitlines()))


def group_of(parameter: click.Parameter) -> str:
    """Return the heading of an option."""
    for heading, names in OPTION_GROUPS.items():
        if set(names) & set(parameter.opts):
            return heading
    return OTHER


def write_commands(commands: Mapping[str, click.Command], formatter: click.HelpFormatter) -> None:
    """Write the commands, by name, below their headings."""
    width = max(map(len, commands))
    listed = {name for names in COMMAND_GROUPS.values() for name in names}
    others = tuple(name for name in commands if name not in listed)
    for heading, names in {**COMMAND_GROUPS, OTHER: others}.items():
        present = [name for name in names if name in commands]
        if present:
            with formatter.section(heading):
                texts = (commands[name].get_short_help_str(formatter.width) for name in present)
                formatter.write_dl([(name.ljust(width), text) for name, text in zip(present, texts, strict=True)])


def write_terms(formatter: click.HelpFormatter) -> None:
    """Write the meaning of each term that the help contains so far."""
    text = formatter.getvalue().lower()
    terms = [(term, meaning) for term, meaning in TERMS.items() if re.search(rf"\b{term}s?\b", text)]
    if terms:
        with formatter.section("Terms"):
            formatter.write_dl(terms)
