"""Hints for an unknown option or command: its new name, its name in other tools, or the nearest name."""

from __future__ import annotations

from collections.abc import Collection

import click

from onnx_hw.messages.text import nearest

RENAMED = {"--until": "--stop-after", "--output": "--output-kind"}
"""Options that had another name up to version 0.1, by that name."""

OPTIONS_ELSEWHERE = {
    "--bits": ("bitwidth", "bit-width", "weight-bits", "weights-bits", "data-bits", "width"),
    "--board": ("b", "target", "device", "part", "fpga", "chip", "package"),
    "--calibration": ("calib", "dataset", "data", "representative-dataset"),
    "--clock": ("f", "freq", "frequency", "mhz", "clk", "period"),
    "--fps": ("throughput", "rate", "target-fps", "fps-target"),
    "--inputs": ("i", "input", "samples"),
    "--out": ("o", "output", "output-dir", "output-folder", "outdir", "build-dir"),
    "--seed": ("random-seed", "seed-value"),
    "--verbose": ("v", "debug"),
}
"""Names that other programs give to what an option here does, without dashes, by the option."""

COMMANDS_ELSEWHERE = {
    "boards": ("list", "devices", "targets", "list-boards"),
    "build": ("compile", "convert", "synth", "synthesize", "generate"),
    "check": ("inspect", "info", "validate", "lint"),
    "infer": ("predict", "inference"),
    "program": ("flash", "upload", "load", "burn"),
    "run": ("simulate", "sim", "eval"),
    "verify": ("test", "prove"),
    "--help": ("help",),
    "--version": ("version",),
}
"""Names that other programs give to what a command here does, by the command."""


class UnknownCommand(click.UsageError):
    """Error that a command does not exist; ``hint`` is what may have been meant, or empty."""

    def __init__(self, name: str, commands: Collection[str], context: click.Context) -> None:
        super().__init__(f"there is no command `{name}`", context)
        self.hint = hint_for_command(name, commands)


def hint_for_option(name: str, options: Collection[str]) -> str:
    """Return what to write in place of an option that a command does not have; empty if nothing is near.

    >>> hint_for_option("--bord", ["--board", "--out"])
    'did you mean `--board`?'
    >>> hint_for_option("-o", ["--board", "--out"])
    'did you mean `--out`?'
    """
    if RENAMED.get(name) in options:
        renamed = f"it is called `{RENAMED[name]}` now"
        other = _meant(name.lstrip("-"), OPTIONS_ELSEWHERE, options)
        return f"{renamed}; or did you mean `{other}`?" if other else renamed
    close = nearest(name.lstrip("-"), [option.lstrip("-") for option in options if option.startswith("--")])
    return _question(_meant(name.lstrip("-"), OPTIONS_ELSEWHERE, options) or (close and f"--{close}"))


def hint_for_command(name: str, commands: Collection[str]) -> str:
    """Return what to write in place of a command that does not exist; empty if nothing is near.

    >>> hint_for_command("compile", ["build", "check", "verify"])
    'did you mean `build`?'
    """
    known = (*commands, "--help", "--version")
    return _question(_meant(name, COMMANDS_ELSEWHERE, known) or nearest(name, commands))


def _meant(name: str, elsewhere: dict[str, tuple[str, ...]], known: Collection[str]) -> str:
    return next((ours for ours, theirs in elsewhere.items() if name.lower() in theirs and ours in known), "")


def _question(name: str) -> str:
    return f"did you mean `{name}`?" if name else ""
