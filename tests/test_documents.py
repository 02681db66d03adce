"""What the documents say is true: examples run, links lead somewhere, commands exist, generated files are fresh."""

import doctest
import re
import shlex

import pytest
from click.testing import CliRunner

import onnx_hw
from onnx_hw import flow
from onnx_hw.cli.cli import main
from onnx_hw.report.json_schema import write as write_schema
from onnx_hw.report.operator_table import write as write_operators
from support.error_codes import error_codes
from support.fixture_paths import CHECKOUT

DOCUMENTS = sorted([*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/*.md"), *CHECKOUT.glob("examples/*/*.md")])
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")

IDS = [path.relative_to(CHECKOUT).as_posix() for path in DOCUMENTS]


@pytest.mark.parametrize("path", DOCUMENTS, ids=IDS)
def test_examples_run(path, monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    assert doctest.testfile(str(path), module_relative=False).failed == 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=IDS)
def test_links_lead_to_files(path):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("path", DOCUMENTS, ids=IDS)
def test_files_named_in_the_text_exist(path):
    """By their whole path; ``x`` is a name that a contributor chooses."""
    text = path.read_text(encoding="utf-8")
    named = re.findall(r"`((?:onnx_hw|benchmarks|tests|boards|sim|examples|docs)/[\w/]+\.\w+)`", text)
    missing = [name for name in named if not (CHECKOUT / name).exists()]
    assert [name for name in missing if not re.search(r"\b(test_)?x\.py$", name)] == []


def test_files_named_in_the_map_exist():
    """Cells such as ``onnx_hw/runtime/options.py`, `samples.py``: later names lie in the folder of the first."""
    rows = re.findall(r"^\| (`.*?`) \|", README.split("## Map of the code")[1], re.MULTILINE)
    assert len(rows) > 10
    for row in rows:
        names = re.findall(r"`([^`]+)`", row)
        folder = CHECKOUT / names[0].rpartition("/")[0]
        for name in names:
            assert (CHECKOUT / name).exists() or (folder / name).exists(), name


def test_commands_exist():
    """Every ``onnx-hw ...`` of the documents is a command, and its options are options."""
    found = set()
    for path in DOCUMENTS:
        for line in re.findall(
            r"onnx-hw ((?:build|run|check|boards|ops|doctor|[a-z]+\b)[^`\n]*)", path.read_text("utf-8")
        ):
            words = shlex.split(re.split(r"  |&&|\)|;", line)[0].replace("'", ""))
            if words[0] not in main.commands:
                continue  # prose
            found.add(words[0])
            options = {name for option in main.commands[words[0]].params for name in option.opts}
            unknown = [word for word in words if word.startswith("-") and word.strip("`,.") not in options]
            assert not unknown, f"{path.name}: onnx-hw {line}"
    assert found == set(main.commands)


def test_every_error_code_is_explained():
    """In docs/troubleshooting.md: below a heading, in a list, or in the first column of a table; and no other code."""
    text = (CHECKOUT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
    lists = [part for part in text.split("\n\n") if not part.startswith(("|", "#", "*"))]
    explained = {word for part in (*rows, *lists) for word in re.findall(r"`([a-z][a-z0-9-]*)`", part)}
    codes = error_codes()
    assert not codes - explained, "add them to docs/troubleshooting.md"
    assert not explained - codes - {"hint", "where"}, "no error has these codes"


def test_the_readme_lists_every_command():
    listed = re.findall(r"^onnx-hw (\w+)", README.split("## Commands")[1], re.MULTILINE)
    assert sorted(listed) == sorted(main.commands)
    for command in listed:
        assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0


def test_functions_of_the_pages_exist():
    text = "".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    for module, known in ((flow, {"read", "quantize", "schedule"}), (onnx_hw, {"build", "infer", "quantize"})):
        named = set(re.findall(rf"\b{module.__name__.split('.')[-1]}\.(\w+)\(", text))
        assert known <= named
        assert [name for name in named if not callable(getattr(module, name, None))] == []


def test_readme_commands_name_files_and_extras_that_are_there():
    (extra, model), (dev,) = (
        re.search(r'pip install "\.\[(\w+)\]" && onnx-hw build (\S+) --board ecp5', README).groups(),
        re.search(r'pip install -e "\.\[(\w+)\]" && pytest', README).groups(),
    )
    project = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    assert f"\n{extra} = [" in project
    assert f"\n{dev} = [" in project
    assert (CHECKOUT / model).is_file()


@pytest.mark.parametrize(
    ("write", "command"),
    [(write_operators, "onnx_hw.report.operator_table"), (write_schema, "onnx_hw.report.json_schema")],
)
def test_generated_documents_are_up_to_date(write, command, tmp_path):
    write(tmp_path)
    for fresh in tmp_path.iterdir():
        kept = CHECKOUT / "docs" / fresh.name
        assert kept.read_text("utf-8") == fresh.read_text("utf-8"), f"python -m {command} docs"


def test_the_operators_stand_in_one_document():
    """The README leads to it; a table of its own would be read by nobody."""
    assert "(docs/operators.md)" in README
    tables = [path.name for path in DOCUMENTS if "| Conv | " in path.read_text("utf-8")]
    assert tables == ["operators.md"]
