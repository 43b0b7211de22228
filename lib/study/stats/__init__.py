"""Statistics of results, independent of how networks are trained.

- ``attempts``, ``regimes``: the factorial results as tables: error rates, the adjoint metric and
  its regimes.
- ``design``, ``reml``, ``linear``, ``variances``, ``resample``: linear models: which coefficients
  the columns determine; restricted maximum likelihood; least squares and random intercepts with
  robust errors; unequal variances; the bootstrap over treatments.
- ``accuracy``, ``task_models``, ``group_tests``, ``comparisons``: chapter 1: task accuracy, a model
  of each task, and whether coefficients and behaviors are the same at all tasks.
- ``observations``, ``tenet``, ``simulated``: the observations and twelve linear models of chapter
  3, and a dataset drawn from their published tables.
- ``gaps``, ``padded_images``, ``scales``, ``incremental``: chapter 2 and section 3.6, and the
  three papers on single cells.
- ``power``, ``treatments``: the smallest detectable effect; how Figures 3.4 and 3.5 choose
  attempts.
- ``opened``: how an analysis notebook opens and closes its results.

What the results say about the papers' claims is in `study.claims`.
"""
