"""``onnx-hw cache``: what builds share."""

from __future__ import annotations

import re
from pathlib import Path

import click

from onnx_hw.cli.arguments import STORE
from onnx_hw.cli.help_groups import GroupedCommand
from onnx_hw.cli.session import CliSession

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def _bytes(context: click.Context, parameter: click.Parameter, given: str | None) -> int | None:
    """Parse ``10G`` to 10,000,000,000 bytes."""
    if given is None:
        return None
    found = re.fullmatch(r"(\d{1,15})\s*([kKmMgGtT]?)([bB]?)", given.strip())
    if found is None or not (found[2] or found[3] or int(found[1]) == 0):  # a bare 10 hardly means ten bytes
        message = f"it must be a number with its unit, like 10G, 500M or 0, not {given!r}"
        raise click.BadParameter(message, context, parameter)
    return int(found[1]) * _UNITS[found[2].lower()]


@click.command(cls=GroupedCommand, short_help="Show or shrink the results that builds share.")
@STORE
@click.option(
    "--prune",
    callback=_bytes,
    metavar="SIZE",
    help="Keep only the results that were used last, at most SIZE bytes: 10G, 0.",
)
@click.pass_obj
def cache(session: CliSession, store: Path | None, prune: int | None) -> None:
    """Show the contents of the store: results of yosys, nextpnr and packers, each under the digest of its inputs.

    Every build looks into the store first. The output folders of builds stay complete if results are removed here.
    """
    from collections import Counter

    from onnx_hw.runtime.artifact_store import user_store

    place = user_store(store)
    removed = place.prune(prune) if prune is not None else 0
    counts = Counter(stage for stage, _ in place.entries())
    entries = ", ".join(f"{count} {stage}" for stage, count in sorted(counts.items())) or "nothing"
    session.terminal.data(f"{place.path}\n{entries}\n{place.size() / 1e6:,.1f} MB\n")
    if prune is not None:
        session.terminal.note(f"{removed / 1e6:,.1f} MB removed")
