"""What all tests share: one thread each, because they compare results and several processes share few cores.

Tests marked ``gpu`` run where there is a GPU; elsewhere they are left out, which a line of the summary says.
"""

import os

# Before NumPy, Numba or torch are imported.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import pytest
import torch
from chromium import NAMES, Chromium, find_chromium

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def browser():
    """A Chromium for all tests; without one they skip, or fail with ``LTD_NO_SKIP=1`` in the environment."""
    program = find_chromium()
    if program is None:
        reason = (
            f"no Chromium on the PATH (looked for {', '.join(NAMES)}); install Debian's chromium"
        )
        if os.environ.get("LTD_NO_SKIP") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with Chromium(program) as chromium:
        yield chromium


@pytest.fixture(scope="session")
def house(request, tmp_path_factory):
    """A folder in which the notebooks are run."""
    from house import House  # and with it the experiments, which few tests need

    house = House(tmp_path_factory.mktemp("house") / "data")
    yield house
    house.end()


@pytest.fixture(scope="session")
def scheduler():
    """Address of a cluster that the tests share, a thread of this process: starting others takes longer than a small study."""
    from dask.distributed import LocalCluster  # which a GPU box lacks

    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        dashboard_address="127.0.0.1:0",
        memory_limit=0,
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="session", autouse=True)
def _notebooks_ahead(request):
    """Run the notebooks that tests ask for from the first test on, where a second core is idle."""
    asked = [
        item.callspec.params["name"]
        for item in request.session.items
        if "house" in getattr(item, "fixturenames", ())
    ]
    if len(asked) > 1 and len(os.sched_getaffinity(0)) > 1:
        request.getfixturevalue("house").start(asked)


_LEFT_OUT = pytest.StashKey[int]()


@pytest.hookimpl(trylast=True)  # what -m and -k leave
def pytest_collection_modifyitems(config, items):
    if torch.cuda.is_available():
        return
    without = [item for item in items if item.get_closest_marker("gpu")]
    if without:
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]
    config.stash[_LEFT_OUT] = len(without)


def pytest_terminal_summary(terminalreporter, config):
    if count := config.stash.get(_LEFT_OUT, 0):
        terminalreporter.write_line(f"left out for want of an NVIDIA GPU: {count} tests")
