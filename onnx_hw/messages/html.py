"""HTML of everything that has a picture: the page of a build, and values in a notebook.

The templates lie in the folder `templates` next to this file. They hold the words and the shapes; the caller of
``render`` computes the values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from onnx_hw.messages.page_scripts import MAX_NAME, TEMPLATES, embedded, json_of
from onnx_hw.messages.text import abridged, printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

MAX_UNBROKEN = 24  # characters of a name or an option that stays on one line
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
COMMANDS = ("onnx-hw ", "pip ", "gtkwave ")
"""Beginnings of texts that are commands."""

MAX_ROWS = 200  # of a table in a notebook


def render(template: str, **values: Any) -> str:
    """Return the text of a template, well-formed as XML, with every value escaped."""
    return _environment().get_template(template).render(**values)


def render_value(
    title: str,
    facts: Mapping[str, Any],
    caption: str = "",
    columns: Sequence[str] = (),
    rows: Sequence[Sequence[Any]] = (),
) -> str:
    """Return a value for a notebook: a title, short facts by name, and a table, whose rows begin with a name."""
    values = {"title": title, "facts": facts, "caption": caption, "columns": columns, "rows": rows}
    return render("value.html", most=MAX_ROWS, **values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def escaped(value: Any) -> Any:
        """Escape what XML cannot hold; a name in the model may have any character."""
        return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=escaped,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": lambda number: f"{number:,}",
        "percent": lambda share: f"{share:.0%}",
        "figures": figures,
        "duration": duration,
        "marked": marked,
        "abridged": lambda name: abridged(name, MAX_NAME),
        "json": json_of,
    }
    environment.globals["embedded"] = embedded
    return environment


def marked(text: str) -> Markup:
    """Return a sentence with names and options between backquotes as code; no line breaks within an option.

    Commands get the class ``command``; the page has a button that copies them.
    """
    from markupsafe import Markup, escape

    parts = printable(text).split("`")
    if len(parts) % 2 == 0:  # a name that contains a backquote itself
        return escape(printable(text))
    code = (Markup("<code{}>{}</code>").format(_classes(part), part) for part in parts[1::2])
    plain = (Markup(_OPTION.sub(r'<span class="whole">\g<0></span>', str(escape(part)))) for part in parts[::2])
    return Markup("").join(part for pair in zip(plain, (*code, ""), strict=True) for part in pair)


def _classes(code: str) -> Markup:
    from markupsafe import Markup

    classes = ["command"] * code.startswith(COMMANDS) + ["whole"] * (len(code) <= MAX_UNBROKEN)
    return Markup(f' class="{" ".join(classes)}"' if classes else "")


def figures(number: float, digits: int = 4) -> str:
    """Return a number with ``digits`` significant digits and all digits before the decimal point, without a power of
    ten.

    >>> figures(2604.2, 3), figures(0.00001234), figures(1e7)
    ('2,604', '0.00001234', '10,000,000')
    """
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    places = max(0, digits - 1 - int(f"{number:.{digits - 1}e}".partition("e")[2]))
    text = f"{number:,.{places}f}"
    return text.rstrip("0").rstrip(".") if places else text


def frame_rate(frames_per_second: float) -> str:
    """Return a rate such as ``2,604 frames/s`` or ``0.26 frames/s``."""
    return f"{figures(frames_per_second, 3)} frames/s"


def duration(seconds: float) -> str:
    """Return a duration such as ``12 s``, ``3.1 ms`` or ``25 µs``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{figures(seconds / size, 3)} {unit}"
    return f"{figures(seconds * 1e9, 3)} ns"
