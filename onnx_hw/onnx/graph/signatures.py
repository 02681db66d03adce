"""Signatures of every operator of the standard domains, by opset version: arity, attributes, element types.

The facts are in ``signatures.txt``; its head explains the notation. Nothing here computes: the operators' meaning is in
``onnx_hw.onnx.operators``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

_PARAMETER = re.compile(r"(?P<name>[\w.]*)(?P<option>[?]|[*~]\d+)?:(?P<type>\S+)")


@dataclass(frozen=True)
class Parameter:
    """Input or output of an operator.

    Attributes:
        types: the element types (or types such as ``sequence(float)``) it may have.
        variable: a type variable: its parameters have one type; "" where the type stands by itself.
        optional: whether it may be left out.
        variadic: whether it stands for any number of values, at least ``least``.
        same: whether the values of a variadic parameter have one type.
    """

    name: str
    types: frozenset[str]
    variable: str
    optional: bool = False
    variadic: bool = False
    least: int = 1
    same: bool = True


@dataclass(frozen=True)
class Signature:
    """Signature of an operator from one opset version on, until the next of the same name.

    Attributes:
        attributes: the kind of each attribute, by its name.
        required: names of the attributes that must be given.
        deprecated: whether the operator was withdrawn at this version; nothing else is known then.
    """

    domain: str
    name: str
    since: int
    inputs: tuple[Parameter, ...] = ()
    outputs: tuple[Parameter, ...] = ()
    attributes: Mapping[str, str] | None = None
    required: frozenset[str] = frozenset()
    deprecated: bool = False


@lru_cache(4096)
def signature_of(domain: str, name: str, version: int) -> Signature | None:
    """Return the newest definition of an operator that is not newer than the imported version, None without one."""
    versions = [since for since in _table().get((domain, name), ()) if since <= version]
    return _signature(domain, name, max(versions)) if versions else None


def versions_of(domain: str, name: str) -> tuple[int, ...]:
    """Return the opset versions that define an operator, ascending; empty when there is no such operator."""
    return tuple(sorted(_table().get((domain, name), ())))


def operator_names(domain: str) -> tuple[str, ...]:
    """Return the name of every operator that a standard domain ever had."""
    return tuple(name for key_domain, name in _table() if key_domain == domain)


@cache
def standard_domains() -> frozenset[str]:
    """Return the domains that this table describes completely."""
    return frozenset(domain for domain, _ in _table())


@cache
def _lines() -> tuple[str, ...]:
    text = files("onnx_hw.onnx.graph").joinpath("signatures.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


@cache
def _table() -> dict[tuple[str, str], dict[int, str]]:
    """Read (domain, name) -> version -> the rest of the line, which is parsed only when its signature is requested."""
    table: dict[tuple[str, str], dict[int, str]] = {}
    domain = ""
    for line in _lines():
        if line.startswith("domain "):
            domain = line.split()[1]
        elif not line.startswith("types "):
            name, version, rest = line.split(" ", 2)
            table.setdefault((domain, name), {})[int(version)] = rest
    return table


@cache
def _type_set(number: str) -> frozenset[str]:
    start = f"types {number} = "
    return next(frozenset(line[len(start) :].split()) for line in _lines() if line.startswith(start))


@cache
def _signature(domain: str, name: str, since: int) -> Signature:
    rest = _table()[domain, name][since]
    if rest == "deprecated":
        return Signature(domain, name, since, deprecated=True)
    inputs, rest = rest[1:].split(") (", 1)
    outputs, rest = rest.split(") {", 1)
    attributes, rest = rest.split("}", 1)
    variables = {variable: _type_set(number) for variable, number in (item.split("=") for item in rest.split())}
    kinds = dict(item.split(":") for item in attributes.split())
    return Signature(
        domain,
        name,
        since,
        tuple(_parameter(item, variables) for item in inputs.split()),
        tuple(_parameter(item, variables) for item in outputs.split()),
        {attribute.rstrip("!"): kind for attribute, kind in kinds.items()},
        frozenset(attribute.rstrip("!") for attribute in kinds if attribute.endswith("!")),
    )


def _parameter(text: str, variables: Mapping[str, frozenset[str]]) -> Parameter:
    match = _PARAMETER.fullmatch(text)
    assert match is not None, f"signatures.txt: {text}"
    kind, option = match["type"], match["option"] or ""
    variable = kind if kind in variables else ""
    types = variables[kind] if variable else frozenset({kind})
    if option.startswith(("*", "~")):
        return Parameter(match["name"], types, variable, False, True, int(option[1:]), option[0] == "*")
    return Parameter(match["name"], types, variable, option == "?")
