"""The rules of the house that no linter knows: which way imports point, where circuits come in, how long a file is."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

import pytest

from onnx_hw.onnx.operators import operators
from onnx_hw.runtime.stage import Stage
from support.core_tests import load, operator_files
from support.fixture_paths import CHECKOUT

ROOTS = {
    "onnx_hw": CHECKOUT / "onnx_hw",
    "onnx_hw_rtl": CHECKOUT / "rtl" / "onnx_hw_rtl",
    "onnx_hw_sim": CHECKOUT / "sim" / "onnx_hw_sim",
    "onnx_hw_tools": CHECKOUT / "sim" / "onnx_hw_tools",
    "onnx_hw_boards": CHECKOUT / "boards" / "onnx_hw_boards",
    "onnx_hw_link": CHECKOUT / "boards" / "onnx_hw_link",
}
LONGEST = 450  # lines: what can be read in one sitting; one subject is not cut in pieces for a number
MEDIAN = 130
FILES_IN_A_FOLDER = 30

FLOORS = (
    ("api",),
    ("cli",),
    ("commands",),
    ("export",),
    ("flow", "report"),
    ("prove", "schedule"),
    ("assemble", "quantization"),
    ("lower", "timing"),
    ("ir",),
    ("implement", "samples"),
    ("runtime",),
    ("onnx", "ops"),
    ("messages",),
    ("exact",),
)
"""Folders of ``onnx_hw``, and ``flow``, from the user down to the arithmetic. Folders of one floor do not meet."""

ONNX_FLOORS = (
    ("canonicalize", "load"),
    ("check",),
    ("evaluate",),
    ("operators", "parse"),
    ("graph",),
)
"""Folders of ``onnx_hw.onnx``, from the file that a user gives, and its rewriting, down to the values."""


@dataclass(frozen=True)
class Rule:
    """A ban: modules whose name begins with one of ``importers`` import none of ``banned``."""

    importers: tuple[str, ...]
    banned: tuple[str, ...]
    because: str
    but: Callable[[str, str], bool] = lambda importer, imported: False

    def broken_by(self, importer: str, imported: str) -> bool:
        banned = within(importer, self.importers) and within(imported, self.banned)
        return banned and not self.but(importer, imported)


def family_part(importer: str, imported: str) -> bool:
    """Return whether a part of a chip family, or a link, may build on this: circuits on ``rtl``, models on ``sim``."""
    place = importer.removeprefix("onnx_hw_boards.families.").split(".")
    building_on = {
        "primitives": ("amaranth", "onnx_hw_rtl.target"),
        "cell_models": ("onnx_hw_sim.gates",),
        "recipes": ("onnx_hw_tools.catalogue",),
        "bitstream": ("onnx_hw_sim.gates.netlist",),
    }
    if within(importer, ("onnx_hw_boards.links",)):  # a link brings its shell and its simulator
        return within(imported, ("onnx_hw_rtl.link", "onnx_hw_rtl.shells", "onnx_hw_sim"))
    if importer in ("onnx_hw_boards.families.family", "onnx_hw_boards.families.unpacked_bitstream"):  # names types
        return within(imported, ("onnx_hw_rtl.target", "onnx_hw_sim.gates.cell_models", "onnx_hw_sim.gates.netlist"))
    return len(place) > 1 and within(imported, building_on.get(place[1], ()))


CIRCUITS, BENCH = ("onnx_hw_rtl",), ("onnx_hw_sim", "onnx_hw_tools")
RULES = (
    Rule(
        (*CIRCUITS, *BENCH, "onnx_hw_boards", "onnx_hw_link"),
        ("onnx_hw",),
        "circuits, simulation, boards and the driver are usable without the compiler",
    ),
    Rule(("onnx_hw_link",), (*CIRCUITS, *BENCH, "onnx_hw_boards", "amaranth"), "the driver runs where only numpy is"),
    Rule(("onnx_hw_tools",), ("onnx_hw_sim", "numpy"), "programs are found and run by whoever needs one"),
    Rule(("onnx_hw_boards",), (*CIRCUITS, *BENCH), "boards and chip families are data", but=family_part),
    Rule(("onnx_hw_boards.families",), ("amaranth",), "a family is data but for its primitives", but=family_part),
    Rule(CIRCUITS, (*BENCH, "onnx_hw_boards"), "a circuit knows neither who simulates it nor its board"),
    Rule(BENCH, (*CIRCUITS, "onnx_hw_boards"), "the bench knows streams, not circuits"),
)


def within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the distribution, by its import name."""
    for package, root in ROOTS.items():
        for path in sorted(root.rglob("*.py")):
            parts = (package, *path.relative_to(root).with_suffix("").parts)
            yield ".".join(parts).removesuffix(".__init__"), path


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, inside functions too; ``from a import b`` gives ``a.b``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{name.name}") for name in node.names)


