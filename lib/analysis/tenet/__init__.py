"""The tenet of the dissertation's chapter 3 as twelve linear models: if gradients vanish, learning is poor.

``models``
    the twelve models as data: formula, rows, LaTeX, reason for the random effect.
``rows``
    the observations they are fitted to, with an account of those that cannot be.
``design``
    design matrices; what a smaller experiment cannot estimate is dropped with its cause.
``fits``
    estimates, standard errors, variances and summaries of a model.
``compare``
    our tables beside the published ones, in their order and with their names.
``claims``
    what the text concludes from its tables, asked of any tables.
"""
