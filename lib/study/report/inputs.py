"""Read what the pipeline produced: manifests of artifacts, executed notebooks, provenance."""

import json
from operator import attrgetter
from pathlib import Path

import pandas as pd
from pydantic import ValidationError
from toolz import groupby

from study.config.section import format_value
from study.paths import REFERENCE
from study.pipeline.notebooks import NotebookError, read_parameters, read_title
from study.report.contents import (
    RESULT_SETS,
    SUFFIXES,
    Artifact,
    Inputs,
    Notebook,
    Provenance,
    ReportError,
)


def load_inputs(data: Path) -> Inputs:
    """Read everything below a folder.

    Parameters
    ----------
    data : Path
        Folder of ``executed/``, ``made/`` and ``reference/``.

    Returns
    -------
    Inputs

    Raises
    ------
    ReportError
        Something is missing or damaged; the message says what.
    """
    notebooks = load_notebooks(data)
    if not notebooks:
        raise ReportError(
            f"no executed notebook in {data}; run `make repro` first, the report shows its results"
        )
    reference = data / "reference"
    if not reference.is_dir():
        reference = REFERENCE
    stored = sorted(reference.glob("*/*.nc"))
    provenance = {}
    for path in stored:
        record = _read_record(path.with_suffix(".json"))
        provenance[f"{path.stem}, {path.parent.name}"] = record
    return Inputs(load_artifacts(data), notebooks, provenance)


def _read_record(path: Path) -> Provenance:
    """Read the provenance of a stored result.

    A number that is missing or of another kind is left out; the page still shows the rest.
    """
    content = _read_object(path)

    def number(section: str, name: str) -> float:
        entries = content.get(section)
        if isinstance(entries, dict) and isinstance(entries.get(name), int | float):
            return entries[name]
        return 0

    hours = number("cost", "core_seconds") / 3600
    return Provenance(content, int(number("attempts", "all")), hours)


def load_artifacts(data: Path) -> tuple[Artifact, ...]:
    """Read the manifests in ``made/<notebook>/<set of results>/``.

    Parameters
    ----------
    data : Path
        Folder of ``made/``.

    Returns
    -------
    tuple of Artifact
        By set of results, notebook and name.

    Raises
    ------
    ReportError
        A manifest is damaged, or a file that it names is missing.
    """
    if not data.is_dir():
        raise ReportError(f"no folder {data}; expected the one that holds made/")
    artifacts = []
    for path in data.glob("made/*/*/*/*.json"):
        # A manifest is written last: files without one are unfinished and are not shown.
        notebook, result_set = path.parts[-4:-2]
        if (path.parents[1] / f"{notebook}.failed.ipynb").exists():
            continue  # written before its notebook failed, maybe in its checks
        item = _read_artifact(path, notebook, result_set)
        for suffix in SUFFIXES[item.kind]:
            if not item.path(suffix).exists():
                raise ReportError(
                    f"{path} promises {item.path(suffix).name}, which is not there; "
                    "run its notebook again"
                )
        artifacts.append(item)
    artifacts.sort(key=lambda i: (_order(i.result_set), i.notebook, i.manifest.stem, i.kind))
    return tuple(artifacts)


def read_table(path: Path) -> pd.DataFrame:
    """Read a table of the pipeline.

    Parameters
    ----------
    path : Path
        A CSV file.

    Returns
    -------
    pandas.DataFrame
        Empty cells are nan; levels such as the noise ``none`` stay text.
    """
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def load_notebooks(data: Path) -> tuple[Notebook, ...]:
    """Read the executed notebooks in ``executed/`` and ``made/*/*/``.

    The set of results is the notebook's parameter ``result_set``; a notebook without it belongs
    to the pipeline's own run.

    Parameters
    ----------
    data : Path
        Folder of ``executed/`` and ``made/``.

    Returns
    -------
    tuple of Notebook
        By name and set of results.

    Raises
    ------
    ReportError
        A notebook cannot be read, or two show the same notebook and the same results.
    """
    notebooks = []
    # Hidden files are unfinished.
    paths = [*data.glob("executed/[!.]*.ipynb"), *data.glob("made/[!.]*/[!.]*/[!.]*.ipynb")]
    for path in sorted(paths):
        if path.name.endswith(".failed.ipynb"):
            continue  # left for its author
        if path.with_suffix(".failed.ipynb").exists():
            continue  # the copy of an earlier run
        try:
            result_set = str(read_parameters(path).get("result_set", "rebuilt"))
            notebooks.append(Notebook(path, result_set, read_title(path)))
        except (NotebookError, OSError) as error:
            raise ReportError(
                f"cannot read the executed notebook {path} ({error}); run `make repro` again"
            ) from None
    for first, *others in groupby(attrgetter("page"), notebooks).values():
        if others:
            raise ReportError(
                f"{first.path} and {others[0].path} show the same notebook and the same results; "
                "delete one of them"
            )
    notebooks.sort(key=lambda notebook: (notebook.name, _order(notebook.result_set)))
    return tuple(notebooks)


def _read_object(path: Path) -> dict:
    """Return the JSON object at `path`."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:  # UnicodeDecodeError is one
        raise ReportError(f"{path}: Invalid JSON ({error}); write the file again") from None
    if not isinstance(content, dict):
        raise ReportError(
            f"{path}: expected an object, got {format_value(content)}; write it again"
        )
    return content


def _read_artifact(path: Path, notebook: str, result_set: str) -> Artifact:
    """Return the manifest at `path`; a ReportError says what is wrong with it."""
    content = _read_object(path)
    content |= {"notebook": notebook, "result_set": result_set, "manifest": path}
    try:
        return Artifact.model_validate(content)
    except ValidationError as error:
        wrong = error.errors()[0]
        name = ".".join(map(str, wrong["loc"])) or "its content"
        got = format_value(wrong["input"])
        if wrong["type"] == "missing":
            got = "missing"
        raise ReportError(
            f"{path}: {name} is {got} ({wrong['msg']}); write the file again"
        ) from None


def _order(result_set: str) -> tuple[int, str]:
    """Return the sort key of a set of results; unknown sets come last, by name."""
    known = list(RESULT_SETS)
    position = len(known)
    if result_set in known:
        position = known.index(result_set)
    return position, result_set
