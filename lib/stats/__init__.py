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
"""
