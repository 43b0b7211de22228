"""Shared fixtures. Every test uses one thread: results are compared, and cores are few.

Tests marked ``gpu`` run if there is a GPU; otherwise they are left out, and the summary says so.
"""

import fcntl
import os
import shutil

# Before NumPy, Numba or torch are imported.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import pytest
from study.paths import DATA

# torch is imported late: the process that starts those of pytest-xdist does without it.


@pytest.fixture(scope="module")
def browser():
    """The installed Chromium.

    Without one tests skip, or fail with ``LTD_NO_SKIP=1`` in the environment. Requests to other
    hosts fail, visibly, on any machine.
    """
    names = ("chromium", "chromium-browser", "google-chrome")
    programs = [shutil.which(name) for name in names if shutil.which(name)]
    if not programs:
        reason = f"no Chromium on the PATH ({', '.join(names)}); install Debian's chromium"
        if os.environ.get("LTD_NO_SKIP") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright  # here: a GPU box does without

    with sync_playwright() as play:
        rules = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        chromium = play.chromium.launch(executable_path=programs[0], args=["--no-sandbox", rules])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """Let PyTorch compute in one thread even if the environment says otherwise."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _denormals_are_kept():
    """Undo what a job of another test set for its process: jobs flush denormals."""
    import torch

    torch.set_flush_denormal(False)


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The report of fabricated results, next to files of its builder that no page may show.

    The processes of pytest-xdist share it.
    """
    from fabricated_report import build_site  # and with it the report, which few tests need

    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / "site"
    folder.mkdir(exist_ok=True)
    with (base / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "report").exists():  # it appears when it is finished
            build_site(folder)
    return folder / "report"


BUILT = [DATA / "report"] if (DATA / "report" / "index.html").exists() else []
"""The real report, if the pipeline has run."""


@pytest.fixture(scope="session", params=["fabricated", *BUILT], ids=str)
def each_site(request):
    """The report of fabricated results and, if there is one, the real report."""
    return request.getfixturevalue("site") if request.param == "fabricated" else request.param


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """A folder with the digits, prepared."""
    from study.tasks.sources import prepare

    folder = tmp_path_factory.mktemp("prepared")
    prepare("digits", folder)
    return folder


@pytest.fixture
def raw(tmp_path, monkeypatch):
    """The folder that takes the place of data/raw; no mirror is set."""
    from study.tasks.sources import _fetch

    monkeypatch.delenv(_fetch.MIRROR, raising=False)
    monkeypatch.setattr(_fetch, "DATA", tmp_path / "data")
    return tmp_path / "data" / "raw"


@pytest.fixture(scope="session")
def shared_cluster():
    """A cluster that the tests share, in a thread of this process: that starts fast."""
    from dask.distributed import LocalCluster  # which a GPU box lacks
    from study.config.cluster import ClusterSettings

    one = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "memory_limit": 0}
    with LocalCluster(protocol="tcp://", dashboard_address="127.0.0.1:0", **one) as cluster:
        yield ClusterSettings(scheduler=cluster.scheduler_address, workers=0)


LONGEST = (
    *("test_notebooks", "test_cuda", "test_execute", "test_jobs", "test_instructions"),
    *("test_repro", "test_inputs", "test_report", "test_benchmark_notebooks", "test_kernels"),
    *("test_pipeline", "test_browser", "test_vmapped_pass", "test_layers"),
)
"""Slow files, which start first so that no process waits for them at the end.

`test_notebooks` compiles many kernels that `test_benchmark_notebooks` and `test_kernels` need, so
these start later: two processes would compile the same kernels twice.
"""


GPU_TESTS_LEFT_OUT = pytest.StashKey[bool]()


def pytest_collection_modifyitems(config, items):
    import torch

    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(LONGEST)))
    without = [item for item in items if item.get_closest_marker("gpu")]
    if without and not torch.cuda.is_available():
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]
        config.stash[GPU_TESTS_LEFT_OUT] = True
        if hasattr(config, "workeroutput"):  # this process sends it to the one that started it
            config.workeroutput["gpu_tests_left_out"] = True


@pytest.hookimpl(optionalhook=True)  # pytest-xdist calls it
def pytest_testnodedown(node):
    if getattr(node, "workeroutput", {}).get("gpu_tests_left_out"):
        node.config.stash[GPU_TESTS_LEFT_OUT] = True


def pytest_terminal_summary(terminalreporter):
    if terminalreporter.config.stash.get(GPU_TESTS_LEFT_OUT, False):
        terminalreporter.write_line("tests that need an NVIDIA GPU are left out: there is none")
