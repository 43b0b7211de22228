"""The environment is said once: requirements, lock, conda file, project file and Makefile agree."""

import ast
import re
import subprocess
import sys
from importlib.metadata import metadata, packages_distributions

import nbformat
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from lib.paths import NOTEBOOKS, ROOT

# Imported through the package in brackets, which pins it: Dask (distributed) and packaging (pytest).
_BROUGHT_ALONG = {"cuda-pathfinder", "dask", "packaging"}


def _lines(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and line[0] != "#"]


def _requirements():
    found = [Requirement(line) for line in _lines("requirements.in")]
    by_name = {canonicalize_name(item.name): item for item in found}
    assert len(by_name) == len(found), "a requirement is listed twice"
    return by_name


def _lock():
    pins = [line.split("==") for line in _lines("requirements.lock")]
    return {canonicalize_name(name): version for name, version in pins}


def test_every_requirement_has_a_bound_that_its_pin_fulfils():
    lock = _lock()
    for name, requirement in _requirements().items():
        assert requirement.specifier, f"{name} has no bound in requirements.in"
        assert name in lock, f"{name} is not in requirements.lock; make the lock again"
        assert requirement.specifier.contains(lock[name]), (
            f"{requirement}: the lock says {lock[name]}"
        )


def test_the_lock_fits_the_cpu_build_and_the_cuda_build():
    lines = _lines("requirements.lock")
    for line in lines:
        # No build tags such as +cpu, no links, no paths: each line is a name and a version.
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line), line
    names = set(_lock())
    assert not {"pip", "setuptools", "long-time-dependencies"} & names
    assert not [name for name in names if name.startswith("nvidia-")]


def test_every_pin_supports_the_first_python_that_make_accepts():
    # A lock made with a late 3.11 may name releases that an early one, such as Debian's, cannot install.
    for name, version in _lock().items():
        installed = metadata(name)["Version"].split("+")[0]
        assert installed == version, f"{name} {installed} is installed, the lock says {version}"
        supported = metadata(name).get("Requires-Python")
        assert supported is None or SpecifierSet(supported).contains("3.11.0"), f"{name} {version}"


def test_conda_installs_the_same_files():
    environment = YAML(typ="safe").load((ROOT / "environment.yml").read_text("utf-8"))
    assert environment["channels"] == ["conda-forge"]
    *conda, pip = environment["dependencies"]
    assert pip == {"pip": ["-r requirements.in", "-c requirements.lock", "-e ."]}
    assert {re.split("[=<>]", name)[0] for name in conda} == {"python", "make", "pip"}
    pins = {line for line in conda if line.startswith("python=")}
    assert pins == {"python=3.11"}
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert 'requires-python = ">=3.11"' in project
    assert "-r requirements.in -c requirements.lock" in (ROOT / "Makefile").read_text("utf-8")


def _sources():
    for folder in ("lib", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, path.read_text("utf-8")
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        yield path, "\n".join(cell.source for cell in cells if cell.cell_type == "code")


def _imports(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


def test_every_package_that_is_imported_is_required():
    own = {"lib", "tests", "trials", *(path.stem for path in (ROOT / "tests").rglob("*.py"))}
    known = set(_requirements()) | _BROUGHT_ALONG
    distributions = packages_distributions()
    for path, source in _sources():
        for name in set(_imports(source)) - own - sys.stdlib_module_names:
            candidates = {canonicalize_name(found) for found in distributions.get(name, [name])}
            assert candidates & known, f"{path.name} imports {name}; add it to requirements.in"


def test_make_help_lists_every_word_and_each_is_short():
    text = (ROOT / "Makefile").read_text("utf-8")
    words = {
        "help", "repro", "test", "trials", "mutants", "lab", "lint", "report", "look", "bench", "bench-gpu", "time-figure-1",
        "keep-reference", "clean",
    }  # fmt: skip
    command = ["make", "--no-print-directory", "help"]  # itself perhaps run by make
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert {line.split()[0] for line in told.stdout.splitlines()} == words
    assert words <= set(re.search(r"\.PHONY: (.*)", text)[1].split())


def test_make_refuses_an_old_python_in_one_sentence(tmp_path):
    old = tmp_path / "python"
    # The installed Python, telling an older version.
    old.write_text(
        f'#!/bin/sh\nshift; exec {sys.executable} -c "import sys; sys.version_info = (3, 9, 1)\n$1"\n'
    )
    old.chmod(0o755)
    command = ["make", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}", "test"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "needs Python 3.11 or later" in done.stderr
    assert "is 3.9" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_make_makes_a_broken_environment_anew_and_leaves_a_whole_one(tmp_path):
    (tmp_path / "bin").mkdir()
    python, stamp = tmp_path / "bin" / "python", tmp_path / "requirements"
    command = ["make", "--dry-run", f"VENV={tmp_path}", "test"]
    for target, broken in ((sys.executable, False), ("/nowhere/python3.11", True)):
        python.unlink(missing_ok=True)
        python.symlink_to(target)
        stamp.touch()
        if not broken:  # what a link to an environment's Python does not find by itself
            python.unlink()
            python.write_text(f'#!/bin/sh\nexec {target} "$@"\n')
            python.chmod(0o755)
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        assert ("Setting up the environment" in done.stdout) == broken


def test_the_citation_names_the_software_and_five_texts():
    citation = YAML(typ="safe").load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["license"] == "MIT"
    assert len(citation["references"]) == 5
    assert all(
        text["title"] and text["authors"] and text["type"] for text in citation["references"]
    )
