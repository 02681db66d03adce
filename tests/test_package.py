"""The package as it is imported: quickly, and all parts of it from one place."""

import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

import onnx_hw
from onnx_hw.cli.build import build
from support.fixture_paths import CHECKOUT

PARTS = {
    "onnx_hw": ".",
    "onnx_hw_rtl": "rtl",
    "onnx_hw_sim": "sim",
    "onnx_hw_tools": "sim",
    "onnx_hw_boards": "boards",
    "onnx_hw_link": "boards",
}

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))


def python(code: str, path: list[Path]) -> subprocess.CompletedProcess[str]:
    """Run code with ``path`` before everything installed, and without the current folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False,
        cwd=CHECKOUT,
    )  # fmt: skip


def put(target: Path, name: str) -> None:
    """A copy of one package of the checkout."""
    target.mkdir(exist_ok=True)
    shutil.copytree(CHECKOUT / PARTS[name] / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.fixture
def site(tmp_path):
    """All packages side by side, as an installation has them."""
    for name in PARTS:
        put(tmp_path / "site", name)
    return tmp_path / "site"


def test_a_checkout_and_an_installation_are_one_place_each(site):
    checkout = [CHECKOUT / folder for folder in PARTS.values()]
    for path in (checkout, [site]):
        done = python("import onnx_hw; print(onnx_hw.__file__)", path)
        assert done.returncode == 0, done.stderr
        assert Path(done.stdout.strip()).is_relative_to(path[0])


def test_a_mixture_is_refused_with_both_places(site):
    done = python("import onnx_hw", [CHECKOUT, site])
    assert done.returncode != 0
    assert f"onnx_hw and onnx_hw_rtl must come from one place; onnx_hw is in {CHECKOUT}" in done.stderr
    assert f"onnx_hw_rtl in {site}" in done.stderr


def test_importing_is_quick():
    """Neither the package nor the command line waits for numpy, ONNX or Amaranth."""
    slow = "{'numpy', 'google.protobuf', 'amaranth', 'click', 'rich', 'torch', 'onnx', 'onnx_hw.flow', 'onnx_hw.api'}"
    checkout = [CHECKOUT / folder for folder in PARTS.values()]
    for module, wanted in (("onnx_hw", []), ("onnx_hw.cli.cli", ["click", "rich"])):
        done = python(f"import sys, {module}; print(sorted({slow} & set(sys.modules)))", checkout)
        assert done.stdout == f"{wanted}\n", done.stderr


def test_commands_on_a_build_answer_before_the_compiler_is_there():
    """``infer`` and ``verify`` read a report, and wait neither for Amaranth nor for the operators of ONNX."""
    slow = "{'amaranth', 'onnx_hw.onnx.operators', 'onnx_hw.ir.golden', 'onnx_hw.prove.circuit.prove', 'onnx_hw.flow'}"
    checkout = [CHECKOUT / folder for folder in PARTS.values()]
    for module in ("infer", "verify", "self_test"):
        program = f"import sys, onnx_hw.commands.{module}, onnx_hw.report.read; print({slow} & set(sys.modules))"
        assert python(program, checkout).stdout == "set()\n", module


def test_public_names_are_functions_whatever_was_imported():
    """A module of the same name would take a function's place as soon as somebody imports it."""
    code = """
import importlib, pkgutil, onnx_hw
before = dir(onnx_hw)
for module in pkgutil.walk_packages(onnx_hw.__path__, "onnx_hw."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
network = onnx_hw.quantize("examples/digits/digits.onnx")
build = onnx_hw.build(network, out=OUT, stop_after="read")
print(set(onnx_hw.__all__) <= set(before), type(network).__name__, build.report.model.name, onnx_hw.flow.__name__)
"""
    with tempfile.TemporaryDirectory() as folder:
        done = python(code.replace("OUT", repr(folder)), [CHECKOUT / folder for folder in PARTS.values()])
    assert done.stdout == "True QuantizedModel digits onnx_hw.flow\n", done.stderr


def test_a_list_of_boards_does_not_wait_for_the_compiler():
    checkout = [CHECKOUT / folder for folder in PARTS.values()]
    program = "import atexit, sys; from onnx_hw.cli.cli import main; sys.argv = ['onnx-hw', 'boards']; "
    program += "atexit.register(lambda: print('onnx_hw.flow' in sys.modules)); main()"
    done = python(program, checkout)
    assert "iCEBreaker" in done.stdout and done.stdout.endswith("False\n"), done.stderr


def test_every_option_of_the_command_is_a_keyword():
    """A new option of ``onnx-hw build`` is a new keyword of ``onnx_hw.build``, typed and described."""
    flags = ("witness", "gate_level", "bitstream_check")
    renamed = {**{f"no_{name}": name for name in flags}, "output": "output_kind"}
    options = {renamed.get(option.name, option.name) for option in build.params} - {"as_json", "verbose"}
    described = inspect.getdoc(onnx_hw.build) or ""
    assert options <= set(inspect.signature(onnx_hw.build).parameters)
    assert [name for name in options if f"\n    {name}: " not in described] == []


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "onnx_hw", "build", "--help"], capture_output=True, text=True, timeout=60, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(CHECKOUT / folder) for folder in PARTS.values())},
    )  # fmt: skip
    assert done.stdout.startswith("Usage: onnx-hw build [OPTIONS] MODEL\n")


@pytest.mark.parametrize("name", PARTS)
def test_annotations_are_for_everybody(name):
    """Each package says so by a file that is installed with it."""
    assert (CHECKOUT / PARTS[name] / name / "py.typed").is_file()
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"][name]


def test_the_oldest_dependencies_are_the_lower_bounds():
    done = subprocess.run([CHECKOUT / ".ci" / "oldest"], capture_output=True, text=True, timeout=60, check=True)
    lower = [re.match(r"([\w-]+)>=([\d.]+)", dependency).groups() for dependency in PROJECT["project"]["dependencies"]]
    assert done.stdout.split() == [f"{name}=={version}" for name, version in lower]


def test_hosted_checks_run_what_everybody_runs():
    """Every version of Python from the oldest allowed one on, and no step but those of ``.ci/run``."""
    text = (CHECKOUT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    versions = [tuple(map(int, version)) for version in re.findall(r'"(\d+)\.(\d+)"', text)]
    first = tuple(map(int, re.findall(r"\d+", PROJECT["project"]["requires-python"])))
    assert min(versions) == first
    assert {(first[0], minor) for minor in range(first[1], max(versions)[1] + 1)} == set(versions)
    assert {"newest", "oldest"} <= set(re.findall(r"dependencies: \[?(\w+)", text))
    runs = re.findall(r"^ +- run: (\.ci/run.*)$", text, re.MULTILINE)
    assert runs == [".ci/run ${{ matrix.part }}", ".ci/run tests"] and "part: [lint, types, docs, torch]" in text


def test_jobs_that_run_pytest_install_what_its_options_need() -> None:
    """The options of pyproject.toml hold for every run, also for one of a few files."""
    workflow = (CHECKOUT / ".github" / "workflows" / "ci.yml").read_text()
    for job in re.split(r"^  (?=\w+:$)", workflow, flags=re.MULTILINE):
        if "-m pytest" in job:
            assert "pytest-xdist" in job, job
