"""Statistics of the factorial experiment; nothing here knows how a network is trained.

``attempts``
    the results as tables: one row per attempt, per measured epoch, per finished attempt.
``errors``
    how often training fails numerically, with intervals (Table 1.7).
``regimes``
    the adjoint metric and its regimes (3.6, 3.7).
``quartiles``
    learning quality relative to all attempts at a task.
``tables``
    counts by task, architecture, quartile and regime (Tables 3.4, A4 to A7).
``ranks``
    whether two measurements order attempts the same way.
``selection``
    which attempts a figure shows, by stated rules (Figures 3.4, 3.5).
``reml``
    a random intercept estimated from sums over groups.
``tenet``
    the twelve linear models of chapter 3 (Tables 3.5 to 3.8, A8 to A19).

Chapter 1, on tasks:

``accuracy``, ``best``, ``accounting``
    task accuracy (1.5), the maximising configurations, and which attempts entered an analysis.
``terms``, ``estimable``, ``linear``
    a linear model of each task, and which of its coefficients the attempts at hand can tell.
``first_order``, ``second_order``
    the models (1.8) and (1.11) (Tables A1, A3).
``pairwise``, ``variance``, ``convergence``
    whether coefficients, variances and convergence times are the same at all tasks (Tables 1.5, 1.6, A2).
``generalisation``, ``behaviours``
    the verdicts (Table 1.4), and every behaviour by task and architecture.
"""
