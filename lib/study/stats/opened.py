"""What every notebook of an analysis does: open results, say what it computes as sentences, and close."""

import json
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import xarray as xr
from IPython.display import Markdown

from study.figures import use_style
from study.paths import resolve
from study.results.artefacts import Artefacts
from study.results.schema import ResultsError, count_ends, load, settings_of

PACKAGES = ("numpy", "scipy", "pandas", "xarray", "statsmodels", "matplotlib", "torch")
"""What numbers and figures depend on."""


def open_results(
    results: str | Path,
    out: str | Path,
    *,
    notebook: str,
    result_set: str,
    tasks: tuple[str, ...] = (),
    networks: tuple[str, ...] = (),
    published_scale: dict[str, int] | None = None,
) -> tuple[xr.Dataset, Artefacts]:
    """Return the results in a file and what shows and keeps the artefacts made of them; figures have the project's look.

    `tasks` are makers of tasks, such as ``"adding"``, and `networks` labels that the notebook cannot do without; `published_scale` is the
    size of the text's experiment: variables, coordinates or settings of the results, and their largest values there.
    Raises ResultsError: the file is missing, is none, or holds results of something else.
    """
    use_style()
    path = resolve(results)
    ds = load(path)
    settings = [json.loads(text) for text in ds["task_settings"].values] if tasks else []
    makers = dict.fromkeys(one.get("task", "") for one in settings)
    labels = dict.fromkeys(ds["label"].values.tolist() if "label" in ds else ())
    if lacking := [*(set(tasks) - set(makers)), *(name for name in networks if name not in labels)]:
        raise ResultsError(
            f"{notebook} needs {', '.join(map(repr, lacking))}; {path.name} holds "
            f"{', '.join(labels or ['no networks'])}" + f" on {', '.join(makers)}" * bool(makers)
        )
    at_scale = published_scale is not None and all(
        (ds[name].max() if name in ds else settings_of(ds).get(name)) == size
        for name, size in published_scale.items()
    )
    about = {"notebook": notebook, "result_set": result_set, "published_scale": at_scale}
    return ds, Artefacts(out, ds=ds, **about)


def bullets(lines: Iterable[str]) -> Markdown:
    """Return sentences as a list."""
    return Markdown("\n".join(f"- {line}" for line in lines))


def close_results(ds: xr.Dataset) -> None:
    """Print how the trainings behind the results ended, and the versions of what made numbers of them.

    Raises ResultsError: a training among the rows did not run. Designs count those of theirs in their tables.
    """
    counts = count_ends(ds["status"])
    print("status:", ", ".join(f"{count} {end}" for end, count in counts.items()))
    if counts["missing"] and "run" in ds.dims:
        raise ResultsError(f"{counts['missing']} trainings of the design did not run")
    print("\n".join(f"{name} {version(name)}" for name in PACKAGES))