@cache
def imports_of(path: Path) -> tuple[tuple[int, str], ...]:
    """The imports of a file: each file is read once, however often it is asked for."""
    return tuple(imports(parsed(path)))


def broken(rules: tuple[Rule, ...], module: str, path: Path) -> Iterator[str]:
    for line, imported in imports_of(path):
        for rule in rules:
            if rule.broken_by(module, imported):
                yield f"{path.relative_to(CHECKOUT)}:{line} imports {imported}, but {rule.because}"


def test_imports_point_one_way():
    found = [sentence for module, path in modules() for sentence in broken(RULES, module, path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("onnx_hw_rtl.cores.pool", "from onnx_hw.exact.integers import Int"),
        ("onnx_hw_sim.stalls", "import onnx_hw"),
        ("onnx_hw_tools.process", "from onnx_hw_sim import stalls"),
        ("onnx_hw_boards.families.ecp5.recipes", "from onnx_hw_rtl.target import Primitives"),
        ("onnx_hw_boards.families.ecp5.cost", "import amaranth"),
        ("onnx_hw_boards.families.ecp5.cell_models", "from onnx_hw_sim import stalls"),
    ],
)
def test_a_wrong_import_is_seen(module, text):
    names = [name for _, name in imports(ast.parse(text))]
    assert any(rule.broken_by(module, name) for rule in RULES for name in names)


