"""The study: tasks, training, statistics, claims, figures and reports on the cells of `longrnn`.

Results pass through the packages in this order. The docstring of each lists its modules.

1. `config` reads the settings of a profile from ``params.yaml``.
2. `tasks` makes the data.
3. `training` trains networks and writes one dataset per group.
4. `results` says what a dataset contains, and makes tables from it.
5. `stats` fits models to these tables.
6. `claims` compares the results with what the papers say.
7. `figures` and `report` show all this.

An analysis notebook opens its results with `notebook`. `pipeline` runs the notebooks that do these
steps, and `bench` measures speed.

Words with a special meaning here:

profile
    A scale of all experiments: ``quick``, ``real``, ``paper`` and others.
run
    One network on one task with one value of each setting. It is trained once per *replicate*;
    replicates differ in their random numbers alone.
group
    The runs whose results are in one file, or a design.
design
    An experiment that trains all combinations of the levels of its factors. It has a section of its
    own in ``params.yaml``.
attempt
    In the factorial experiment: one replicate of one combination. The dissertation calls a
    combination a *treatment*. In `training`, a treatment is instead what an intervention does to
    gradients.
job
    What a worker process trains and caches at once: one replicate of a run, or a part of a design.
data set, dataset
    What networks are trained on is a data set. A dataset (`xarray.Dataset`) has the results of a
    group.
set of results
    Where results come from: ``rebuilt`` (trained here), ``reference`` (stored in
    ``data/reference``) or ``simulated``.
engine
    A function that runs a cell over whole sequences (`longrnn.kernels`). A cell may have several,
    such as compiled CPU code and a CUDA kernel, with equal results up to rounding.
adjoint metric
    The dissertation's measure of vanishing gradients: log10 of the gradient's norm at the first
    time step, relative to the last.
artifact
    A figure or table. Its id is in ``data/published/artifacts.csv``, or begins with ``own-``.
claim, judge, verdict
    A claim is a statement of a paper that our results could refute. Its judge estimates the
    quantity that decides it, with a 95% interval. The verdict follows from this interval.
"""

import os
import sys

from study.paths import CACHE

# jsonschema, which nbformat imports, would build a grammar of internet addresses. That takes a
# second or two per notebook. Without this module it skips the check of addresses.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# The pipeline's compiled kernels stay in the repository, and notebooks' processes inherit this.
if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ.setdefault("LONGRNN_CACHE", str(CACHE / "numba"))
