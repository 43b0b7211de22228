"""The rooms of `lib/`: imports go one way, and statistics and pages never reach torch.

Every definition is used by training, an engine, a command or two notebooks, or is an estimator that
an oracle checks.
"""

import ast
import re
import sys
from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter

import pytest
from study.paths import NOTEBOOKS, ROOT
from study.pipeline import modules
from study.pipeline.fingerprint import reached
from study.pipeline.notebooks import read_cells

# Each room and those it may import from, which stand before it, so that there are no circles.
LIBRARY = {
    "registry": (),
    "kernels": ("registry",),
    "cells": ("registry", "kernels"),  # a cell asks for an engine
    "probes": ("kernels", "cells"),
}
"""The rooms of `longrnn`, which imports nothing of `study`."""
STUDY = {
    "paths": (),
    "config": (*LIBRARY, "paths"),
    "pipeline": ("paths", "config"),
    "results": ("paths", "pipeline"),
    "tasks": (*LIBRARY, "paths", "config", "pipeline", "results"),
    "training": (*LIBRARY, "paths", "config", "pipeline", "results", "tasks"),
    "figures": ("paths", "pipeline", "results"),
    "notebook": ("paths", "pipeline", "results", "figures"),
    "stats": ("paths", "pipeline", "results"),
    "claims": ("paths", "results", "stats"),
    "report": ("paths", "config", "pipeline", "results", "stats", "claims", "figures"),
    "bench": (
        *LIBRARY,
        "paths",
        "config",
        "pipeline",
        "results",
        "tasks",
        "training",
        "stats",
        "figures",
    ),
}
ROOMS = LIBRARY | STUDY
WITHOUT_TORCH = ("pipeline", "results", "figures", "notebook", "stats", "claims", "report")
REQUIRED = {"torch", "numba", "numpy", "scipy", "threadpoolctl"}
"""Packages that `longrnn` imports; NVIDIA's compiler comes with numba-cuda."""

FILES = sorted((ROOT / "lib").rglob("*.py"))


def _module(file):
    return ".".join(file.relative_to(ROOT / "lib").with_suffix("").parts).removesuffix(".__init__")


def _room(file):
    _package, room, *_ = file.relative_to(ROOT / "lib").parts
    return room.removesuffix(".py")


def _imports(file):
    """Return the files in `lib/` that a file imports."""
    return [path for path in modules.read_module(file, ROOT).uses if _room(path) != "__init__"]


def test_rooms_are_listed_in_order_of_imports():
    assert {_room(file) for file in FILES} - {"__init__"} == set(ROOMS)
    listed = [*ROOMS]
    for place, room in enumerate(listed):
        assert set(ROOMS[room]) <= set(listed[:place]), room


def test_longrnn_imports_only_its_required_packages():
    for file in FILES:
        if file.is_relative_to(ROOT / "lib" / "longrnn"):
            tree = ast.parse(file.read_text("utf-8"))
            names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
            names |= {
                alias.name
                for node in ast.walk(tree)
                if isinstance(node, ast.Import)
                for alias in node.names
            }
            packages = {name.split(".")[0] for name in names if name}
            unexpected = packages - sys.stdlib_module_names - REQUIRED - {"longrnn"}
            assert not unexpected, f"{file} imports {sorted(unexpected)}"


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_only_listed_rooms(room):
    climbing = [
        f"{file.relative_to(ROOT)} imports {path.relative_to(ROOT)}"
        for file in FILES
        for path in _imports(file)
        if _room(file) == room and _room(path) not in (room, *ROOMS[room])
    ]
    assert not climbing, "\n".join(climbing)


@pytest.mark.parametrize("room", sorted(set(STUDY) - {"paths", "notebook"}))
def test_the_docstring_of_a_room_names_all_its_modules(room):
    folder = ROOT / "lib" / "study" / room
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
    words = set(re.findall(r"\w+", docstring))
    missing = {path.stem for path in folder.glob("[!_]*.py")} - words
    assert not missing, f"{sorted(missing)} missing in the docstring of study.{room}"


def test_modules_do_not_import_in_circles():
    """No two modules need each other, wherever in a file the import stands."""
    graph = {file: set(_imports(file)) - {file} for file in FILES}
    for package in (file for file in FILES if file.name == "__init__.py"):
        # A package and its own members import each other by nature.
        graph[package] = {path for path in graph[package] if package.parent not in path.parents}
    TopologicalSorter(graph).prepare()  # names the modules of a circle


@pytest.mark.parametrize("room", WITHOUT_TORCH)
def test_rooms_without_torch_never_import_it(room):
    names = [_module(file) for file in FILES if _room(file) == room]
    importing = re.compile(r"^\s*(import|from) torch\b", re.MULTILINE)
    actual = [file for file in reached(names) if importing.search((ROOT / file).read_text("utf-8"))]
    assert not actual


