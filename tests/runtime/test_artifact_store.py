"""One store for all builds: what is in it is whole, and what was changed is not taken."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from onnx_hw.commands.explore.store_transfer import Damaged, pack, unpack
from onnx_hw.runtime.artifact_store import RECORD, Store
from onnx_hw.runtime.build_folder import BuildFolder


def folder(path: Path, store: Store) -> BuildFolder:
    path.mkdir(exist_ok=True)
    return BuildFolder(path, store)


def made(build: BuildFolder, inputs: object, text: str = "result") -> tuple[bool, str]:
    """Whether the stage was cached, and what lies in its folder."""
    done = build.stage("route", inputs, lambda place: (place / "out").write_text(text) and None)
    return done.cached, (done.folder / "out").read_text()


def test_what_one_build_has_made_others_have(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    assert made(folder(tmp_path / "a", store), 1) == (False, "result")
    assert made(folder(tmp_path / "b", store), 1, "not made") == (True, "result")
    assert made(folder(tmp_path / "b", store), 2, "other") == (False, "other")
    assert made(folder(tmp_path / "b", store), 1, "not made") == (True, "result"), "the folder's slot, changed back"
    alone = BuildFolder(tmp_path / "b")
    assert made(alone, 3, "third") == (False, "third") and len(list(store.entries())) == 2


def test_a_changed_file_is_not_taken(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    made(folder(tmp_path / "a", store), 1)
    (entry,) = (entry for _, entry in store.entries())
    changed = entry.folder / "out"
    assert changed.stat().st_mode & 0o222 == 0, "nobody is to write it"
    changed.chmod(0o644)
    changed.write_text("changed")
    assert store.find("route", entry.digest) is None
    assert made(folder(tmp_path / "b", store), 1, "again") == (False, "again")
    assert (store.find("route", entry.digest) or entry).folder.joinpath("out").read_text() == "again"


def test_many_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda k: made(folder(tmp_path / str(k), store), k % 3, f"of {k % 3}"), range(40)))
        assert len(set(pool.map(lambda k: Store(tmp_path / "store").identity, range(8)))) == 1
    assert [text for _, text in done] == [f"of {k % 3}" for k in range(40)]
    assert len(list(store.entries())) == 3 and not [*store.path.glob("*/.*")]


def test_pruning_takes_what_was_not_used_for_longest(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for k in range(4):
        made(folder(tmp_path / str(k), store), k, "x" * 1000)
    for number, (_, entry) in enumerate(sorted(store.entries(), key=lambda found: found[1].digest)):
        os.utime(entry.folder / RECORD, (number, number))
    first = [entry.digest for _, entry in store.entries()]
    assert store.find("route", first[0]) is not None, "used now"
    removed = store.prune(store.size() // 2)
    left = {entry.digest for _, entry in store.entries()}
    assert removed > 2000 and first[0] in left and len(left) == 2
    assert made(BuildFolder(tmp_path / "0"), 0, "") == (True, "x" * 1000), "a build's own files stay"
    assert store.prune(0) and not list(store.entries())


def test_parcels(tmp_path: Path) -> None:
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    made(folder(tmp_path / "a", here), 1, "y" * 10_000)
    (digest,) = (entry.digest for _, entry in here.entries())
    parcel = pack(here, "route", digest)
    assert parcel.size < 1000
    with pytest.raises(KeyError):
        pack(there, "route", digest)
    for files in (
        {**parcel.files, "out": parcel.files[RECORD]},
        {**parcel.files, "out": parcel.files["out"][:-3]},
        {**parcel.files, "out": b"nothing"},
        {**parcel.files, "../out": parcel.files["out"]},
        {name: data for name, data in parcel.files.items() if name != RECORD},
    ):
        with pytest.raises(Damaged):
            unpack(replace(parcel, files=files), there)
    with pytest.raises(Damaged):
        unpack(replace(parcel, digest="0" * 64), there)
    with pytest.raises(ValueError, match="no place"):
        there.find("../route", digest)
    assert not list(there.entries()) and not (tmp_path / "out").exists()
    unpack(parcel, there)
    assert made(folder(tmp_path / "b", there), 1, "") == (True, "y" * 10_000)
    assert json.loads((tmp_path / "b" / "route" / RECORD).read_text())["digest"] == digest
