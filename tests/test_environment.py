"""The environment has one definition: requirements, lock, conda, project file and Makefile agree.

The examples in docstrings give what they show.
"""

import ast
import doctest
import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import metadata, packages_distributions

import longrnn
import nbformat
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML
from study.paths import NOTEBOOKS, ROOT
from test_rooms import REQUIRED

_BROUGHT_ALONG = (
    "cloudpickle cuda-pathfinder dask jupyter-client markdown-it-py mdit-py-plugins myst-parser "
    "packaging"
)
"""Packages pinned by those that need them: by distributed, pytest and myst-nb, for instance."""

BACKPORTS = {"overrides"}
"""Packages that others need only with Python 3.11, for which the lock is made."""


def _lines(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and line[0] != "#"]


def _requirements():
    actual = [Requirement(line) for line in _lines("requirements.in")]
    by_name = {canonicalize_name(item.name): item for item in actual}
    assert len(by_name) == len(actual), "a requirement is listed twice"
    return by_name


def test_requirements_lock_and_installation_agree():
    pins = [line.split("==") for line in _lines("requirements.lock")]
    lock = {canonicalize_name(name): version for name, version in pins}
    assert not {"pip", "setuptools", "long-time-dependencies"} & set(lock)
    assert not [name for name in lock if name.startswith("nvidia-")], "it fits a CPU as well"
    for name, requirement in _requirements().items():
        assert requirement.specifier, f"{name} has no bound in requirements.in"
        assert requirement.specifier.contains(lock[name]), f"{requirement}: locked {lock[name]}"
    for name, version in lock.items():
        assert re.fullmatch(r"[A-Za-z0-9.]+", version), f"{name} {version} has a build tag"
        if name in BACKPORTS and sys.version_info >= (3, 12):
            continue
        installed = metadata(name)["Version"].split("+")[0]
        assert installed == version, f"{name} {installed} is installed, the lock says {version}"
        # A lock made with a late 3.11 may name releases that an early one cannot install.
        supported = metadata(name).get("Requires-Python", "")
        assert SpecifierSet(supported).contains("3.11.0"), f"{name} {version}"


def test_the_package_requires_what_the_library_imports():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = [Requirement(line) for line in project["dependencies"]]
    assert {requirement.name for requirement in requirements} == REQUIRED
    for requirement in requirements:
        assert requirement.specifier.contains(metadata(requirement.name)["Version"])
    citation = YAML(typ="safe").load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == project["version"]


def test_hub_and_package_name_the_same_requirements_and_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (listed,) = re.findall(r"^dependencies = (.*)$", (ROOT / "hubconf.py").read_text("utf-8"), re.M)
    assert set(ast.literal_eval(listed)) == REQUIRED
    assert longrnn.__version__ == project["version"]


def test_pip_installs_the_library_only(tmp_path):
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation"]
    source = tmp_path / "source"  # the build leaves files in the source folder
    shutil.copytree(ROOT / "lib", source / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE", "requirements.in", "requirements-gpu.in"):
        shutil.copy(ROOT / name, source)
    subprocess.run([*command, "--target", tmp_path / "installed", source], check=True)
    installed = tmp_path / "installed"
    assert sorted(path.name for path in installed.iterdir() if path.suffix != ".dist-info") == [
        "longrnn"
    ]
    for path in (ROOT / "lib/longrnn").rglob("*.py"):
        assert (installed / path.relative_to(ROOT / "lib")).exists(), path
    for name in ("py.typed", "__init__.pyi"):  # for type checkers
        assert (installed / "longrnn" / name).exists()
    # The editable install of `make` adds a folder, in which it finds both packages.
    command += ["--ignore-installed", "--prefix", tmp_path / "editable", "--editable", source]
    subprocess.run(command, check=True)
    (added,) = (tmp_path / "editable").rglob("*.pth")
    assert added.read_text().strip() == str(source / "lib")
    assert (source / "lib/study/__init__.py").exists()


def test_conda_installs_the_same_files():
    environment = YAML(typ="safe").load((ROOT / "environment.yml").read_text("utf-8"))
    *conda, pip = environment["dependencies"]
    assert pip == {"pip": ["-r requirements.in", "-c requirements.lock", "-e ."]}
    assert "python=3.11" in conda and environment["channels"] == ["conda-forge"]
    assert 'requires-python = ">=3.11"' in (ROOT / "pyproject.toml").read_text("utf-8")
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


def test_every_imported_package_is_required():
    our_modules = {
        "longrnn",
        "study",
        "tests",
        "trials",
        *(path.stem for path in (ROOT / "tests").rglob("*.py")),
    }
    known = {*_requirements(), *_BROUGHT_ALONG.split()}
    distributions = packages_distributions()
    for path, source in _sources():
        for name in set(_imports(source)) - our_modules - sys.stdlib_module_names:
            candidates = {canonicalize_name(actual) for actual in distributions.get(name, [name])}
            assert candidates & known, f"{path.name} imports {name}; add it to requirements.in"


def _make(*words, check=True):
    return subprocess.run(["make", *words], cwd=ROOT, capture_output=True, text=True, check=check)


def _script(path, code):
    path.write_text(f"#!/bin/sh\nexec {sys.executable} {code}\n")
    path.chmod(0o755)


def test_make_refuses_an_old_python(tmp_path):
    # The installed Python, telling an older version.
    _script(tmp_path / "python", '-c "import sys; sys.version_info = (3, 9, 1)\n$2"')
    result = _make(
        f"PYTHON={tmp_path / 'python'}", f"VENV={tmp_path / 'venv'}", "test", check=False
    )
    assert result.returncode != 0 and not (tmp_path / "venv").exists()
    assert "needs Python 3.11 or later" in result.stderr and "is 3.9" in result.stderr


@pytest.mark.parametrize("broken", [False, True])
def test_make_replaces_only_a_broken_environment(tmp_path, broken):
    (tmp_path / "bin").mkdir()
    (tmp_path / "requirements").touch()
    if broken:
        (tmp_path / "bin" / "python").symlink_to("/nowhere/python3.11")
    else:  # what a link to an environment's Python does not find by itself
        _script(tmp_path / "bin" / "python", '"$@"')
    result = _make("--dry-run", f"VENV={tmp_path}", "test").stdout
    assert ("Setting up the environment" in result) == broken


MODULES = {
    ".".join(path.relative_to(ROOT / "lib").with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "lib").rglob("*.py")
    if ">>> " in path.read_text("utf-8") and path.name != "_one_step.py"
}
"""Modules with examples in docstrings; that in `_one_step.py` is a template, which cells fill."""


@pytest.mark.parametrize("name", sorted(MODULES))
def test_docstring_examples_run(name):
    actual = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert actual.attempted and not actual.failed


@pytest.mark.parametrize(
    "name", [name for name in longrnn.__all__ if name.endswith("Cell") and name != "Cell"]
)
def test_examples_of_one_step_cells_run(name, capsys):
    doctest.run_docstring_examples(getattr(longrnn, name), {}, name=name)
    assert ">>> " in getattr(longrnn, name).__doc__
    assert not capsys.readouterr().out
