"""Read what the pipeline produced: manifests of artefacts, executed notebooks, provenance."""

from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter, ValidationError
from toolz import groupby

from study.config.section import format_value
from study.paths import REFERENCE
from study.pipeline.notebooks import NotebookError, read_parameters, read_title
from study.results.manifest import Manifest, Name

SUFFIXES = {"table": (".csv",), "figure": (".png", ".svg", ".csv"), "claims": (".csv",)}
"""The files of each kind of artefact, beside its manifest; the first is the one to show."""
RESULT_SETS = {
    "rebuilt": "this run",
    "reference": "stored reference",
    "short": "stored reference, shorter sequences",
    "simulated": "drawn from the published models",
}
"""How a reader calls the result sets, in the order of the site; unknown ones keep their name and go last."""
TOYS = ("smoke", "quick")
"""Profiles that show that the pipeline works, and are evidence of nothing."""
SIMULATED = "simulated"
"""Set of results that no network was trained for: it is never evidence."""
NO_PROFILE = "none"
"""Profile of an artefact that needs neither data nor training."""


class ReportError(RuntimeError):
    """The report cannot be built; the message says what is missing and what to do."""


class Artefact(Manifest):
    """One figure or table that a notebook made from one set of results: a manifest and its place."""

    result_set: Name
    notebook: Name
    manifest: Path

    @property
    def toy(self) -> bool:
        """Whether it is proof that the pipeline works, and no evidence."""
        return self.profile in TOYS

    @property
    def files(self) -> str:
        """Address of its files inside the site, without suffix."""
        return f"files/{self.kind}s/{self.result_set}/{self.notebook}/{self.manifest.stem}"

    def path(self, suffix: str) -> Path:
        """Return the file of this artefact that ends in `suffix`."""
        return self.manifest.with_suffix(suffix)


@dataclass(frozen=True)
class Notebook:
    """An executed notebook."""

    path: Path
    result_set: str
    title: str
    """Its question."""

    @property
    def name(self) -> str:
        """File name without suffix, such as ``22_numerical_errors``."""
        return self.path.stem

    @property
    def page(self) -> str:
        """Address of its page inside the site, without suffix."""
        return f"notebooks/{self.result_set}/{self.name}"


@dataclass(frozen=True)
class Inputs:
    """Everything the site is made of."""

    artefacts: tuple[Artefact, ...]
    notebooks: tuple[Notebook, ...]
    provenance: dict[str, dict]

    def describe(self, result_set: str) -> str:
        """Return a reader's name for a set of results, such as ``this run (quick)``."""
        found = {item.profile for item in self.artefacts if item.result_set == result_set}
        return described(result_set, ", ".join(sorted(found - {NO_PROFILE})))


def described(result_set: str, profile: str) -> str:
    """Return a reader's name for a set of results at a profile, which is left out where it says nothing."""
    name = RESULT_SETS.get(result_set, result_set)
    return name if profile in ("", NO_PROFILE, result_set) else f"{name} ({profile})"


def load_inputs(data: Path) -> Inputs:
    """Read everything below the folder `data`; raise a ReportError where something is missing or damaged."""
    notebooks = load_notebooks(data)
    if not notebooks:
        raise ReportError(
            f"no executed notebook in {data}; run `make repro` first, the report shows what it produced"
        )
    reference = data / "reference"
    stored = sorted((reference if reference.is_dir() else REFERENCE).glob("*/*.nc"))
    provenance = {
        f"{path.stem}, {path.parent.name}": _validated(dict, path.with_suffix(".json"))
        for path in stored
    }
    return Inputs(load_artefacts(data), notebooks, provenance)


def load_artefacts(data: Path) -> tuple[Artefact, ...]:
    """Return every artefact with a manifest in ``made/<notebook>/<set of results>/`` of the folder `data`."""
    if not data.is_dir():
        raise ReportError(f"no folder {data}; expected the one that holds made/")
    found = []
    for path in data.glob("made/*/*/*/*.json"):
        # A manifest is written last, so files without one are half-written and are not shown.
        notebook, result_set = path.parts[-4:-2]
        if (path.parents[1] / f"{notebook}.failed.ipynb").exists():
            continue  # written before its notebook failed, maybe in its checks
        place = {"result_set": result_set, "notebook": notebook, "manifest": path}
        found.append(_validated(Artefact, path, **place))
        for file in map(found[-1].path, SUFFIXES[found[-1].kind]):
            if not file.exists():
                said = f"{path} promises {file.name}, which is not there; run its notebook again"
                raise ReportError(said)
    return tuple(
        sorted(found, key=lambda i: (_place(i.result_set), i.notebook, i.manifest.stem, i.kind))
    )


def read_table(path: Path) -> pd.DataFrame:
    """Read a table of the pipeline; levels such as the noise ``none`` stay text."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def load_notebooks(data: Path) -> tuple[Notebook, ...]:
    """Return the executed notebooks in ``executed/`` and ``made/*/*/`` of the folder `data`, by name and set of results.

    The set of results is the notebook's parameter ``result_set``; one without it belongs to the pipeline's own run.
    """
    found = []
    # Hidden files are half-written, and what a failed run leaves for its author (see study.pipeline) is no result.
    paths = [*data.glob("executed/[!.]*.ipynb"), *data.glob("made/[!.]*/[!.]*/[!.]*.ipynb")]
    for path in sorted(path for path in paths if not path.name.endswith(".failed.ipynb")):
        try:
            result_set = str(read_parameters(path).get("result_set", "rebuilt"))
            found.append(Notebook(path, result_set, read_title(path)))
        except (NotebookError, OSError) as error:
            raise ReportError(
                f"cannot read the executed notebook {path} ({error}); run `make repro` again"
            ) from None
    for first, *others in groupby(attrgetter("page"), found).values():
        if others:
            raise ReportError(
                f"{first.path} and {others[0].path} show the same notebook and the same results; delete one of them"
            )
    return tuple(sorted(found, key=lambda one: (one.name, _place(one.result_set))))


def _validated(kind: type, path: Path, **more: object) -> Any:
    """Return the JSON object at `path` and `more` as a `kind`; a ReportError says what of it is wrong."""
    try:
        content = TypeAdapter(dict).validate_json(path.read_bytes())
        return TypeAdapter(kind).validate_python(content | more)
    except ValidationError as error:
        wrong = error.errors()[0]
        name = ".".join(map(str, wrong["loc"])) or "its content"
        got = "missing" if wrong["type"] == "missing" else format_value(wrong["input"])
        raise ReportError(
            f"{path}: {name} is {got} ({wrong['msg']}); write the file again"
        ) from None


def _place(result_set: str) -> tuple[int, str]:
    known = list(RESULT_SETS)
    return (known.index(result_set) if result_set in known else len(known), result_set)
