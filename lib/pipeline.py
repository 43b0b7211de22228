"""Keep `dvc.yaml` in step with the notebooks: a new analysis notebook is one new file, and no dependency is forgotten.

`python -m lib.pipeline` (`make repro` and the commit hook call it) writes into `dvc.yaml`

- a stage for every analysis notebook, ``notebooks/2*.ipynb``. A notebook with the parameter ``results`` is run once
  for each set of results, `result_sets`; it says so in its parameters cell and nowhere else;
- the dependencies of every stage: the notebook, the data it reads, and exactly those modules of `lib` that it imports,
  directly or through others, so that a change of a plot does not train any network again.

All else in `dvc.yaml` is written by hand and left alone.
"""

import argparse
import ast
import io
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.scalarstring import FoldedScalarString

from lib.notebooks import NotebookError, read_cells, read_parameters
from lib.params import ParameterError, load_params
from lib.paths import ROOT

ANALYSES = "2*.ipynb"
REBUILT = "data/results/factorial.nc"
REFERENCE = "data/reference/real/factorial.nc"
PREPARED = "data/prepared"

_READ_BY = {"lib/published.py": "data/published"}
"""Folders that a module reads whoever imports it."""
_KINDS = ("tables", "figures", "executed")
_BY_HAND = ("prepare", "train", "coverage", "report")
_MODULE = re.compile(r"python -m (lib[.\w]*)")


def result_sets(root: Path = ROOT) -> dict[str, str]:
    """Return label and file of each set of results: this run's, and the stored reference if there is one."""
    sets = {"rebuilt": REBUILT}
    if (root / REFERENCE).exists():
        sets["reference"] = REFERENCE
    return sets


def modules(sources: list[str], root: Path = ROOT) -> list[str]:
    """Return the files of `lib` that Python code imports, directly or not, as paths from `root`.

    Parameters
    ----------
    sources
        Code, such as the cells of a notebook.

    Notes
    -----
    The code is parsed, not run. A package that fills a registry from its own folder (its ``__init__`` hands on
    ``__path__``) counts whole, and so does any other package of which every file is used.
    """
    found: set[Path] = set()
    todo = [path for source in sources for path in _imports(source, root)]
    while todo:
        path = todo.pop()
        if path in found:
            continue
        found.add(path)
        source = path.read_text(encoding="utf-8")
        todo.extend(_imports(source, root))
        if path.name == "__init__.py" and "__path__" in source:
            todo.extend(path.parent.glob("*.py"))
    packages = {path.parent for path in found if path.parent != root / "lib"}
    whole = {folder for folder in packages if found.issuperset(folder.rglob("*.py"))}
    names = {path.relative_to(root).as_posix() for path in found | whole} - {"lib/__init__.py"}
    return sorted(name for name in names if not any(_inside(name, other) for other in names))


def _inside(name: str, folder: str) -> bool:
    return name.startswith(f"{folder}/")


def _imports(source: str, root: Path) -> Iterator[Path]:
    """Yield the files of the modules of `lib` that `source` names, with those of their packages."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module), level=0, names=aliases):
                names = [module, *(f"{module}.{alias.name}" for alias in aliases)]
            case _:
                continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "lib":
                for end in range(1, len(parts) + 1):
                    yield from _files(root.joinpath(*parts[:end]))


def _files(module: Path) -> Iterator[Path]:
    """Yield the file of a module, or of a package; a name that is neither is a function or a class."""
    for path in (module.with_suffix(".py"), module / "__init__.py"):
        if path.is_file():
            yield path


def _notebook_modules(notebook: Path, root: Path) -> list[str]:
    # Magics are no Python; what they import is none of ours.
    sources = [
        "\n".join(line for line in cell.source.splitlines() if not line.startswith(("%", "!")))
        for cell in read_cells(notebook)
        if cell.kind == "code"
    ]
    return modules(sources, root)


def _title(notebook: Path) -> str:
    first, _, _ = read_cells(notebook)[0].source.partition("\n")
    return first.removeprefix("#").strip()


def analysis(notebook: Path, root: Path = ROOT) -> CommentedMap:
    """Return the stage of an analysis notebook, as it stands in `dvc.yaml`."""
    stem, parameters = notebook.stem, read_parameters(notebook)
    many = "results" in parameters
    label = "${key}" if many else "rebuilt"
    values = {
        "results": "${item}",
        "prepared": PREPARED,
        "profile": "${profile}",
        "out": "data",
        "result_set": label,
    }
    given = [f"-p {name} {value}" for name, value in values.items() if name in parameters]
    command = [
        f"python -m lib.run notebooks/{stem}.ipynb data/executed/{label}/{stem}.ipynb",
        " ".join(given),
    ]
    reads = [values[name] for name in ("results", "prepared") if name in parameters]
    stage = CommentedMap(
        desc=_title(notebook),
        cmd=_folded(command),
        deps=_deps(f"notebooks/{stem}.ipynb", reads, _notebook_modules(notebook, root)),
        outs=[
            f"data/executed/{label}/{stem}.ipynb",
            f"data/figures/{label}/{stem}",
            f"data/tables/{label}/{stem}",
        ],
    )
    return CommentedMap(foreach=CommentedMap(result_sets(root)), do=stage) if many else stage


def _deps(first: str, reads: list[str], files: list[str]) -> list[str]:
    more = [folder for file, folder in _READ_BY.items() if file in files]
    return [first, *dict.fromkeys((*reads, *more)), *files]


def _folded(lines: list[str]) -> FoldedScalarString:
    """Return `lines` as a folded YAML text, which DVC's shell gets as a single line."""
    text = FoldedScalarString(" ".join(lines))
    text.fold_pos = [len(lines[0])]  # type: ignore[attr-defined]
    return text