def loaded_with(statements: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """What importing a module imports: neither in bodies of functions nor under ``if TYPE_CHECKING``."""
    for statement in statements:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield from imports(statement)
        elif isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            yield from loaded_with(statement.orelse)
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for block in ("body", "handlers", "orelse", "finalbody"):
                yield from loaded_with(getattr(statement, block, []))


def test_the_compiler_loads_no_circuit_before_it_builds_one():
    """Meaning and timing are numpy only: whoever checks a model does not wait for Amaranth."""
    found = [
        f"{path.relative_to(CHECKOUT)}:{line} imports {imported} when it is loaded; import it inside the function"
        for module, path in modules()
        if within(module, ("onnx_hw",))
        for line, imported in loaded_with(parsed(path).body)
        if within(imported, ("amaranth", "onnx_hw_rtl"))
    ]
    assert not found, "\n".join(found)


@cache
def known_modules() -> dict[str, Path]:
    return dict(modules())


def own(name: str) -> str:
    """The module of ours that an import loads: ``from a.b import c`` may mean a.b.c or a name in a.b; empty if none."""
    known = known_modules()
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def home(module: str, house: str = "onnx_hw") -> str:
    """The package in which a module lies, one below ``house``; a module outside it is alone, by its distribution."""
    if module.startswith(f"{house}."):
        return ".".join(module.split(".")[: house.count(".") + 2])
    return module.split(".")[0]


@cache
def every_import() -> dict[str, set[str]]:
    """The modules of ours that each module imports: at its head, in functions and under ``TYPE_CHECKING``."""
    return {module: {own(name) for _, name in imports_of(path)} - {"", module} for module, path in modules()}


def rooms_of(graph: dict[str, set[str]], house: str = "onnx_hw") -> dict[str, set[str]]:
    """The same between folders: each is one node."""
    rooms: dict[str, set[str]] = {}
    for module, others in graph.items():
        rooms.setdefault(home(module, house), set()).update(home(other, house) for other in others)
    return {room: others - {room} for room, others in rooms.items()}


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """The largest sets of nodes in which each is reached from each (strongly connected, two nodes or more)."""
    reached: dict[str, set[str]] = {}
    for node in graph:
        seen, waiting = set[str](), list(graph[node])
        while waiting:
            if (name := waiting.pop()) not in seen:
                seen.add(name)
                waiting += graph.get(name, ())
        reached[node] = seen
    return {frozenset(other for other in reached[node] if node in reached.get(other, ())) for node in graph} - {
        frozenset()
    }


def test_no_imports_go_round_in_a_circle():
    """Neither of modules nor of folders: each can be understood from those that it stands on."""
    modules = every_import()
    onnx = {module: others for module, others in modules.items() if within(module, ("onnx_hw.onnx",))}
    assert circles(modules) | circles(rooms_of(modules)) | circles(rooms_of(onnx, "onnx_hw.onnx")) == set()


def test_a_circle_is_seen():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert circles(graph) == {frozenset({"b", "c"})}
    assert circles({**graph, "d": {"a"}}) == {frozenset("abcd")}


def test_every_folder_has_a_floor():
    """And the root holds three files, so that there is no place for a file without a home."""
    root = ROOTS["onnx_hw"]
    folders = {path.parent.name for path in root.glob("*/__init__.py")}
    assert sorted([*folders, "flow"]) == sorted(name for floor in FLOORS for name in floor)
    assert sorted(path.name for path in root.glob("*.py")) == ["__init__.py", "__main__.py", "flow.py"]


def test_every_folder_of_the_reader_has_a_floor():
    root = ROOTS["onnx_hw"] / "onnx"
    folders = {path.parent.name for path in root.glob("*/__init__.py")}
    assert sorted(folders) == sorted(name for floor in ONNX_FLOORS for name in floor)
    assert [path.name for path in root.glob("*.py")] == ["__init__.py"]


def upward(
    graph: dict[str, set[str]], house: str = "onnx_hw", storeys: tuple[tuple[str, ...], ...] = FLOORS
) -> list[str]:
    """The imports between folders of ``house`` that do not go to a lower floor."""
    floors = {f"{house}.{name}": number for number, floor in enumerate(storeys) for name in floor}
    return [
        f"{module} imports {other}"
        for module, others in graph.items()
        for other in others
        if (here := floors.get(home(module, house))) is not None
        and (there := floors.get(home(other, house))) is not None
        and home(module, house) != home(other, house)
        and there <= here
    ]


def test_imports_go_down_only():
    assert upward(every_import()) == []
    assert upward(every_import(), "onnx_hw.onnx", ONNX_FLOORS) == []


def test_an_import_that_goes_up_is_seen():
    assert upward({"onnx_hw.flow": {"onnx_hw.commands.build"}})
    assert upward({"onnx_hw.prove.model.compare": {"onnx_hw.schedule.budget"}})
    assert upward({"onnx_hw.onnx.graph.model": {"onnx_hw.onnx.parse.parse"}}, "onnx_hw.onnx", ONNX_FLOORS)
    assert upward({"onnx_hw.onnx.parse.parse": {"onnx_hw.onnx.operators.facts"}}, "onnx_hw.onnx", ONNX_FLOORS)
    assert not upward({"onnx_hw.flow": {"onnx_hw.ir.design"}, "onnx_hw.ops.pool": {"onnx_hw.ops.tensor"}})


def test_circuits_are_imported_by_operators_and_assembly_only():
    at_home = ("onnx_hw.ops", "onnx_hw.assemble.elaborate", "onnx_hw.assemble.netlist")
    found = [
        f"{path.relative_to(CHECKOUT)}:{line} imports {imported}"
        for module, path in modules()
        if within(module, ("onnx_hw",)) and not within(module, at_home)
        for line, imported in imports_of(path)
        if within(imported, ("amaranth", "onnx_hw_rtl"))
    ]
    assert not found, "\n".join(found)


def test_a_pass_names_no_operator_but_those_in_its_title():
    """Decisions ask operators for facts through ``ops.operator`` and ``ops.schedule``."""
    named = [
        f"{path.relative_to(CHECKOUT)}:{line} imports {imported}"
        for module, path in modules()
        if within(module, ("onnx_hw.schedule",))
        for line, imported in imports_of(path)
        for operator in operator_files()
        if within(imported, (f"onnx_hw.ops.{operator}",)) and operator not in path.stem
    ]
    assert not named, "\n".join(named)


@pytest.mark.parametrize("name", operator_files())
def test_an_operator_is_three_files_with_one_name(name):
    assert (ROOTS["onnx_hw_rtl"] / "cores" / f"{name}.py").is_file()
    assert name in load(name).CASES, "the case that sees the faults of every core"


def test_every_stage_is_a_function_of_the_flow():
    """In the order in which they run, and all of them on one screen."""
    path = ROOTS["onnx_hw"] / "flow.py"
    functions = [node.name for node in parsed(path).body if isinstance(node, ast.FunctionDef)]
    assert [name for name in functions if name in tuple(Stage)] == list(Stage)
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 250


OWNERS = ("onnx_hw.onnx.operators", "onnx_hw.lower.ops")
"""Where an operator's name stands beside what is known of it."""

LISTS_OF_OPERATORS = {
    "onnx_hw.onnx.evaluate.fold_constants": "loops, which may run for ever: their bodies are not run to fold them",
    "onnx_hw.onnx.evaluate.unroll_control_flow": "a function for each operator that can be unrolled",
    "onnx_hw.onnx.check.signatures": "what ONNX says to use instead of withdrawn operators",
    "onnx_hw.onnx.check.subgraphs": "a function for each operator whose subgraphs have rules",
    "onnx_hw.onnx.load.stream_rules": "a function for each operator that becomes another one hop by hop",
    "onnx_hw.lower.host_dequantize": "the nodes that it writes",
    "onnx_hw.lower.quantizers": "a function for each quantizer that says what its parameters mean",
    "onnx_hw.onnx.check.types": "types that ONNX's text states, checked before any function of ours is asked",
}
"""By module: why it names several operators itself."""


def lists_of_operators(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """Line and names of every set, tuple, list or dict that names two ONNX operators or more."""
    known = {row.op_type for row in operators()}
    for node in ast.walk(tree):
        entries = node.elts if isinstance(node, (ast.Set, ast.Tuple, ast.List)) else getattr(node, "keys", ())
        parts = [part for entry in entries for part in getattr(entry, "elts", (entry,))]
        texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if len(names := [text for text in texts if text in known]) > 1:
            yield node.lineno, names  # type: ignore[attr-defined]


@cache
def lists_of_operators_in(path: Path) -> tuple[tuple[int, list[str]], ...]:
    return tuple(lists_of_operators(parsed(path)))


def test_what_is_known_of_an_operator_stands_in_its_row():
    """Nobody else asks whether a node is one of several: a list of names forgets the next operator, and the domain."""
    found = [
        f"{path.relative_to(CHECKOUT)}:{line} lists {', '.join(names)}: ask `facts_of(node)`"
        for module, path in modules()
        if within(module, ("onnx_hw",)) and not within(module, (*OWNERS, *LISTS_OF_OPERATORS))
        for line, names in lists_of_operators_in(path)
    ]
    assert not found, "\n".join(found)


def test_no_reason_is_left_over():
    lists = {module for module, path in modules() if lists_of_operators_in(path)}
    assert lists >= set(LISTS_OF_OPERATORS)


@pytest.mark.parametrize("text", ['{"Conv", "Gemm"}', 'x in ("Mul", "Div")', '{("", "Relu"): 1, ("a", "Clip"): 2}'])
def test_a_list_of_operators_is_found(text):
    assert list(lists_of_operators(ast.parse(text)))


def sources() -> list[Path]:
    folders = [CHECKOUT / name for name in ("onnx_hw", "rtl", "sim", "boards", "tests", "examples", "benchmarks")]
    return [path for folder in folders for path in folder.rglob("*") if path.suffix in {".py", ".cpp", ".h", ".c"}]


def test_files_can_be_read_in_one_sitting():
    lengths = {
        path.relative_to(CHECKOUT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in sources()
    }
    long = [f"{path} has {length} lines" for path, length in lengths.items() if length > LONGEST]
    assert not long, f"at most {LONGEST}; look for the second subject: " + ", ".join(long)
    assert median(lengths.values()) <= MEDIAN


TABLES = ("onnx_hw/onnx/operators", "boards/onnx_hw_boards/boards", "tests/support")
"""Folders with one kind of thing per file, as many as there are."""


def files_of_cores() -> set[Path]:
    """Return the three files of every hardware core: a new core needs no other place in the tree."""
    places = ("onnx_hw/ops/{}.py", "rtl/onnx_hw_rtl/cores/{}.py", "tests/ops/test_{}.py")
    return {CHECKOUT / place.format(name) for place in places for name in operator_files()}


def test_folders_can_be_seen_at_a_glance():
    others = set(sources()) - files_of_cores()
    counts = Counter(path.parent.relative_to(CHECKOUT).as_posix() for path in others)
    large = {folder: count for folder, count in counts.items() if count > FILES_IN_A_FOLDER and folder not in TABLES}
    assert not large, f"at most {FILES_IN_A_FOLDER} files in a folder: {large}"
    assert all(counts[folder] > FILES_IN_A_FOLDER for folder in TABLES)


def test_files_are_named_for_what_they_hold():
    empty_words = {"utils", "util", "common", "misc", "helpers", "stuff"}
    assert not [path for path in sources() if path.stem in empty_words]


PAIRS = {"DigitTable", "MultiplyAddShift", "RoundingShift", "TableRequantizer", "ThresholdRequantizer"}
"""Classes of exact arithmetic whose circuit has their name, as an operator's has."""


def public_classes() -> dict[str, list[str]]:
    """The modules that define a class of each name, private ones left out."""
    places: dict[str, list[str]] = {}
    for module, path in modules():
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module)
    return places


def test_a_class_name_is_used_once():
    """But for an operator, or an exact requantizer, and its circuit."""
    several = {
        name: places
        for name, places in public_classes().items()
        if len(places) > 1
        and not (
            len(places) == 2
            and within(places[1], ("onnx_hw_rtl.cores", "onnx_hw_rtl.streams"))
            and (within(places[0], ("onnx_hw.ops",)) or name in PAIRS)
        )
    }
    assert not several, several
