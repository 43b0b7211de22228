"""The study: tasks, training, statistics, claims, figures and reports on the cells of `longrnn`."""

import os
import sys
from importlib.util import find_spec

from study.paths import CACHE, ROOT

# `pip install .` copies this package without the packages that it needs. In a clone `make` installs
# them, and a GPU machine that only benchmarks does without, so nothing is checked there.
if not (ROOT / "pyproject.toml").exists():
    for _name in ("pandas", "papermill", "pydantic", "xarray"):
        if find_spec(_name) is None:
            raise ImportError(
                f"study needs {_name}, which is not installed; run `pip install .[study]` in the "
                "repository (`pip install .` installs only what longrnn needs)"
            )

# jsonschema, which nbformat imports, would build a grammar of internet addresses. That takes a
# second or two per notebook. Without this module it skips the check of addresses.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# The pipeline's compiled kernels stay in the repository, and notebooks' processes inherit this.
if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ.setdefault("LONGRNN_CACHE", str(CACHE / "numba"))
