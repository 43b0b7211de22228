"""Which dataset a notebook writes or reads, and which sets of results there are of it."""

from pathlib import Path

from lib.paths import ROOT
from lib.run.notebooks import NotebookError, read_parameters

ANALYSES = "[2-7]*.ipynb"
EXPERIMENTS = "1[1-9]_*.ipynb"

RESULTS = "data/results"
REFERENCE = "data/reference/real"
SIMULATED = f"{RESULTS}/simulated"

_SIMULATE = "simulate"
_FULL_SIZE = range(25, 40)
"""Numbers of the notebooks of chapters 1 and 3, which are also run at the size of the original experiment."""


def written(notebook: Path) -> str:
    """Return the file that an experiment's notebook writes.

    ``12_train_adding`` writes ``data/results/adding.nc``, ``15_simulate_factorial`` what follows the same schema without
    training, ``data/results/simulated/factorial.nc``.
    """
    parts = notebook.stem.split("_", 2)
    if len(parts) < 3:
        raise NotebookError(f"{notebook.name}: expected a name such as 12_train_adding.ipynb")
    _, verb, name = parts
    return f"{SIMULATED if verb == _SIMULATE else RESULTS}/{name}.nc"


def read(notebook: Path) -> str:
    """Return the name of the dataset that a notebook's parameter ``results`` means, or an empty string."""
    return Path(str(read_parameters(notebook).get("results", ""))).stem


def result_sets(notebook: Path, root: Path = ROOT) -> dict[str, str]:
    """Return label and file of each set of results that a notebook is run for.

    These are what this run makes (``rebuilt``), the stored reference if there is one, and for the statistics of the
    factorial experiment the dataset simulated at full size. A notebook whose default is a simulated dataset is run
    for that alone. A notebook that reads no results has no sets.
    """
    default = str(read_parameters(notebook).get("results", ""))
    if not default:
        return {}
    name = Path(default).stem
    if default.startswith(f"{SIMULATED}/"):
        return {"simulated": default}
    sets = {"rebuilt": f"{RESULTS}/{name}.nc"}
    if (root / REFERENCE / f"{name}.nc").exists():
        sets["reference"] = f"{REFERENCE}/{name}.nc"
    simulated = any((root / "notebooks").glob(f"1[1-9]_{_SIMULATE}_{name}.ipynb"))
    if simulated and int(notebook.stem[:2]) in _FULL_SIZE:
        sets["simulated"] = f"{SIMULATED}/{name}.nc"
    return sets
