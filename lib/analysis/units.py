"""Units in which the author's public program measures, where ours are others.

It differentiates the mean loss of a batch; here an adjoint belongs to its own example's loss, as in Algorithm 2 of the text. Its adjoints
are `BATCH` times smaller, and the coadjoint penalty (2.20), a sum of squares, is `KAPPA` times smaller: a weight kappa here does
what `KAPPA` times kappa does there.
"""

BATCH = 32
KAPPA = BATCH**2
