"""The study: tasks, training, statistics, claims, figures and reports on the cells of `longrnn`."""

import os
import sys

from study.paths import CACHE

# jsonschema, which nbformat imports, would build a grammar of internet addresses. That takes a
# second or two per notebook. Without this module it skips the check of addresses.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# The pipeline's compiled kernels stay in the repository, and notebooks' processes inherit this.
if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ.setdefault("LONGRNN_CACHE", str(CACHE / "numba"))
