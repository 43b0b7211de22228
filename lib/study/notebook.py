"""Open results in an analysis notebook, show its answers, and close them.

Every analysis notebook begins with `open_results` and ends with `close_results`.
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import xarray as xr
from IPython.display import Markdown, display

from study.figures.style import use_style
from study.paths import NOTEBOOKS, resolve
from study.pipeline.notebooks import read_parameters
from study.results.artifact_files import style_table
from study.results.artifacts import Artifacts
from study.results.data_used import maker_of
from study.results.datasets import load
from study.results.names import column_words
from study.results.netcdf import ResultsError
from study.results.rows import NAME as ROWS
from study.results.schema import count_ends, settings_of

PACKAGES = ("numpy", "scipy", "pandas", "xarray", "statsmodels", "matplotlib", "torch")
"""Packages that numbers and figures depend on."""


def open_results(
    results: str | Path,
    out: str | Path,
    *,
    notebook: str,
    result_set: str,
    tasks: tuple[str, ...] = (),
    networks: tuple[str, ...] = (),
    published_scale: dict[str, int] | None = None,
) -> tuple[xr.Dataset, Artifacts]:
    """Open the results that a notebook analyzes; figures get the project's style.

    Parameters
    ----------
    results
        The dataset's file, from the repository root.
    out
        Folder for figures and tables.
    notebook
        Name of the notebook, without suffix.
    result_set
        Which set of results they are, such as ``rebuilt``.
    tasks
        Makers of tasks that the notebook needs, such as ``"adding"``.
    networks
        Labels of networks that the notebook needs.
    published_scale
        Size of the paper's experiment: the largest value of each of these variables, coordinates
        or settings, such as ``{"width": 256}``. The artifacts count as made at published scale if
        the results have the same.

    Returns
    -------
    tuple
        The dataset, and the `Artifacts` that show and save its figures and tables.

    Raises
    ------
    ResultsError
        The file is missing, damaged, or holds the results of another experiment.
    """
    use_style()
    path = resolve(results)
    if not path.parent.is_dir():
        raise ResultsError(
            f"no results at {results}: {path.parent} is not a folder; stored results are in "
            "data/reference/real, those of `make repro` in data/results"
        )
    ds = load(path)
    _check_group(ds, path, notebook)
    _check_contents(ds, path, notebook, tasks, networks)
    artifacts = Artifacts(
        out,
        ds=ds,
        notebook=notebook,
        result_set=result_set,
        published_scale=_has_published_size(ds, published_scale),
    )
    return ds, artifacts


def bullets(lines: Iterable[str]) -> Markdown:
    """Return sentences as a list.

    Parameters
    ----------
    lines
        The sentences, in Markdown.

    Returns
    -------
    IPython.display.Markdown
        The list.
    """
    return Markdown("\n".join(f"- {line}" for line in lines))


def show_values(
    values: Mapping[str, object] | pd.DataFrame, name: str, *, precision: int = 3
) -> None:
    """Display named values, or a small table, without saving them.

    Parameters
    ----------
    values
        A value by name, or a table; row labels are shown unless they only number the rows.
    name
        Identifier of the table in the page's HTML, unique in the notebook; with it, equal results
        give equal notebooks.
    precision
        Decimals of the displayed numbers.
    """
    if isinstance(values, pd.DataFrame):
        frame = values
    else:
        frame = pd.DataFrame({"value": pd.Series(values, dtype=object)})
    display(style_table(frame, precision=precision).set_uuid(name))


def close_results(ds: xr.Dataset) -> None:
    """Print how many runs completed or diverged, and the versions of the packages used.

    Parameters
    ----------
    ds
        The results.

    Raises
    ------
    ResultsError
        A run of a group did not run. Other designs count missing runs in their tables.
    """
    counts = count_ends(ds["status"])
    ends = [f"{count:,} {column_words(end)}" for end, count in counts.items()]
    print("status:", ", ".join(ends))
    if counts["missing"] and "run" in ds.dims:
        raise ResultsError(f"{counts['missing']} runs of the design are missing; run `make repro`")
    print("\n".join(f"{name} {version(name)}" for name in PACKAGES))


def _check_group(ds: xr.Dataset, path: Path, notebook: str) -> None:
    """Refuse results of another group, or of another kind, than the notebook's default."""
    source = NOTEBOOKS / f"{notebook}.ipynb"
    if not source.is_file():  # a notebook outside of the repository may read anything
        return
    default = resolve(str(read_parameters(source).get("results", path)))
    if ds.attrs["schema"] == ROWS:
        if path.stem != default.stem:
            raise ResultsError(
                f"{notebook} analyzes the results {default.stem!r}, got {path.stem!r}; "
                f"pass -p results <folder>/{default.name}"
            )
    elif _kind(ds) not in default.stem:  # short_factorial.nc holds factorial results, too
        raise ResultsError(
            f"{notebook} analyzes the results {default.stem!r}, "
            f"{path.name} holds results of the schema {ds.attrs['schema']!r}"
        )


def _kind(ds: xr.Dataset) -> str:
    """Return the name of the experiment; simulated results have that of the one they imitate."""
    return ds.attrs["schema"].partition("/")[0].removeprefix("simulated_")


def _check_contents(
    ds: xr.Dataset, path: Path, notebook: str, tasks: tuple[str, ...], networks: tuple[str, ...]
) -> None:
    """Refuse results without the tasks and networks that a notebook needs."""
    makers = []
    if tasks:
        makers = list(dict.fromkeys(map(maker_of, ds["task_settings"].values)))
    labels = []
    if "label" in ds:
        labels = list(dict.fromkeys(ds["label"].values.tolist()))
    missing = [name for name in tasks if name not in makers]
    missing += [name for name in networks if name not in labels]
    if not missing:
        return
    holds = ", ".join(labels) or "no networks"
    if makers:
        holds += f" on {', '.join(makers)}"
    raise ResultsError(
        f"{notebook} needs {', '.join(map(repr, missing))}; {path.name} holds {holds}"
    )


def _has_published_size(ds: xr.Dataset, published_scale: dict[str, int] | None) -> bool:
    """Return whether the results have the size of the paper's experiment."""
    if published_scale is None:
        return False
    settings = settings_of(ds)
    for name, size in published_scale.items():
        largest = settings.get(name)
        if name in ds:
            largest = ds[name].max()
        if largest != size:
            return False
    return True
