"""How many faults the tests see: small random changes of the code that makes circuits, one at a time.

    python benchmarks/mutation_score.py [--first N] [--count N] [--only PATH] [--timeout SECONDS]
                                       [--json FILE] [--in-full]
    python benchmarks/mutation_score.py --named

Three hundred changes are drawn with a seed that stands here: a constant one more or less, a comparison turned round, a
condition negated, two operands swapped; in ``rtl``, ``onnx_hw/ops``, ``onnx_hw/passes``, ``onnx_hw/quantize/lower``.
Each is made in a copy of the checkout and run against the tests of its file (those named like it or like a file that
imports it, and those that import it and little else) and one build of the digits example up to its simulation.
Survivors are listed, with whether that build's report is another one; what ends by the clock is not counted. Drawn
tests draw few examples at first, and shrink none: most changes are seen by the first ones. ``--in-full`` runs the
survivors of such a run (``--json``) against all that the tests draw.
``--named``: the faults that tests make on purpose, and what becomes of them.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PLACES = (
    "rtl/onnx_hw_rtl",
    "boards/onnx_hw_boards/families/ecp5/primitives",
    "onnx_hw/ops",
    "onnx_hw/passes",
    "onnx_hw/quantize/lower",
)
SEED, MUTATIONS = 13, 300
FILES_OF_TESTS = 3
OF_A_PLACE = {
    "rtl/onnx_hw_rtl/assembly": ["tests/assemble/test_elaborate.py"],
    "rtl/onnx_hw_rtl/engine": ["tests/ops/test_own_results.py"],
    "rtl/onnx_hw_rtl/link": ["tests/link/test_link_end.py", "tests/link/test_session.py"],
    "boards/onnx_hw_boards/families/ecp5/primitives": [
        "tests/rtl/test_ecp5_primitives.py",
        "tests/rtl/test_soft_multiplier.py",
    ],
    "onnx_hw/ops": ["tests/ops/test_permutation.py", "tests/ops/demand/test_circuit_constants.py"],
    "onnx_hw/passes": ["tests/passes"],
    "onnx_hw/quantize/lower": [
        "tests/lower/test_lowering_exactness.py",
        "tests/lower/test_lower_model.py",
        "tests/quantize",
    ],
}
"""Tests of every file there."""
AT_ONCE = {"onnx_hw/ops": ["tests/assemble/test_recorded_area_estimates.py"]}
"""Tests of every file there that see much within seconds, and so come first."""
NAMED = ("tests/ops/faults/test_*.py", "tests/prove/test_faults_of_the_lowering.py", "tests/formal/test_*.py",
         "tests/prove/circuit/test_gate_level.py", "tests/prove/circuit/test_prove.py")  # fmt: skip
TOO_SLOW, SURVIVES = "too slow", "SURVIVES"
PLUGIN = """
from hypothesis import Phase, settings

def pytest_collection_modifyitems(items):
    for item in items:
        test = getattr(item.obj, "__func__", item.obj)
        usual = getattr(test, "_hypothesis_internal_use_settings", None)
        if usual is not None:
            few, phases = min(usual.max_examples, 8), (Phase.explicit, Phase.generate)
            test._hypothesis_internal_use_settings = settings(usual, max_examples=few, phases=phases)
