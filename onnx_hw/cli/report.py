"""``onnx-hw report``: the report of a build, or two of them side by side."""

from __future__ import annotations

import os
from pathlib import Path

import click

from onnx_hw.cli.arguments import FILE
from onnx_hw.cli.help_groups import GroupedCommand
from onnx_hw.cli.session import CliSession


@click.command("report", cls=GroupedCommand, short_help="Show a build's report, or compare two builds.")
@click.argument("folder", metavar="DIR", type=FILE)
@click.argument("other", metavar="[DIR2]", type=FILE, required=False)
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Open the page in a browser.  [default: open it if there is a screen]",
)
@click.pass_obj
def report(session: CliSession, folder: Path, other: Path | None, opens: bool | None) -> None:
    """Show a summary of the report of the build in DIR, and open the full report in a browser.

    With DIR2, compare both builds.
    """
    import webbrowser

    from onnx_hw.cli.show.report_tables import summary
    from onnx_hw.report.html import comparison, page
    from onnx_hw.report.read import read_report
    from onnx_hw.runtime.build_folder import opened

    report_of_build = read_report(folder)
    if other is None:
        name, text = page.PAGE, page.page(report_of_build)
        session.terminal.show(summary(report_of_build, folder))
    else:
        both = comparison.compare(
            report_of_build, read_report(other), (folder.name or str(folder), other.name or str(other))
        )
        name, text = comparison.PAGE, both.page()
        session.terminal.show(both.shown())
    with opened(folder) as build:
        build.write(name, text)
        place = build.path / name
    session.terminal.note(str(folder / name))
    if opens or (opens is None and _there_is_a_screen()):
        webbrowser.open(place.as_uri())


def _there_is_a_screen() -> bool:
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
