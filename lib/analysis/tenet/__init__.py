"""The tenet of the dissertation's chapter 3 as twelve linear models: if gradients vanish, learning is poor.

``models``
    the twelve models as data: response, rows, terms.
``rows``
    the observations they are fitted to, with an account of those that cannot be.
``fits``
    the models fitted, once for each view of the metric, and one frame of all their coefficients.
"""
