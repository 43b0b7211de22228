"""The rooms of `lib`: imports go one way, and statistics and pages never reach torch."""

import re

import pytest

from lib.paths import ROOT
from lib.run import fingerprint
from lib.run.fingerprint import reached

# Each room and those it may import from, which stand before it, so that there are no circles.
_BASE = ("paths", "registry", "run", "results")
ROOMS = {
    "paths": (),
    "registry": (),
    "run": ("paths", "registry"),
    "results": ("paths", "run"),
    "kernels": _BASE,
    "cells": (*_BASE, "kernels"),  # a cell asks for an engine
    "tasks": _BASE,
    "probes": (*_BASE, "kernels", "cells", "tasks"),
    "training": (*_BASE, "kernels", "cells", "tasks", "probes"),
    "plotting": ("paths", "run", "results"),
    "analysis": ("paths", "run", "results", "plotting"),
    "report": ("paths", "run", "results", "analysis", "plotting"),
    "bench": (*_BASE, "kernels", "cells", "tasks", "probes", "training", "analysis", "plotting"),
}
WITHOUT_TORCH = ("run", "results", "plotting", "analysis", "report")

FILES = sorted((ROOT / "lib").rglob("*.py"))


def _room(file):
    return file.relative_to(ROOT / "lib").parts[0].removesuffix(".py")


def _imports(file):
    """Return the files of `lib` that a file imports."""
    return [path for path in fingerprint._read(file, ROOT).uses if _room(path) != "__init__"]


def test_every_room_is_listed_after_those_it_may_import_from():
    assert {_room(file) for file in FILES} - {"__init__"} == set(ROOMS)
    listed = [*ROOMS]
    for place, room in enumerate(listed):
        assert set(ROOMS[room]) <= set(listed[:place]), room


@pytest.mark.parametrize("room", ROOMS)
def test_no_import_climbs(room):
    climbing = [
        f"{file.relative_to(ROOT)} imports {path.relative_to(ROOT)}"
        for file in FILES
        for path in _imports(file)
        if _room(file) == room and _room(path) not in (room, *ROOMS[room])
    ]
    assert not climbing, "\n".join(climbing)


def test_modules_of_a_room_import_each_other_one_way():
    """No two modules need each other, wherever in a file the import stands."""
    graph = {file: {path for path in _imports(file) if path != file} for file in FILES}
    for package in (file for file in FILES if file.name == "__init__.py"):
        # A package and its own members import each other by nature.
        graph[package] = {path for path in graph[package] if package.parent not in path.parents}
    while free := {file for file, targets in graph.items() if not targets}:
        graph = {file: targets - free for file, targets in graph.items() if file not in free}
    assert not graph, sorted(file.relative_to(ROOT).as_posix() for file in graph)


@pytest.mark.parametrize("room", WITHOUT_TORCH)
def test_statistics_and_pages_never_import_torch(room):
    files = [file.relative_to(ROOT).with_suffix("") for file in FILES if _room(file) == room]
    names = [".".join(file.parts).removesuffix(".__init__") for file in files]
    importing = re.compile(r"^\s*(import|from) torch\b", re.MULTILINE)
    reaching = [
        path for path in reached(names) if importing.search((ROOT / path).read_text("utf-8"))
    ]
    assert not reaching
