"""Statistics of results; nothing here knows how a network is trained.

``attempts``
    the factorial results as tables: one row per attempt, per measured epoch, per finished attempt.
``errors``, ``regimes``, ``quartiles``, ``selection``
    error rates (Table 1.7), the adjoint metric and its regimes (3.6, 3.7), learning quality, and which attempts a figure shows.
``design``, ``linear``, ``reml``
    linear models: their columns and what can be told from them; least squares and random intercepts with robust standard
    errors beside the model's; the criterion of a random intercept.
``accuracy``, ``task_models``, ``comparisons``, ``equality``, ``omnibus``
    chapter 1: task accuracy and the best configurations, a model of each task, and whether its coefficients (in pairs of tasks, and in one test), variances,
    convergence times and error rates are the same at all tasks.
``tenet``
    the twelve linear models of chapter 3 (Tables 3.5 to 3.8, A8 to A19).
``simulated``
    a dataset drawn from the published tables.
``padding``, ``balance``, ``gaps``, ``adding``, ``latching``
    the experiments of chapter 2 and section 3.6: each turns its dataset into tables and figures.
``resample``, ``unequal``
    how much estimates vary when other attempts had been trained, and models with variances of their own for each architecture.
``units``
    what the author's program measures in other units than ours.
``claims_*``
    what the results of an experiment say of the texts' claims (`lib.results.claims`).
"""
