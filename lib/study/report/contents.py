"""The figures, tables, notebooks and stored results that the site shows.

`study.report.inputs` reads them.
"""

from dataclasses import dataclass
from pathlib import Path

from study.results.manifest import TOYS, Manifest, Name

SUFFIXES = {"table": (".csv",), "figure": (".png", ".svg", ".csv"), "claims": (".csv",)}
"""The files of each kind of artifact, next to its manifest; the first is the one to show."""
RESULT_SETS = {
    "rebuilt": "this run",
    "reference": "stored reference",
    "rates": "stored reference, also the largest learning rate",
    "short": "stored reference, shorter sequences",
    "simulated": "drawn from the published models",
}
"""Readers' names for the result sets, in the order of the site; unknown ones come last."""
_EXPLANATIONS = {
    "rebuilt": "computed on this machine",
    "reference": "our results on real data, stored in the repository",
    "rates": "stored results that include the largest learning rate, at which more runs fail",
    "short": "stored results on shorter sequences",
    "simulated": "drawn with the dissertation's own coefficients: they only test the analysis",
}
STORED = ("reference", "rates", "short")
"""Result sets that are stored in the repository."""
SIMULATED = "simulated"
"""Set of results that no network was trained for: it is never evidence."""
NO_PROFILE = "none"
"""Profile of an artifact that needs neither data nor training."""


class ReportError(RuntimeError):
    """The report cannot be built; the message says what is missing and what to do."""


class Artifact(Manifest):
    """One figure or table that a notebook made from one set of results."""

    result_set: Name
    notebook: Name
    manifest: Path

    @property
    def toy(self) -> bool:
        """Whether it shows that the pipeline works, and is not evidence."""
        return self.profile in TOYS

    @property
    def files(self) -> str:
        """Address of its files inside the site, without suffix."""
        return f"files/{self.kind}s/{self.result_set}/{self.notebook}/{self.manifest.stem}"

    def path(self, suffix: str) -> Path:
        """Return the path of one of the artifact's files.

        Parameters
        ----------
        suffix : str
            Such as ``.csv``.

        Returns
        -------
        Path
            The file of that suffix, whether or not it exists.
        """
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
class Provenance:
    """How a stored result was made.

    Attributes
    ----------
    content : dict
        The record as it was written.
    attempts : int
        Training attempts; 0 if the record does not say.
    cost_hours : float
        Hours of one processor core; 0 if the record does not say.
    """

    content: dict
    attempts: int = 0
    cost_hours: float = 0.0


@dataclass(frozen=True)
class Inputs:
    """Everything the site is made of."""

    artifacts: tuple[Artifact, ...]
    notebooks: tuple[Notebook, ...]
    provenance: dict[str, Provenance]

    def describe(self, result_set: str) -> str:
        """Return a reader's name for a set of results, with its profile.

        Parameters
        ----------
        result_set : str
            Its name in the pipeline.

        Returns
        -------
        str
            Such as ``this run (quick)``.
        """
        profiles = {item.profile for item in self.artifacts if item.result_set == result_set}
        return result_set_label(result_set, ", ".join(sorted(profiles - {NO_PROFILE})))


def result_set_label(result_set: str, profile: str) -> str:
    """Return a reader's name for a set of results.

    Parameters
    ----------
    result_set : str
        Its name in the pipeline.
    profile : str
        Its profile.

    Returns
    -------
    str
        Such as ``this run (quick)``; without the profile if that says nothing more.
    """
    name = RESULT_SETS.get(result_set, result_set)
    if profile in ("", NO_PROFILE, result_set):
        return name
    return f"{name} ({profile})"


def explain_results(result_set: str, profile: str) -> str:
    """Explain a reader's name for a set of results.

    Parameters
    ----------
    result_set : str
        Its name in the pipeline.
    profile : str
        Its profile.

    Returns
    -------
    str
        Empty if there is nothing to explain.
    """
    parts = []
    if result_set in _EXPLANATIONS:
        parts.append(_EXPLANATIONS[result_set])
    if profile not in ("", NO_PROFILE, result_set):
        parts.append(f"{profile}: the profile of params.yaml, which sets all sizes")
    return "; ".join(parts)
