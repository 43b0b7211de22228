"""Statistics of results, independent of how networks are trained.

- ``attempts``, ``regimes``: the factorial results as tables: error rates, the adjoint metric and
  its regimes.
- ``terms``, ``covariates``, ``design``, ``estimability``: the columns of a linear model, and which
  coefficients they determine.
- ``linear``, ``reml``, ``variances``, ``robust_errors``, ``resample``: fits of a linear model:
  least squares and random intercepts; restricted maximum likelihood; unequal variances; robust
  errors; the bootstrap over treatments.
- ``accuracy``, ``convergence``, ``task_models``, ``task_pairs``, ``group_tests``, ``comparisons``:
  chapter 1: task accuracy, convergence times, a model of each task, and whether coefficients and
  behaviors are the same at all tasks.
- ``observations``, ``tenet_models``, ``tenet``, ``within_groups``: chapter 3: the observations,
  the twelve models and their fits, and how accuracy and adjoint metric are related within tasks.
- ``published_models``, ``simulated``: the published models of chapter 3, and a dataset drawn from
  them.
- ``gaps``, ``padded_images``: chapter 2; ``latching``: section 3.6; ``scales``, ``incremental``:
  the three papers on single cells.
- ``power``, ``predictions``, ``treatments``: the smallest detectable effect; predictions that were
  written down before the runs; how Figures 3.4 and 3.5 choose attempts.

What the results say about the papers' claims is in `study.claims`.
"""
