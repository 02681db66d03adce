"""HTML of everything that has a picture: the page of a build, and values in a notebook.

The templates lie in the folder `templates` beside this file. They hold every word and every shape; what is shown is
computed by whoever renders.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_hw.messages.text import abridged, printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

LONGEST_NAME = 200  # characters
ON_ONE_LINE = 24  # characters of a name or an option that no line breaks
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
MOST_ROWS = 200  # of a table in a notebook


def render(template: str, **values: Any) -> str:
    """The text of a template: well-formed as XML, every value escaped."""
    return _environment().get_template(template).render(**values)


def render_value(
    title: str,
    facts: Mapping[str, Any],
    caption: str = "",
    columns: Sequence[str] = (),
    rows: Sequence[Sequence[Any]] = (),
) -> str:
    """A value for a notebook: what it is, and a table of which the first column has names."""
    values = {"title": title, "facts": facts, "caption": caption, "columns": columns, "rows": rows}
    return render("value.html", most=MOST_ROWS, **values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def shaped(value: Any) -> Any:
        """Names of the model may hold anything, characters that XML has no place for among them."""
        return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates", encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shaped,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": lambda number: f"{number:,}",
        "percent": lambda share: f"{share:.0%}",
        "figures": figures,
        "duration": duration,
        "marked": marked,
        "abridged": lambda name: abridged(name, LONGEST_NAME),
    }
    return environment


def marked(text: str) -> Markup:
    """A sentence in which names and options may stand between backquotes, these as code; no line breaks an option."""
    from markupsafe import Markup, escape

    parts = printable(text).split("`")
    if len(parts) % 2 == 0:  # a name that has one itself
        return escape(printable(text))
    code = (
        Markup("<code{}>{}</code>").format(Markup(' class="whole"' * (len(part) <= ON_ONE_LINE)), part)
        for part in parts[1::2]
    )
    plain = (Markup(_OPTION.sub(r'<span class="whole">\g<0></span>', str(escape(part)))) for part in parts[::2])
    return Markup("").join(part for pair in zip(plain, (*code, ""), strict=True) for part in pair)


def figures(number: float, digits: int = 4) -> str:
    """So many of them that say something; all of those before the point."""
    return f"{number:,.{digits}g}" if abs(number) < 1e4 else f"{number:,.0f}"


def duration(seconds: float) -> str:
    """``12 s``, ``3.1 ms``, ``25 µs``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
