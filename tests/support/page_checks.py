"""Checks of a page: well-formed, one file without references, and everything in it in words too."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

RUNNING = re.compile(r"<script>.*?</script>|<style>.*?</style>", re.DOTALL)


def words(text: str) -> str:
    """Return what a reader sees without scripts, in one line."""
    body = RUNNING.sub("", text[text.index("<body") :])
    body = re.sub(r'<script type="application/json".*?</script>', "", body, flags=re.DOTALL)
    found: list[str] = []
    parser = HTMLParser()
    parser.handle_data = found.append  # type: ignore[assignment, method-assign]
    parser.feed(body)
    return " ".join(" ".join(found).split())


def data_of(text: str) -> dict[str, Any]:
    """Return the values that the page's scripts read, by the element's id."""
    found = re.findall(r'<script type="application/json" id="(\w+)">(.*?)</script>', text, re.DOTALL)
    return {name: json.loads(value) for name, value in found}


def check_page(text: str) -> ElementTree.Element:
    """Return the root of a page; assert that it is well-formed and loads nothing."""
    root = ElementTree.fromstring(text)
    assert "default-src 'none'" in text, "the browser must refuse to load anything"
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert not {"link", "iframe", "object", "base"} & set(tags)
    identifiers = {element.get("id") for element in root.iter()}
    for element in root.iter():
        assert not {"onclick", "onload", "onerror"} & set(element.attrib)
        assert element.get("src", "data:").startswith("data:")
        href = element.get("href")
        assert href is None or (href.startswith("#") and href[1:] in identifiers), f"{href} leads nowhere"
        tag = element.tag.rpartition("}")[2]
        inner = {child.tag.rpartition("}")[2] for child in element.iter()}
        assert tag != "table" or {"caption", "th"} <= inner
        assert tag != "svg" or element.get("aria-label")
        assert element.get("role") != "img" or element.get("aria-label")
        assert tag != "img" or element.get("alt")
    assert not re.search(r"url\(|@import", text)
    return root
