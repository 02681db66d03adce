"""Tensor data in a file next to the model: located safely, checked before it is touched, mapped, never copied.

A model may come from anywhere, so a location may only name a regular file below the model's own folder: no absolute
path, no ``..``, no drive, URL or backslash, and no symbolic link that leads out of the folder.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from onnx_hw.messages.text import quote
from onnx_hw.onnx.parse.diagnostics import Findings

_KNOWN_KEYS = frozenset({"location", "offset", "length", "checksum", "basepath"})
_DECIMAL = re.compile(r"[0-9]{1,19}", re.ASCII)
_SHA1 = re.compile(r"[0-9a-fA-F]{40}", re.ASCII)


@dataclass(frozen=True)
class MappedFile:
    """File of external data, mapped into memory read-only."""

    name: str
    size: int
    content: mmap.mmap | bytes

    def sha1(self) -> str:
        return hashlib.sha1(self.content, usedforsecurity=False).hexdigest()


@dataclass
class SideFiles:
    """Files of external data in the folder of one model; each is opened once."""

    folder: Path
    _open: dict[str, MappedFile | None] = field(default_factory=dict)
    _sums: dict[str, str] = field(default_factory=dict)

    def data(
        self, entries: Sequence[tuple[str, str]], needed: int, where: str, findings: Findings
    ) -> memoryview | None:
        """Return the bytes that one tensor asks for, or None after reporting why not.

        Args:
            entries: the tensor's ``external_data`` keys and values, in file order.
            needed: bytes the tensor's type and dimensions ask for.
            where: place of the tensor in the model.
        """
        keys = self.check_location(entries, where, findings)
        if keys is None:
            return None
        offset, length = _number(keys, "offset"), _number(keys, "length")
        file = self._file(keys["location"], where, findings)
        if file is None:
            return None
        offset = 0 if offset is None else offset
        if not _range_fits(file, offset, length, needed, where, findings):
            return None
        if "checksum" in keys and not self._checksum_agrees(file, keys["checksum"], where, findings):
            return None
        return memoryview(file.content)[offset : offset + needed]

    def check_location(
        self, entries: Sequence[tuple[str, str]], where: str, findings: Findings
    ) -> dict[str, str] | None:
        """Check the keys of a tensor's ``external_data`` by themselves; None after reporting a fault."""
        before = findings.refusals
        keys = _keys(entries, where, findings)
        location = keys.setdefault("location", "")
        if fault := _location_fault(location):
            _refuse(
                findings,
                "external-path",
                f"location must be a relative path inside the model's folder; {quote(location)} {fault}",
                where,
                "move the data file into the model's folder and name it by its plain file name",
            )
        for key in ("offset", "length"):
            if key in keys and not _DECIMAL.fullmatch(keys[key]):
                _refuse(
                    findings,
                    "external-number",
                    f"{key} must be a decimal number of bytes, zero or more, not {quote(keys[key])}",
                    where,
                )
        return None if findings.refusals > before else keys

    def _file(self, location: str, where: str, findings: Findings) -> MappedFile | None:
        name = "/".join(part for part in location.split("/") if part not in ("", "."))
        if name in self._open and self._open[name] is not None:
            return self._open[name]
        try:
            self._open[name] = _map(self.folder, name, where, findings)
        except (OSError, ValueError, RuntimeError) as error:  # the latter for a loop of links
            reason = getattr(error, "strerror", None) or str(error)
            _refuse(
                findings,
                "external-file",
                f"the data file {quote(location)} must exist beside the model and be readable ({reason})",
                where,
                f"put it into {self.folder}",
            )
            self._open[name] = None
        return self._open[name]

    def _checksum_agrees(self, file: MappedFile, given: str, where: str, findings: Findings) -> bool:
        digest = given.split(":")[-1].strip()
        if not _SHA1.fullmatch(digest):
            _refuse(findings, "external-checksum", f"checksum must be a SHA-1 in hex, not {quote(given)}", where)
            return False
        if file.name not in self._sums:
            self._sums[file.name] = file.sha1()
        if self._sums[file.name] != digest.lower():
            _refuse(
                findings,
                "external-checksum",
                f"the SHA-1 of {quote(file.name)} must be {digest.lower()}, but the file's is {self._sums[file.name]}",
                where,
                "the data file was changed or belongs to another model: fetch both again",
            )
            return False
        return True