def render(text: str, root: Path = ROOT) -> str:
    """Return the content of `dvc.yaml` with fresh analysis stages and dependencies.

    Parameters
    ----------
    text
        Its present content.
    """
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 1000
    document = yaml.load(text)
    by_hand = {name: document["stages"][name] for name in _BY_HAND}
    notebooks = sorted((root / "notebooks").glob(ANALYSES))
    analyses = {path.stem: analysis(path, root) for path in notebooks}
    _refresh(by_hand, root)
    stages = document["stages"]
    for name in list(stages):
        del stages[name]
    order = ["prepare", "train", *analyses, "coverage", "report"]
    for name in order:
        stages[name] = {**by_hand, **analyses}[name]
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def _refresh(stages: dict[str, CommentedMap], root: Path) -> None:
    """Write the dependencies of the stages whose rest is written by hand."""
    sets = result_sets(root)
    made = [f"data/{kind}/{label}" for kind in ("tables", "figures") for label in sets]
    executed = [out for stage in stages.values() for out in stage["outs"] if "executed" in out]
    reads = {
        "prepare": [],
        "train": [PREPARED],
        "coverage": made,
        "report": [
            *executed,
            *(f"data/executed/{label}" for label in sets),
            *made,
            "data/tables/coverage.csv",
            *(["data/reference"] if "reference" in sets else []),
        ],
    }
    for name, stage in stages.items():
        notebook = re.search(r"notebooks/\S+\.ipynb", stage["cmd"])
        if notebook:
            files = _notebook_modules(root / notebook[0], root)
            stage["deps"] = _deps(notebook[0], reads[name], files)
        else:
            package = Path(*_MODULE.match(stage["cmd"])[1].split("."))
            sources = [path.read_text("utf-8") for path in sorted((root / package).glob("*.py"))]
            files = [
                name for name in modules(sources, root) if not name.startswith(package.as_posix())
            ]
            stage["deps"] = _deps(package.as_posix(), reads[name], files)


def prune(root: Path = ROOT) -> list[Path]:
    """Remove outputs of analyses that no longer exist, and return what was removed.

    DVC forgets a stage that is gone and leaves its outputs; coverage and report would still find them. Hidden files
    are those of a run in flight and stay.
    """
    known = {path.stem for path in (root / "notebooks").glob(ANALYSES)}
    removed = []
    for kind in _KINDS:
        for folder in (path for path in (root / "data" / kind).glob("*") if path.is_dir()):
            for path in (path for path in folder.iterdir() if path.name[0] != "."):
                if folder.name not in result_sets(root) or path.name.split(".")[0] not in known:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                    removed.append(path.relative_to(root))
    return removed


def main(arguments: list[str] | None = None) -> int:
    """Check `params.yaml`, refresh `dvc.yaml`, and say what changed."""
    parser = argparse.ArgumentParser(prog="python -m lib.pipeline", description=main.__doc__)
    parser.add_argument(
        "--prune", action="store_true", help="remove outputs of analyses that are gone"
    )
    options = parser.parse_args(arguments)
    path = ROOT / "dvc.yaml"
    before = path.read_text(encoding="utf-8")
    try:
        load_params()  # a misspelled parameter is told here, before DVC or a notebook meets it
        after = render(before)
    except (NotebookError, ParameterError) as error:
        print(f"lib.pipeline: {error}", file=sys.stderr)
        return 2
    if after != before:
        partial = path.with_suffix(".yaml.partial")
        partial.write_text(after, encoding="utf-8")
        partial.replace(path)
        print("lib.pipeline: dvc.yaml now follows the notebooks and their imports")
    for name in prune() if options.prune else []:
        print(f"lib.pipeline: removed {name}, which no stage makes any more")
    return 0


if __name__ == "__main__":
    sys.exit(main())
