"""The notebooks of the pipeline, run with smoke parameters in a folder of the tests."""

import os
from collections.abc import Mapping
from pathlib import Path

from designs import loaded
from processes import python

from lib.paths import NOTEBOOKS
from lib.run.notebooks import read_parameters

ALL = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
TRAINS = "10_train"
"""Trains everything, a dataset for each group."""
SMALL = {
    "34_recovery": {"seeds": 4, "small_seeds": 2},
    "51_unicornn_memory": {"seeds": 1, "points": 3},
    "54_irnn_theory": {"draws": 20},
    "80_bench_cpu": {"rounds": 1},
    "81_bench_statistics": {"rounds": 1, "models": "1"},
    "82_time_figure_1": {"rounds": 1, "lengths": "32"},
    "83_bench_coadjoint": {"rounds": 1, "lengths": "28"},
    "84_bench_adding": {"rounds": 1},
    "85_bill_of_the_factorial": {"cells": "rnn unicornn", "widths": "128"},
}
"""What takes long where less shows as well that a notebook runs."""


class House:
    """A folder laid out as `data/`, in which notebooks run in the order of the pipeline, each once."""

    def __init__(self, data: Path, environment: Mapping[str, str]) -> None:
        self.data = data
        self.environment = environment
        self.prepared = data / "prepared"
        self._done: dict[str, Path] = {}

    def run(self, name: str) -> Path:
        """Run the notebook `name` after those that it needs; return its executed copy."""
        if name not in self._done:
            for earlier in self._needs(name):
                self.run(earlier)
            self._done[name] = self._execute(name)
        return self._done[name]

    def _needs(self, name: str) -> list[str]:
        parameters = read_parameters(NOTEBOOKS / f"{name}.ipynb")
        needed = []
        if "prepared" in parameters:
            needed.append(ALL[0])
        if "results" in parameters:
            results = self._results(name)
            if results.parent.name == "results" and results.stem in loaded("smoke").designs:
                needed.append(TRAINS)
            needed += [other for other in ALL if self.written(other) == results]
        if "data_dir" in parameters:
            needed += [other for other in ALL if "2" <= other < "8"]
        return needed

    def written(self, name: str) -> Path | None:
        """Return the dataset, or folder of datasets, that a training or a simulation writes, None for other notebooks."""
        if not name.startswith("1"):
            return None
        # By hand they write where the pipeline does, below data/interactive.
        out = str(read_parameters(NOTEBOOKS / f"{name}.ipynb")["out"]).replace("interactive/", "")
        return self.data.parent / out

    def _results(self, name: str) -> Path:
        """Return the dataset that an analysis is run for here: where it may be a stored one, this run's."""
        default = read_parameters(NOTEBOOKS / f"{name}.ipynb").get("results", "")
        return self.data.parent / str(default).replace("reference/real", "results")

    def _values(self, name: str) -> dict[str, str]:
        """Return a value for every parameter that says where something lies."""
        outs = {
            "0": self.prepared,
            "1": self.written(name),
            "8": self.data / "tables" / f"{name}.csv",
            "9": self.data / "coverage.csv",
        }
        values = {
            "profile": "smoke",
            "prepared": self.prepared,
            "results": self._results(name),
            "cache": self.data / "cache",
            "data_dir": self.data,
            "result_set": "rebuilt",
            "out": outs.get(name[0], self.data),
        }
        known = read_parameters(NOTEBOOKS / f"{name}.ipynb")
        values = {key: value for key, value in values.items() if key in known}
        return {key: str(value) for key, value in (values | SMALL.get(name, {})).items()}

    def _execute(self, name: str) -> Path:
        folder = self.data / (f"made/{name}/rebuilt" if "2" <= name < "8" else "executed")
        executed = folder / f"{name}.ipynb"
        values = self._values(name)
        given = [text for pair in values.items() for text in ("-p", *pair)]
        command = "-m", "lib.run", f"notebooks/{name}.ipynb", executed, *given
        done = python(*command, env={**os.environ, **self.environment}, timeout=None)
        assert done.returncode == 0, done.stderr
        return executed