def _keys(entries: Sequence[tuple[str, str]], where: str, findings: Findings) -> dict[str, str]:
    keys: dict[str, str] = {}
    for key, value in entries:
        if key in keys:
            _refuse(findings, "external-repeated-key", f"external_data key {quote(key)} must appear once", where)
        elif key not in _KNOWN_KEYS:
            findings.should(
                "external-unknown-key",
                f"external_data key {quote(key)} is not defined and ignored",
                where,
                stage="external",
            )
        keys.setdefault(key, value)
    return keys


def _location_fault(location: str) -> str:
    """Return what makes a location unacceptable, as the end of a sentence; empty when nothing does."""
    if not location:
        return "is empty"
    if "\0" in location:
        return "contains a NUL character"
    if "\\" in location:
        return "contains a backslash"
    if location.startswith("/"):
        return "is absolute"
    if re.match(r"[A-Za-z]:", location):
        return "names a drive"
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", location):
        return "is a URL"
    if ".." in location.split("/"):
        return "climbs with '..'"
    if all(part in ("", ".") for part in location.split("/")):
        return "names the folder itself"
    return ""


def _number(keys: dict[str, str], key: str) -> int | None:
    return int(keys[key]) if key in keys else None


def _range_fits(file: MappedFile, offset: int, length: int | None, needed: int, where: str, findings: Findings) -> bool:
    """Check the claimed range against the real file and the tensor's size, before a byte is read."""
    if length is not None and length != needed:
        _refuse(
            findings, "external-length", f"length must be the tensor's size, {needed:,} bytes, not {length:,}", where
        )
        return False
    if offset + needed > file.size:
        _refuse(
            findings,
            "external-range",
            f"the tensor's {needed:,} bytes at offset {offset:,} must lie inside {quote(file.name)}, "
            f"which has {file.size:,} bytes",
            where,
            "the data file is truncated or belongs to another model",
        )
        return False
    if length is None and offset + needed < file.size:
        findings.should(
            "external-no-length",
            f"without a length the tensor reaches to the end of {quote(file.name)}; "
            f"it needs only {needed:,} bytes, and those are read",
            where,
            stage="external",
        )
    return True


def _map(folder: Path, name: str, where: str, findings: Findings) -> MappedFile | None:
    """Open a file below ``folder`` without following a link out of it, and map it."""
    root = folder.resolve(strict=True)
    target = (root / name).resolve(strict=True)
    if not target.is_relative_to(root):
        _refuse(
            findings,
            "external-path",
            f"location must stay inside the model's folder; {quote(name)} is a link that leaves it",
            where,
            "replace the link by the file",
        )
        return None
    handle = _open_below(root, target.relative_to(root).parts)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            _refuse(findings, "external-file", f"{quote(name)} must be a regular file", where)
            return None
        if status.st_nlink > 1:
            findings.should(
                "external-hard-link",
                f"{quote(name)} has {status.st_nlink} hard links: its content may be shared with a file elsewhere",
                where,
                stage="external",
            )
        size = status.st_size
        return MappedFile(name, size, mmap.mmap(handle, size, access=mmap.ACCESS_READ) if size else b"")
    finally:
        os.close(handle)


def _open_below(root: Path, parts: Sequence[str]) -> int:
    """Open ``root/parts...`` component by component, so that nobody can slip in a link after the check."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if os.open not in os.supports_dir_fd:
        return os.open(root.joinpath(*parts), flags)
    here = os.open(root, os.O_RDONLY)
    try:
        for part in parts:
            inner = os.open(part, flags, dir_fd=here)
            os.close(here)
            here = inner
    except OSError:
        os.close(here)
        raise
    return here


def _refuse(findings: Findings, code: str, message: str, where: str, hint: str = "") -> None:
    findings.must(code, message, where, hint, stage="external")
