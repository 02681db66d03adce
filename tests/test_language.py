"""First words of docstrings, and phrases that a reader has to decipher (CONTRIBUTING.md, Language)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from support.fixture_paths import CHECKOUT

PRODUCT = ("onnx_hw", "rtl", "sim", "boards")
SOURCES = sorted(path for root in PRODUCT for path in (CHECKOUT / root).rglob("*.py"))
PAGES = sorted(path for path in (CHECKOUT / "onnx_hw/messages/templates").iterdir() if path.is_file())
DOCUMENTS = sorted([CHECKOUT / "README.md", *CHECKOUT.glob("docs/*.md"), *CHECKOUT.glob("examples/*/*.md")])

FRAGMENTS = frozenset(re.findall(r"\w+", "Of That What Which Whom Whose Where By As"))
"""First words of fragments whose subject is hidden."""

HEADING = re.compile(r"(Attributes|Args|Ports|Returns|Raises):")
"""Headings, which stand below a first sentence."""

NOT_VERBS = frozenset(
    re.findall(
        r"\w+",
        """
        A An The Every Each All Any Some No None Not Nothing Everything Both Either Neither Only Such Same Other Another
        It Its This These Those There How Who When Why Whether While If Once One Two Many Few More Most Least Less
        In On At For From To With Without Into Behind Before After Until Between Under Over Per And Or But Then Here
        Now Is Are Has Have Does Can May Must
        """,
    )
)
"""First words with which no imperative begins."""

PHRASES = re.compile(r"\b(is none|that are none|so many|whoever)\b")
"""Phrases that are not plain English."""


def documented(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the strings that stand behind assignments: docstrings of constants and fields."""
    for before, after in pairwise(body):
        text = after.value if isinstance(after, ast.Expr) else None
        constant = isinstance(before, (ast.Assign, ast.AnnAssign)) and isinstance(text, ast.Constant)
        if constant and isinstance(text.value, str):
            yield text.value


def docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of every docstring: ``function``, or ``noun`` for modules, classes and constants."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef)):
            yield from (("noun", text) for text in (ast.get_docstring(node), *documented(node.body)) if text)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            decorators = " ".join(map(ast.unparse, node.decorator_list))
            kind = "noun" if "property" in decorators or ".setter" in decorators else "function"
            yield from ((kind, text) for text in (ast.get_docstring(node),) if text)


def fault_of(kind: str, text: str) -> str:
    """Return why a docstring must not begin as it does, or an empty string."""
    match = re.match(r"[A-Za-z']+", text.strip())
    first = match[0] if match else ""
    if HEADING.match(text.strip()):
        return "must begin with a sentence, before its headings"
    if first in FRAGMENTS:
        return f"begins with {first!r}"
    if kind == "function" and (not first[:1].isupper() or first in NOT_VERBS):
        return "must begin with an imperative verb"
    return ""


@pytest.mark.parametrize("root", PRODUCT)
def test_docstrings_begin_well(root: str) -> None:
    faults = [
        f"{path.relative_to(CHECKOUT)}: {fault}: {text.strip().splitlines()[0]}"
        for path in SOURCES
        if path.is_relative_to(CHECKOUT / root)
        for kind, text in docstrings(ast.parse(path.read_text("utf-8")))
        if (fault := fault_of(kind, text))
    ]
    assert not faults, "\n".join(faults)


def test_phrases_are_plain() -> None:
    faults = [
        f"{path.relative_to(CHECKOUT)}:{number}: {line.strip()}"
        for path in (*SOURCES, *PAGES, *DOCUMENTS)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if PHRASES.search(line)
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("noun", "Of a payload."),
        ("noun", "Attributes: its bits."),
        ("function", "The frames."),
        ("function", "``x`` twice."),
        ("function", "returns it"),
    ],
)
def test_a_bad_beginning_is_seen(kind: str, text: str) -> None:
    assert fault_of(kind, text)


@pytest.mark.parametrize(("kind", "text"), [("noun", "Bits of a payload."), ("function", "Return the frames.")])
def test_a_good_beginning_passes(kind: str, text: str) -> None:
    assert not fault_of(kind, text)


def test_a_phrase_is_seen() -> None:
    assert PHRASES.search("numbers that are none") and not PHRASES.search("none of the numbers")
