"""Every benchmark notebook runs with smoke parameters."""

from pathlib import Path

import pandas as pd
import pytest
from notebook_house import BENCHMARKS, open_house


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with open_house(tmp_path_factory.mktemp("benchmarks")) as opened:
        yield opened


@pytest.mark.notebook
@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmark_runs_and_writes_its_table(house, name):
    house.validate(name)
    table = pd.read_csv(Path(house.values(name)["out"]))
    assert {"what", "size", "baseline", "ratio", "machine"} <= set(table)
    assert len(table)