TRAINED = ("longrnn.cells.", "longrnn.kernels.", "study.tasks.", "study.training.")
"""Rooms whose members are found by name: everything that runs at import counts."""
COMMANDS = (
    "study.pipeline",
    "study.pipeline.kernel",
    "study.report",
    "study.report.build",
    "study.report.compare",
    "study.report.conf",
    "study.report.look",
    "study.report.readme",
)
COMMANDS += ("study.results.reference", "longrnn")
ORACLES = {
    "study.claims.coadjoint_gaps": "data in which its claims are false",
    "study.claims.error_rates": "data in which its claims are false",
    "study.claims.operations": "data in which its claim is false",
    "study.claims.padding": "data in which its claims are false",
    "study.claims.reversal": "data in which its claims are false",
    "study.claims.shuffled": "scores and answers that are known to belong together",
    "study.claims.models": "data in which its claims are false",
    "study.claims.tasks": "data in which its claims are false",
    "study.stats.comparisons.compare_error_rates": "R",
    "study.stats.within_groups": "statsmodels, with an intercept per group",
    "study.bench.coadjoint": "the memory of a fresh process",
    "study.bench.counts.count_engine_probe": "launches counted by hand",
    "study.bench.counts.engine_bytes": "vectors counted by hand",
    "study.bench.conformance": "PyTorch's own checks",
    "study.bench.parity": "the cells in float64",
}
"""Modules and definitions that one notebook alone calls, and what they are held to."""


class Names:
    """The definitions of a piece of code, and what it names of `lib/`."""

    def __init__(self, text):
        self.tree = ast.parse(text)
        kinds = ast.FunctionDef | ast.ClassDef
        self.definitions = {node.name: node for node in self.tree.body if isinstance(node, kinds)}
        self.imported = {}
        for node in ast.walk(self.tree):
            for alias in getattr(node, "names", ()) if isinstance(node, ast.ImportFrom) else ():
                self.imported[alias.asname or alias.name] = node.module or "", alias.name

    def used_by(self, node):
        """Yield module and definition of every name in `node`; None for a module as a whole."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in self.definitions:
                yield None, part.id
            elif isinstance(part, ast.Name) and part.id in self.imported:
                yield self.imported[part.id]
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                yield ".".join(self.imported.get(part.value.id, ("", ""))), part.attr


@cache
def _modules():
    """Return the names in every module of `lib/`."""
    return {_module(file): Names(file.read_text("utf-8")) for file in FILES}


def _reached(start):
    """Return all definitions that these lead to, with imports, decorators and constants."""
    seen = set()
    todo = list(start)
    while todo:
        module, name = definition = todo.pop()
        if f"{module}.{name}" in _modules():
            todo.append((f"{module}.{name}", None))
        elif module in _modules() and definition not in seen:
            seen.add(definition)
            here = _modules()[module]
            todo = [*todo, (module, None)]
            nodes = [here.definitions[name]] if name in here.definitions else []
            if name is None:
                nodes = [node for node in here.tree.body if node not in here.definitions.values()]
                todo += [
                    (module, member)
                    for member, node in here.definitions.items()
                    if node.decorator_list or getattr(node, "keywords", ())
                ]
            elif name in here.imported:
                todo.append(here.imported[name])
            todo += [(of or module, used) for node in nodes for of, used in here.used_by(node)]
    return {(module, name) for module, name in seen if name in _modules()[module].definitions}


def _definitions(name):
    if name in _modules():
        return {(name, member) for member in _modules()[name].definitions}
    return {tuple(name.rsplit(".", 1))}


def test_every_definition_in_lib_is_needed():
    roots = [(name, None) for name in _modules() if name.startswith(TRAINED)]
    commands = [name for name in _modules() if name.endswith("__main__") or name in COMMANDS]
    roots += [
        (name, member) for name in commands for member in (None, *_modules()[name].definitions)
    ]
    notebooks = defaultdict(set)
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        code = "\n".join(cell.source for cell in read_cells(path) if cell.kind == "code")
        text = Names(re.sub(r"(?m)^[%!].*", "", code))
        actual = _reached([*text.used_by(text.tree), *text.imported.values()])
        if path.name < "2":  # these prepare, train and simulate
            roots += actual
        for definition in actual:
            notebooks[definition].add(path.stem)
    reached = _reached(roots)
    reached |= {definition for definition, names in notebooks.items() if len(names) > 1}
    allowed = reached | _reached(set().union(*map(_definitions, ORACLES)))
    everything = {
        (module, member) for module, names in _modules().items() for member in names.definitions
    }
    assert not [(one, notebooks[one] or "tests alone") for one in sorted(everything - allowed)]
    needless = [name for name in ORACLES if _definitions(name) <= reached]
    assert not needless, f"take these off the list of oracles: {needless}"
