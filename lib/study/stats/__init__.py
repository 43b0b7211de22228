"""Statistics of results; nothing here knows how a network is trained.

- ``attempts``, ``regimes``: the factorial results as tables: error rates, the adjoint metric and
  its regimes.
- ``design``, ``linear``, ``reml``, ``resample``: linear models: what can be told from their
  columns; least squares and random intercepts with robust errors; what varies with the attempts.
- ``accuracy``, ``task_models``, ``comparisons``: chapter 1: task accuracy, a model of each task,
  and whether behaviours are the same at all tasks.
- ``tenet``, ``simulated``: the twelve linear models of chapter 3, and a dataset drawn from their
  published tables.
- ``incremental``, ``scales``, ``gaps``: the experiments on rows, of chapter 2 and of section 3.6.
- ``power``, ``treatments``: the smallest detectable effect; how Figures 3.4 and 3.5 choose
  attempts.

What results say about the papers' claims is in `study.claims`.
"""
