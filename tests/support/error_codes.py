"""Codes of the errors that users see, as the source names them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from support.fixture_paths import CHECKOUT

ROOTS = ("onnx_hw", "boards/onnx_hw_link")
CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
OTHER_CODES = frozenset({"element_type", "dtype_of_code", "_native", "_small_float", "_small_integer", "_named_type"})
"""Functions whose ``code`` is the number of an ONNX type."""


def error_codes() -> set[str]:
    """Return every literal or constant that is given as the ``code`` of an error, a problem or an obstacle."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for root in ROOTS for path in (CHECKOUT / root).rglob("*.py")]
    takers = {"Problem": 0, "ToolProblem": 0}
    for tree in trees:
        takers.update(_takers(tree))
    for tree in trees:
        takers.update(_other_names(tree, takers))
    constants = {name: text for tree in trees for name, text in _constants(tree)}
    return {code for tree in trees for code in _codes(tree, takers, constants) if CODE.fullmatch(code)}


def _takers(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield functions and classes with a parameter ``code``, and its position in a call."""
    for node in ast.walk(tree):
        functions = [(node.name, node)] if isinstance(node, ast.FunctionDef) else []
        if isinstance(node, ast.ClassDef):
            functions = [
                (node.name, each) for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"
            ]
        for name, function in functions:
            parameters = [parameter.arg for parameter in function.args.args]
            if "code" in parameters and name not in OTHER_CODES and name != "__init__":
                yield name, parameters.index("code") - (parameters[0] in ("self", "cls"))


def _other_names(tree: ast.Module, takers: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Yield variables such as ``report = findings.must if strict else findings.should``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.IfExp):
            name, function = getattr(node.targets[0], "id", ""), getattr(node.value.body, "attr", "")
            if name and function in takers:
                yield name, takers[function]


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield names and values of a module's constants that are texts."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                yield name, text


def _codes(tree: ast.Module, takers: dict[str, int], constants: dict[str, str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            given = [word.value for word in node.keywords if word.arg == "code"] if name in takers else []
            if name in takers and len(node.args) > takers[name]:
                given = [node.args[takers[name]]]
            yield from (text for each in given for text in _texts(each, constants))
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "code":
            yield from _texts(node.value, constants)


def _texts(value: ast.expr, constants: dict[str, str]) -> Iterator[str]:
    """Yield a literal or the value of a constant, or both of ``"a" if condition else "b"``."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.IfExp):
        yield from (*_texts(value.body, constants), *_texts(value.orelse, constants))
    elif isinstance(value, ast.Name) and value.id in constants:
        yield constants[value.id]
