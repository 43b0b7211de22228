"""The stages of `dvc.yaml`, made from the notebooks."""

import io
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.scalarstring import FoldedScalarString

from lib.paths import ROOT
from lib.run.notebooks import read_cells, read_parameters
from lib.run.params import Profile
from lib.run.pipeline.datasets import ANALYSES, EXPERIMENTS, REFERENCE, result_sets, written
from lib.run.pipeline.imports import modules, notebook_modules

PREPARED = "data/prepared"

_READ_BY = {
    "lib/results/published.py": "data/published",
    "lib/results/timings.py": "data/reference/timings",
}
"""Folders that a module reads whoever imports it."""
_KINDS = ("tables", "figures", "executed")
_FIRST, _LAST = ("prepare", "train"), ("coverage", "report")
"""Stages whose commands are written by hand."""
_MODULE = re.compile(r"python -m (lib[.\w]*)")


def _title(notebook: Path) -> str:
    first, _, _ = read_cells(notebook)[0].source.partition("\n")
    return first.removeprefix("#").strip()


def experiment(notebook: Path, root: Path = ROOT) -> CommentedMap:
    """Return the stage of a notebook that trains or simulates, as it stands in `dvc.yaml`."""
    parameters, out = read_parameters(notebook), written(notebook)
    values = {"profile": "${profile}", "prepared": PREPARED, "out": out}
    executed = f"data/executed/{notebook.name}"
    section = Path(out).stem
    stage = CommentedMap(desc=_title(notebook), cmd=_command(notebook, executed, values))
    if "profile" in parameters:
        sections = [section] if section in Profile.model_fields else []
        sections += ["data"] if "prepared" in parameters else []
        keys = [f"profiles.${{profile}}.{name}" for name in sorted(sections)]
        stage["params"] = ["profile", *keys]
    reads = [PREPARED] if "prepared" in parameters else []
    stage["deps"] = _deps(f"notebooks/{notebook.name}", reads, notebook_modules(notebook, root))
    stage["outs"] = [executed, out]
    return stage


def analysis(notebook: Path, root: Path = ROOT) -> CommentedMap:
    """Return the stage of an analysis notebook, as it stands in `dvc.yaml`."""
    stem, parameters, sets = notebook.stem, read_parameters(notebook), result_sets(notebook, root)
    label = "${key}" if sets else "rebuilt"
    executed = f"data/executed/{label}/{notebook.name}"
    values = {
        "results": "${item}",
        "prepared": PREPARED,
        "profile": "${profile}",
        "out": "data",
        "result_set": label,
    }
    reads = [values[name] for name in ("results", "prepared") if name in parameters]
    stage = CommentedMap(
        desc=_title(notebook),
        cmd=_command(notebook, executed, values),
        deps=_deps(f"notebooks/{notebook.name}", reads, notebook_modules(notebook, root)),
        outs=[executed, f"data/figures/{label}/{stem}", f"data/tables/{label}/{stem}"],
    )
    return CommentedMap(foreach=CommentedMap(sets), do=stage) if sets else stage


def _command(notebook: Path, executed: str, values: dict[str, str]) -> FoldedScalarString:
    """Return the command that runs a notebook with those of the values that it has parameters for."""
    known = read_parameters(notebook)
    given = [f"-p {name} {value}" for name, value in values.items() if name in known]
    first = f"python -m lib.run notebooks/{notebook.name} {executed}"
    text = FoldedScalarString(f"{first} {' '.join(given)}")  # which DVC's shell gets as one line
    text.fold_pos = [len(first)]  # type: ignore[attr-defined]
    return text


def _deps(first: str, reads: Iterable[str], files: list[str]) -> list[str]:
    more = [folder for file, folder in _READ_BY.items() if file in files]
    return [first, *dict.fromkeys((*reads, *more)), *files]


def render(text: str, root: Path = ROOT) -> str:
    """Return the content of `dvc.yaml` with fresh stages of the notebooks and fresh dependencies.

    Parameters
    ----------
    text
        Its present content.
    """
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 1000
    document = yaml.load(text)
    stages = document["stages"]
    folder = root / "notebooks"
    experiments = {path.stem: experiment(path, root) for path in sorted(folder.glob(EXPERIMENTS))}
    analyses = {path.stem: analysis(path, root) for path in sorted(folder.glob(ANALYSES))}
    by_hand = {name: stages[name] for name in (*_FIRST, *_LAST)}
    _refresh(by_hand, experiments, root)
    fresh = {**by_hand, **experiments, **analyses}
    for name in list(stages):
        del stages[name]
    for name in (*_FIRST, *experiments, *analyses, *_LAST):
        stages[name] = fresh[name]
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def labels(root: Path = ROOT) -> list[str]:
    """Return the labels of all sets of results that some analysis is run for."""
    found = {"rebuilt": None}
    for notebook in sorted((root / "notebooks").glob(ANALYSES)):
        found.update(dict.fromkeys(result_sets(notebook, root)))
    return list(found)


def _refresh(
    stages: dict[str, CommentedMap], experiments: dict[str, CommentedMap], root: Path
) -> None:
    """Write the dependencies of the stages whose rest is written by hand."""
    made = [f"data/{kind}/{label}" for kind in ("tables", "figures") for label in labels(root)]
    notebooks = [*stages.values(), *experiments.values()]
    executed = [out for stage in notebooks for out in stage["outs"] if "executed" in out]
    reads = {
        "prepare": [],
        "train": [PREPARED],
        "coverage": made,
        "report": [
            *sorted(executed),
            *(f"data/executed/{label}" for label in labels(root)),
            *made,
            "data/tables/coverage.csv",
            *(["data/reference"] if (root / REFERENCE).exists() else []),
        ],
    }
    for name, stage in stages.items():
        stage["deps"] = _dependencies(stage["cmd"], reads[name], root)


def _dependencies(command: str, reads: Iterable[str], root: Path) -> list[str]:
    """Return the dependencies of a command that runs a notebook or a package of `lib`."""
    notebook = re.search(r"notebooks/\S+\.ipynb", command)
    if notebook:
        return _deps(notebook[0], reads, notebook_modules(root / notebook[0], root))
    package = Path(*_MODULE.match(command)[1].split("."))
    sources = [path.read_text("utf-8") for path in sorted((root / package).glob("*.py"))]
    files = [name for name in modules(sources, root) if not name.startswith(package.as_posix())]
    return _deps(package.as_posix(), reads, files)


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
                if folder.name not in labels(root) or path.name.split(".")[0] not in known:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                    removed.append(path.relative_to(root))
    return removed