"""
"""Of pytest: no test draws many examples, or makes smaller ones of what fails."""
TURNED = {ast.Lt: ">=", ast.GtE: "<", ast.Gt: "<=", ast.LtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
          ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is"}  # fmt: skip
ORDERED = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift, ast.Pow)
"""Operators whose operands are no equals."""


@dataclass(frozen=True)
class Mutation:
    """What is put into the place of some text.

    Attributes:
        file: beside the checkout.
        begin, end: (line, column in bytes), lines from 1.
    """

    file: str
    kind: str
    begin: tuple[int, int]
    end: tuple[int, int]
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.file}:{self.begin[0]}: {self.old} -> {self.new}"


# ---- what may be changed --------------------------------------------------------------------------------------------


def mutations() -> list[Mutation]:
    """The three hundred: first a kind, then one of that kind, so that constants do not outnumber all others."""
    by_kind: dict[str, list[Mutation]] = {}
    for place in PLACES:
        for path in sorted((CHECKOUT / place).rglob("*.py")):
            for found in _in_file(path):
                by_kind.setdefault(found.kind, []).append(found)
    draw = random.Random(SEED)
    drawn: dict[Mutation, None] = {}
    while len(drawn) < MUTATIONS:
        drawn[draw.choice(by_kind[draw.choice(sorted(by_kind))])] = None
    return list(drawn)


def _in_file(path: Path) -> Iterator[Mutation]:
    text = path.read_text(encoding="utf-8")
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    name = path.relative_to(CHECKOUT).as_posix()
    tree = ast.parse(text)
    unseen = {id(part) for node in ast.walk(tree) for whole in _without_effect(node) for part in ast.walk(whole)}

    def source(node: ast.expr) -> str:
        return _cut(lines, (node.lineno, node.col_offset), _end(node)).decode()

    def change(kind: str, node: ast.expr, new: str) -> Mutation:
        return Mutation(name, kind, (node.lineno, node.col_offset), _end(node), source(node), new)

    for node in ast.walk(tree):
        if id(node) in unseen:
            continue
        if isinstance(node, ast.Constant) and type(node.value) is int:
            yield change("constant", node, str(node.value + 1))
            yield change("constant", node, f"({node.value - 1})")
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            turned = f"({source(node.left)}) {TURNED[type(node.ops[0])]} ({source(node.comparators[0])})"
            yield change("comparison", node, turned)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ORDERED) and not isinstance(node.left, ast.Constant):
            between = _cut(lines, _end(node.left), (node.right.lineno, node.right.col_offset)).decode()
            if "(" not in between and ")" not in between:
                yield change("operands", node, f"({source(node.right)}){between}({source(node.left)})")
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            yield change("condition", node.test, f"(not ({source(node.test)}))")
        if isinstance(node, ast.Call) and node.args:  # Amaranth's own
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("If", "Elif", "Mux"):
                yield change("condition", node.args[0], f"(({source(node.args[0])}) == 0)")
            if called == "Mux" and len(node.args) == 3:
                test, yes, no = map(source, node.args)
                yield change("operands", node, f"Mux({test}, {no}, {yes})")


def _without_effect(node: ast.AST) -> Iterator[ast.AST]:
    """What of a node is only read by people and type checkers, and what an exception says."""
    if isinstance(node, ast.FunctionDef):
        yield from (a.annotation for a in [*node.args.args, *node.args.kwonlyargs] if a.annotation)
        yield from [node.returns] if node.returns else []
    if isinstance(node, ast.AnnAssign):
        yield node.annotation
    if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert | ast.ImportFrom):
        yield node
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        yield node
    if isinstance(node, ast.FunctionDef) and node.name in ("__repr__", "__str__"):
        yield node


def _end(node: ast.expr) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _cut(lines: Sequence[bytes], begin: tuple[int, int], end: tuple[int, int]) -> bytes:
    whole = b"".join(lines[begin[0] - 1 : end[0]])
    after = len(lines[end[0] - 1]) - end[1]
    return whole[begin[1] : len(whole) - after]


def mutated(mutation: Mutation) -> str:
    """The file with the change."""
    lines = (CHECKOUT / mutation.file).read_bytes().splitlines(keepends=True)
    (first, left), (last, right) = mutation.begin, mutation.end
    before, after = b"".join(lines[: first - 1]) + lines[first - 1][:left], lines[last - 1][right:]
    return (before + mutation.new.encode() + after + b"".join(lines[last:])).decode()


# ---- which tests are a file's ---------------------------------------------------------------------------------------


@cache
def imports(folder: str, pattern: str = "*.py") -> dict[Path, frozenset[str]]:
    """Per file, the modules of ours that it imports itself."""
    found = {}
    for path in sorted((CHECKOUT / folder).rglob(pattern)):
        names: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        found[path.relative_to(CHECKOUT)] = frozenset(name for name in names if name.startswith("onnx_hw"))
    return found


def tests_of(file: str) -> list[str]:
    """Those named like the file or one that imports it, directly or not; those that import it and little else."""
    tests = {test: names for test, names in imports("tests", "test_*.py").items() if "cocotb" not in test.parts}
    found: dict[Path, None] = {}
    reached, seen = [Path(file)], {Path(file)}
    for path in reached:  # grows, the nearest first
        found |= dict.fromkeys(test for test in tests if test.stem == f"test_{path.stem}")
        for place in PLACES:
            new = [other for other, names in imports(place).items() if _module(path) in names and other not in seen]
            reached += new
            seen |= set(new)
    direct = [(len(names), test) for test, names in tests.items() if _module(Path(file)) in names]
    chosen = list(dict.fromkeys([*list(found)[: FILES_OF_TESTS - 1], *(test for _, test in sorted(direct)), *found]))
    first, everybody = (
        next((tests for place, tests in of_places.items() if file.startswith(place)), [])
        for of_places in (AT_ONCE, OF_A_PLACE)
    )
    return list(dict.fromkeys([*first, *map(str, chosen[:FILES_OF_TESTS]), *everybody]))


def _module(path: Path) -> str:
    return re.sub(r"^(rtl|sim|boards)\.", "", ".".join(path.with_suffix("").parts))


# ---- running --------------------------------------------------------------------------------------------------------


class Copy:
    """A checkout of its own, in which one change after the other is made."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        left_out = shutil.ignore_patterns(".git", "__pycache__", ".*_cache", "*.egg-info", "build")
        shutil.copytree(CHECKOUT, self.root, ignore=left_out)
        roots = [self.root, *(self.root / name for name in ("rtl", "sim", "boards"))]
        (self.root / "few_examples.py").write_text(PLUGIN, encoding="utf-8")
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, roots)),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, arguments: Sequence[str], timeout: float) -> tuple[bool, str]:
        """Whether nothing went wrong in time, and the last thing that was said, or ``TOO_SLOW``."""
        command = [sys.executable, *arguments]
        with subprocess.Popen(
            command,
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                said, _ = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return True, TOO_SLOW
        lines = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR", "error", "E  "))]
        return process.returncode == 0, (lines or said.splitlines() or [""])[-1][:160]

    def tests(self, files: Sequence[str], timeout: float, in_full: bool) -> tuple[bool, str]:
        options = ["-q", "-x", "-n0", "-m", "not slow", "-p", "no:cacheprovider", "--no-header", "--tb=line"]
        few = [] if in_full else ["-p", "few_examples"]
        return self.run(["-m", "pytest", *options, *few, *files], timeout)

    def build(self, timeout: float) -> tuple[bool, str]:
        """Of digits, up to its simulation."""
        shutil.rmtree(self.root / "built", ignore_errors=True)
        script = "from onnx_hw.cli.cli import main; main()"
        model = "examples/digits/digits.onnx"
        arguments = ["build", model, "--stop-after", "simulate", "--out", "built"]
        return self.run(["-c", script, *arguments], timeout)

    def design(self) -> str:
        """What the last build decided and found: its report without times and digests."""
        report = self.root / "built" / "report.json"
        facts = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
        return json.dumps({key: facts.get(key) for key in ("design", "timing", "nodes", "edges")}, sort_keys=True)


def score(options: argparse.Namespace, copy: Copy) -> None:
    fine, said = copy.build(options.timeout)
    if not fine:
        raise SystemExit(f"digits is not built without any change: {said}")
    usual = copy.design()
    known = json.loads(options.json.read_text()) if options.json and options.json.exists() else []
    rows = {row["number"]: row for row in known}
    for number, mutation in list(enumerate(mutations()))[options.first : options.first + options.count]:
        if not mutation.file.startswith(options.only):
            continue
        before = rows.get(number, {}).get("verdict", "")
        if before and not (options.in_full and before.startswith(SURVIVES)):
            continue
        rows[number] = {**_seen(copy, mutation, options, usual), "number": number, **asdict(mutation)}
        if options.json:
            options.json.write_text(json.dumps(list(rows.values()), indent=1))
    survivors = sum(row["verdict"].startswith(SURVIVES) for row in rows.values())
    late = sum(row["verdict"] == TOO_SLOW for row in rows.values())
    print(f"{len(rows) - survivors - late} of {len(rows) - late} are seen; {late} were too slow")


def _seen(copy: Copy, mutation: Mutation, options: argparse.Namespace, usual: str) -> dict[str, object]:
    """Who sees a change, what is said of it, and which tests were run."""
    begin = time.perf_counter()
    target = copy.root / mutation.file
    target.write_text(mutated(mutation), encoding="utf-8")
    tests, changed = tests_of(mutation.file), False
    fine, said = copy.tests(tests, options.timeout, options.in_full)
    late, verdict = said == TOO_SLOW, "" if fine else "tests"
    if fine and not options.in_full:
        fine, said = copy.build(options.timeout)
        late, verdict = late or said == TOO_SLOW, "" if fine else "build"
        changed = fine and copy.design() != usual
    shutil.copyfile(CHECKOUT / mutation.file, target)
    survives = f"{SURVIVES}, digits differ" if changed else SURVIVES
    verdict = verdict or (TOO_SLOW if late else survives)
    seconds = time.perf_counter() - begin
    print(f"{seconds:5.0f} s  {verdict:8} {mutation}\n        {tests if fine else said}", flush=True)
    return {"verdict": verdict, "said": said, "tests": tests}


def named(options: argparse.Namespace, copy: Copy) -> None:
    """Every fault that a test makes is one of its cases: they pass when it is seen."""
    files = sorted({str(path.relative_to(CHECKOUT)) for pattern in NAMED for path in CHECKOUT.glob(pattern)})
    for file in files:
        fine, said = copy.run(["-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", file], 10 * options.timeout)
        print(f"{file:50} {'all seen' if fine else 'NOT ALL'}: {said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="number of the first change")
    parser.add_argument("--count", type=int, default=MUTATIONS, help="how many of them")
    parser.add_argument("--only", default="", help="those of files whose paths begin so")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for the tests of a file, and for the build")
    parser.add_argument("--json", type=Path, help="file for what was found; what stands in it is not run again")
    parser.add_argument("--in-full", action="store_true", help="what survived before, against all that is drawn")
    parser.add_argument("--named", action="store_true", help="the faults that tests make on purpose")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (named if options.named else score)(options, Copy(Path(folder)))


if __name__ == "__main__":
    main()
