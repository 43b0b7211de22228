"""Run notebooks with smoke parameters in one folder, in the order of the pipeline."""

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from processes import python
from study.paths import NOTEBOOKS
from study.pipeline import fork_server
from study.pipeline.notebooks import read_parameters

ALL = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
BENCHMARKS = [name for name in ALL if "8" <= name < "9"]
"""They need no other notebook, so they are tested in a file, and a process, of their own."""
SMALL = {
    "23_adjoint_regimes": {"kink_epochs": 2},
    "34_recovery": {"seeds": 4, "small_seeds": 1},
    "41_linear_networks": {"ceiling_starts": 10},
    "49_train_one_network": {"steps": 50},
    "51_unicornn_memory": {"seeds": 1, "claim_seeds": 2, "points": 3},
    "54_irnn_theory": {"draws": 20},
    "80_bench_cpu": {"rounds": 1},
    "81_bench_statistics": {"rounds": 1, "models": "1"},
    "82_time_figure_1": {"rounds": 2, "lengths": "32"},
    "83_bench_coadjoint": {"rounds": 1, "lengths": "28", "memory_length": 100},
    "84_bench_adding": {"rounds": 1},
    "85_bill_of_the_factorial": {"cells": "rnn unicornn", "widths": "128"},
    "86_conformance": {"layers": "LRU"},
}
"""Parameters with which notebooks that take long take less."""
IMPORTED = ("longrnn.cells", "study.training.profile", "study.claims.models", "study.notebook")
"""Our modules that the process to fork notebooks from imports."""


class NotebookRunner:
    """Runs notebooks in one folder, each once and after those that it needs, in forks."""

    def __init__(self, folder: Path, socket: str) -> None:
        self.data = folder / "data"
        self.run = functools.cache(self._run)
        self._environment = {**os.environ, fork_server.SOCKET: socket}

    def values(self, name: str) -> dict[str, str]:
        """Return the parameters of a notebook: paths below `data`, all else small."""
        known = read_parameters(NOTEBOOKS / f"{name}.ipynb")
        values = {"profile": "smoke", "result_set": "rebuilt", **SMALL.get(name, {})}
        for key, default in known.items():
            if str(default).startswith("data"):
                # Notebooks run by hand write below data/interactive; the stored results are here
                # those of this run.
                place = default.replace("/interactive", "").replace("reference/real", "results")
                values[key] = self.data.parent / place
        return {key: str(value) for key, value in values.items() if key in known}

    def _run(self, name: str) -> Path:
        """Run a notebook after those that it needs; return its executed copy."""
        needed = []
        if name < "8":
            needed = [other for other in ALL if other < min(name, "2")]
        elif name >= "9":
            needed = [other for other in ALL if other < "8"]
        for other in needed:
            self.run(other)
        folder = self.data / "executed"
        if "2" <= name < "8":
            folder = self.data / "made" / name / "rebuilt"
        given = [text for pair in self.values(name).items() for text in ("-p", *pair)]
        command = (
            "-m",
            "study.pipeline",
            f"notebooks/{name}.ipynb",
            folder / f"{name}.ipynb",
            *given,
        )
        done = python(*command, env=self._environment, timeout=None)
        assert done.returncode == 0, done.stderr
        return folder / f"{name}.ipynb"

    def validate(self, name: str) -> None:
        """Run a notebook; every code cell must have run, and every output be valid."""
        executed = nbformat.read(self.run(name), as_version=4)
        nbformat.validate(executed)
        code = [cell for cell in executed.cells if cell.cell_type == "code"]
        assert all(cell.execution_count for cell in code if cell.source.strip())


@contextmanager
def notebook_runner(folder: Path) -> Iterator[NotebookRunner]:
    """Start the process that notebooks are forked from; end it afterwards."""
    with fork_server.serving(*IMPORTED):
        socket = os.environ.pop(fork_server.SOCKET)  # other tests start their own
        yield NotebookRunner(folder, socket)
