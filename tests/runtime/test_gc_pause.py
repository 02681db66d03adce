"""Garbage collection is paused, and takes up where it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from onnx_hw.runtime.gc_pause import garbage_collection_paused


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Whatever a test leaves."""
    yield
    gc.unfreeze()
    gc.enable()


def test_what_is_made_in_a_pause_counts_as_old() -> None:
    """So that the first look for garbage among young values does not go through all of it."""
    with garbage_collection_paused():
        assert not gc.isenabled()
        made = [object()]
    assert gc.isenabled() and gc.get_freeze_count() == 0
    assert any(each is made for each in gc.get_objects(generation=2))


def test_what_others_froze_stays_frozen() -> None:
    gc.freeze()
    with garbage_collection_paused():
        pass
    assert gc.get_freeze_count() > 0


def test_nobody_looks_who_did_not_before() -> None:
    gc.disable()
    with garbage_collection_paused():
        pass
    assert not gc.isenabled()
