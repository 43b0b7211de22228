"""Every benchmark notebook runs with smoke parameters."""

from pathlib import Path

import pandas as pd
import pytest
from notebook_runner import BENCHMARKS, notebook_runner


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    with notebook_runner(tmp_path_factory.mktemp("benchmarks")) as opened:
        yield opened


@pytest.mark.notebook
@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmark_runs_and_writes_its_table(runner, name):
    runner.validate(name)
    table = pd.read_csv(Path(runner.values(name)["out"]))
    assert {"what", "size", "baseline", "ratio", "machine"} <= set(table)
    assert len(table)
