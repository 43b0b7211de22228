"""The study: tasks, training, statistics, claims, figures and reports on the cells of `longrnn`."""

import os
import sys
from importlib.util import find_spec

from study.paths import CACHE, ROOT


def _check_requirements() -> None:
    """Refuse to be imported without the packages that ``pip install .`` leaves out."""
    for name in ("pandas", "papermill", "pydantic", "xarray"):
        if find_spec(name) is None:
            raise ImportError(
                f"study needs {name}, which is not installed; run `pip install .[study]` in the "
                "repository (`pip install .` installs only what longrnn needs)"
            )


# In a clone `make` installs them, and a GPU machine that only benchmarks does without.
if not (ROOT / "pyproject.toml").exists():
    _check_requirements()

# jsonschema, which nbformat imports, would build a grammar of internet addresses. That takes a
# second or two per notebook. Without this module it skips the check of addresses.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# The pipeline's compiled kernels stay in the repository, and notebooks' processes inherit this.
if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ.setdefault("LONGRNN_CACHE", str(CACHE / "numba"))
