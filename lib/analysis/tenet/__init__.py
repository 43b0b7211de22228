"""The tenet of the dissertation's chapter 3 as twelve linear models: if gradients vanish, learning is poor.

``models``
    the twelve models as data: formula, rows, LaTeX, reason for the random effect.
``rows``
    the observations they are fitted to, with an account of those that cannot be.
``fits``
    the models fitted (`lib.analysis.linear`).
``compare``
    our tables beside the published ones, in their order and with their names.
``diagnostics``
    the residuals, and each architecture on its own.
``claims``
    what the text concludes from its tables, asked of any tables.
"""
